"""Tiny CIFAR files in the official layout, pickled as Python 2 did, opcode by opcode; a JPEG written block by block."""

import io
import pickle
import re
import struct
import tarfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def python2_pickle(value: Any) -> bytes:
    """Protocol 2 with Python 2's byte strings and numpy's old module names."""
    return pickle.PROTO + b"\x02" + _body(value) + pickle.STOP


def _body(value: Any) -> bytes:
    if value is None:
        return pickle.NONE
    if isinstance(value, bool):
        return pickle.NEWTRUE if value else pickle.NEWFALSE
    if isinstance(value, int):
        return pickle.BININT + struct.pack("<i", value)
    if isinstance(value, str | bytes):
        text = value.encode() if isinstance(value, str) else value
        return pickle.BINSTRING + struct.pack("<i", len(text)) + text
    if isinstance(value, tuple):
        return pickle.MARK + b"".join(map(_body, value)) + pickle.TUPLE
    if isinstance(value, list):
        return pickle.EMPTY_LIST + pickle.MARK + b"".join(map(_body, value)) + pickle.APPENDS
    if isinstance(value, dict):
        pairs = b"".join(_body(key) + _body(item) for key, item in value.items())
        return pickle.EMPTY_DICT + pickle.MARK + pairs + pickle.SETITEMS
    assert isinstance(value, np.ndarray)
    return _array(value)


def _array(value: np.ndarray) -> bytes:
    dtype = _global("numpy", "dtype") + _body((value.dtype.str[1:], 0, 1)) + pickle.REDUCE
    dtype += _body((3, "|", None, None, None, -1, -1, 0)) + pickle.BUILD
    empty = pickle.MARK + _global("numpy", "ndarray") + _body((0,)) + _body("b") + pickle.TUPLE
    state = pickle.MARK + _body(1) + _body(value.shape) + dtype + _body(False) + _body(value.tobytes()) + pickle.TUPLE
    return _global("numpy.core.multiarray", "_reconstruct") + empty + pickle.REDUCE + state + pickle.BUILD


def _global(module: str, name: str) -> bytes:
    return pickle.GLOBAL + f"{module}\n{name}\n".encode()


def cifar_rows(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, 3072), dtype=np.uint8)


def cifar10_files(n: int = 4) -> dict[str, dict[str, Any]]:
    """The contents of each file of a CIFAR-10 with n images a batch."""
    files: dict[str, dict[str, Any]] = {
        f"data_batch_{number}": {
            "batch_label": f"training batch {number} of 5",
            "labels": [(number + row) % 10 for row in range(n)],
            "data": cifar_rows(n, number),
            "filenames": [f"picture_{number}_{row}.png" for row in range(n)],
        }
        for number in range(1, 6)
    }
    files["test_batch"] = {"labels": [row % 10 for row in range(n)], "data": cifar_rows(n, 6)}
    files["batches.meta"] = {"num_cases_per_batch": n, "label_names": [f"kind{k}" for k in range(10)], "num_vis": 3072}
    return files


def cifar100_files(n: int = 4) -> dict[str, dict[str, Any]]:
    """The contents of each file of a CIFAR-100 with n images a part."""
    return {
        "train": {"fine_labels": list(range(n)), "coarse_labels": [0] * n, "data": cifar_rows(n, 1)},
        "test": {"fine_labels": list(range(n))[::-1], "coarse_labels": [0] * n, "data": cifar_rows(n, 2)},
        "meta": {"fine_label_names": [f"fine{k}" for k in range(100)], "coarse_label_names": ["all"]},
    }


def write_files(folder: Path, files: dict[str, dict[str, Any]]) -> Path:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(python2_pickle(content))
    return folder


def write_archive(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def archive_of(folder: str, files: dict) -> dict[str, bytes]:
    return {f"{folder}/{name}": python2_pickle(content) for name, content in files.items()}


def flat_jpeg(side: int, *, n_blocks: int | None = None, progressive: bool = False) -> bytes:
    """A grey JPEG of any size without ever holding its pixels: every block of 8×8 is the same six bits, 00 1010."""
    small = io.BytesIO()
    Image.new("L", (8, 8), 128).save(small, "JPEG", progressive=progressive)
    content = small.getvalue()
    frame = content.index(b"\xff\xc2" if progressive else b"\xff\xc0")
    content = content[: frame + 5] + struct.pack(">HH", side, side) + content[frame + 9 :]
    scan = content.index(b"\xff\xda")
    (length,) = struct.unpack(">H", content[scan + 2 : scan + 4])
    blocks = ((side + 7) // 8) ** 2 if n_blocks is None else n_blocks
    return content[: scan + 2 + length] + bytes([0x28, 0xA2, 0x8A]) * ((blocks + 3) // 4) + b"\xff\xd9"


def enlarged(content: bytes, side: int) -> bytes:
    """A PNG, BMP, GIF or TIFF file with another width and height in its header, and the data that it had."""
    little = side.to_bytes(4, "little")
    if content.startswith(b"\x89PNG"):
        header = b"IHDR" + side.to_bytes(4, "big") * 2 + content[24:29]
        return content[:12] + header + zlib.crc32(header).to_bytes(4, "big") + content[33:]
    if content.startswith(b"BM"):
        return content[:18] + little * 2 + content[26:]
    if content.startswith(b"GIF"):
        return content[:6] + little[:2] * 2 + content[10:]
    for tag in (256, 257):
        content = re.sub(
            re.escape(struct.pack("<H", tag)) + rb"[\x03\x04]\0\x01\0\0\0....",
            lambda _, tag=tag: struct.pack("<HHI", tag, 4, 1) + little,
            content,
            flags=re.DOTALL,
        )
    return content
