"""Rows of numbers that become known one after another, in memory or, where they are many, in a file."""

import errno
import mmap
import os
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float32
from torch import Tensor

IN_MEMORY = 1 << 28  # bytes
BLOCK = 4096  # rows that are moved at a time


class VectorRows:
    """n rows of d numbers. Those in a file cost no memory while they are written; the file has no name and goes with
    its reader."""

    def __init__(self, n: int, d: int, *, folder: Path | None = None, in_memory: int = IN_MEMORY) -> None:
        self.shape, self.is_known = (n, d), torch.zeros(n, dtype=torch.bool)
        self._file = None if 4 * n * d <= in_memory else nameless_file(4 * n * d, folder)
        if self._file is not None:
            weakref.finalize(self, os.close, self._file)
        self._rows = torch.empty(n, d) if self._file is None else None

    def put(self, positions: Sequence[int], rows: Float32[Tensor, "m d"]) -> None:
        self.is_known[list(positions)] = True
        if self._rows is not None:
            self._rows[list(positions)] = rows
            return
        assert self._file is not None
        for position, row in zip(positions, rows.contiguous().numpy(), strict=True):
            os.pwrite(self._file, row.tobytes(), 4 * self.shape[1] * position)

    def known(self) -> Float32[Tensor, "m d"]:
        """The rows that are known, in order, one behind the other; nothing can be put afterwards."""
        kept = self.is_known.nonzero().flatten()
        rows = self._rows
        if rows is None:
            assert self._file is not None
            n, d = self.shape
            rows = torch.frombuffer(mmap.mmap(self._file, 4 * n * d), dtype=torch.float32).view(n, d)
        for start in range(0, len(kept) if len(kept) < len(rows) else 0, BLOCK):
            some = kept[start : start + BLOCK]
            rows[start : start + len(some)] = rows[some]
        return rows[: len(kept)]


def nameless_file(n_bytes: int, folder: Path | None) -> int | None:
    """The number of an open file, in the folder if there is one, with room on the disk; None where there is none.

    A write into a mapped file on a full disk would end the process, so the room is taken at once.
    """
    if not hasattr(os, "posix_fallocate"):
        return None
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, n_bytes)
            return os.dup(file.fileno())
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EOPNOTSUPP, errno.EINVAL, errno.EFBIG):
            return None
        raise
