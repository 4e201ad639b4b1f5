"""Read `.npz` and `.npy` files safely: no code in them is run, and their headers are not trusted."""

import contextlib
import math
import os
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from jaxtyping import Shaped

from laplacenet.data.files import open_regular, reason_of
from laplacenet.runtime import InputError
from laplacenet.runtime.memory import free_memory

NPY = ".npy"
NPY_MAGIC = b"\x93NUMPY"
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what numpy writes
LARGEST_SHARE_OF_MEMORY = 0.5
DAMAGE = (ValueError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)


@contextlib.contextmanager
def open_npz(path: Path) -> Iterator[Mapping[str, Any]]:
    """The file's arrays by name, each read when it is first used; anything but plain arrays is refused."""
    with _named_errors(path, ".npz file of plain arrays"), open_regular(path) as file:
        if file.read(len(NPY_MAGIC)) == NPY_MAGIC:
            raise InputError(f"{path}: holds a single array; expected an .npz file (numpy.savez)")
        with zipfile.ZipFile(file) as archive:
            yield _Arrays(archive)


def read_npy(path: Path) -> Shaped[np.ndarray, "..."]:
    """The one array in a `.npy` file."""
    with _named_errors(path, ".npy file of a plain array"), open_regular(path) as file:
        return _read_array(file, n_bytes=os.fstat(file.fileno()).st_size)


@contextlib.contextmanager
def _named_errors(path: Path, expected: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except DAMAGE as error:
        raise InputError(f"{path}: not a readable {expected} ({reason_of(error)})") from error
    except MemoryError as error:
        raise InputError(f"{path}: too large for this machine's memory") from error


class _Arrays(Mapping[str, Any]):
    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._members = {member.filename.removesuffix(NPY): member for member in archive.infolist()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, key: str) -> Shaped[np.ndarray, "..."]:
        member = self._members[key]
        if member.compress_type not in COMPRESSIONS:
            raise ValueError(f"{key} is compressed in a way that numpy does not write")
        with self._archive.open(member) as file:
            # zipfile never gives more than the size that the archive declares, so this bounds what a bomb can become
            array = _read_array(file, n_bytes=member.file_size)
            file.read(1)  # the checksum is compared when the end is reached
            return array


def _read_array(file: IO[bytes] | zipfile.ZipExtFile, *, n_bytes: int) -> Shaped[np.ndarray, "..."]:
    """An array whose header agrees with the `n_bytes` that the file has; nothing is allocated before that is known."""
    shape, dtype = _read_header(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never loaded; save numbers or texts")
    expected = math.prod(shape) * dtype.itemsize
    if dtype.itemsize == 0 or dtype.kind == "V" or any(length < 0 for length in shape):
        raise ValueError(f"its header says {dtype} {shape}")
    if expected != n_bytes - file.tell():
        raise ValueError(f"its header says {expected} bytes of {dtype} {shape}, it has {n_bytes - file.tell()}")
    if expected > LARGEST_SHARE_OF_MEMORY * free_memory():
        gibibytes = 2**30
        raise ValueError(
            f"it would take {expected / gibibytes:.1f} GiB, more than half of the {free_memory() / gibibytes:.1f} free"
        )
    file.seek(0)
    array = np.asarray(np.lib.format.read_array(file, allow_pickle=False))
    if dtype.kind == "U" and _largest_character(array) > sys.maxunicode:
        raise ValueError("its texts hold invalid characters")
    return array


def _largest_character(texts: Shaped[np.ndarray, "..."]) -> int:
    """numpy stores texts as numbers and looks at them only when one becomes a `str`, which may end the process."""
    numbers = np.dtype(np.uint32).newbyteorder(texts.dtype.byteorder)
    return int(np.frombuffer(texts.tobytes(), numbers).max(initial=0))


def _read_header(file: IO[bytes] | zipfile.ZipExtFile) -> tuple[tuple[int, ...], np.dtype[Any]]:
    try:
        version = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(file)
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error):
        raise
    except Exception as error:  # numpy parses a header as a Python literal, which can fail in any way
        raise ValueError(f"its header is damaged ({type(error).__name__})") from error
    return shape, dtype
