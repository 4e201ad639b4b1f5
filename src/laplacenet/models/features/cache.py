"""A cache on disk for the vectors of pictures.

A picture is known by its path, inode, size, and times of modification and change; a network by its name, its weights'
fingerprint, its pixels and the version of the preprocessing. Each run adds files and changes none. A file is named
after the SHA-256 of its content, so that one that a crash or the disk has damaged is found and left out.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from laplacenet.models.features.network import FeatureNetwork
from laplacenet.runtime import InputError, read_whole
from laplacenet.runtime.cache_folder import FOLDER_VARIABLE, cache_folder
from laplacenet.runtime.files import write_named

__all__ = ["FOLDER_VARIABLE", "VectorCache", "cache_folder", "picture_key"]
PREPROCESSING = 1  # raise it whenever the same file would give other pixels
SUFFIX = ".vectors"
KEY_BYTES = 20


def picture_key(path: Path) -> bytes | None:
    """A key for this state of the file; None if its status cannot be read.

    Size and modification time alone would not: two pictures of one archive may share both, and change places.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    numbers = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    told = f"{numbers} ".encode() + os.fsencode(os.path.abspath(path))  # noqa: PTH100 - links stay
    return hashlib.sha256(told).digest()[:KEY_BYTES]


class VectorCache:
    """The vectors of one network."""

    def __init__(self, root: Path, network: FeatureNetwork) -> None:
        name = re.sub(r"[^A-Za-z0-9.]+", "-", Path(network.name).name).strip("-.")
        precision = "bf16" if network.device.type == "cuda" else "fp32"
        told = f"{name}-{network.fingerprint[:16]}-{network.pixels}px-{precision}-v{PREPROCESSING}"
        self.folder = root / "features" / told
        self.n_features = network.n_features

    def find(self, keys: Sequence[bytes | None]) -> dict[int, Float32[Tensor, " d"]]:
        """The vector of each position whose picture is known."""
        return {
            position: vector
            for positions, vectors in self.tables(keys)
            for position, vector in zip(positions, vectors, strict=True)
        }

    def tables(self, keys: Sequence[bytes | None]) -> Iterator[tuple[list[int], Float32[Tensor, "m d"]]]:
        """The same, one cache file at a time: positions and their vectors."""
        places: dict[bytes, list[int]] = {}
        for position, key in enumerate(keys):
            if key is not None:
                places.setdefault(key, []).append(position)
        for path in sorted(self.folder.glob(f"*{SUFFIX}")) if places else []:
            known, vectors = self._read(path)
            found = [(position, row) for row, key in enumerate(known) for position in places.get(key, [])]
            if found:
                yield [position for position, _ in found], vectors[[row for _, row in found]]

    def add(self, keys: Sequence[bytes], vectors: Float32[Tensor, "n d"]) -> None:
        table = torch.from_numpy(np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, KEY_BYTES).copy())
        content = save_tensors({"keys": table, "vectors": vectors.contiguous()})
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            remedy = f"name another folder by {FOLDER_VARIABLE}"
            raise InputError(f"{self.folder}: cannot keep vectors there ({error.strerror}); {remedy}") from error
        # another process may add the same vectors at this moment
        write_named(self.folder / f"{hashlib.sha256(content).hexdigest()}{SUFFIX}", content)

    def _read(self, path: Path) -> tuple[list[bytes], Float32[Tensor, "m d"]]:
        """The keys and vectors of a file; none where it is damaged."""
        nothing: tuple[list[bytes], Tensor] = [], torch.empty(0, self.n_features)
        try:
            content = read_whole(path)
            if hashlib.sha256(content).hexdigest() != path.stem:
                return nothing
            tensors = load_tensors(content)
            keys, vectors = tensors["keys"].numpy(), tensors["vectors"]
        except (InputError, SafetensorError, KeyError):
            return nothing
        if vectors.shape != (len(keys), self.n_features):
            return nothing
        return [key.tobytes() for key in keys], vectors
