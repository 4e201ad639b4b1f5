"""A table of vectors that is filled row by row, in memory or, if it is large, in a temporary file."""

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

LARGEST_IN_MEMORY = 1 << 28  # bytes
BLOCK = 4096  # rows moved at a time


class VectorRows:
    """n rows of d numbers, of which some are filled.

    A table in a file takes no memory while it is written; the file has no name and is deleted with this object.
    """

    def __init__(
        self, n: int, d: int, *, folder: Path | None = None, largest_in_memory: int = LARGEST_IN_MEMORY
    ) -> None:
        self.shape, self.is_filled = (n, d), torch.zeros(n, dtype=torch.bool)
        self._file = None if 4 * n * d <= largest_in_memory else unnamed_file(4 * n * d, folder)
        if self._file is not None:
            weakref.finalize(self, os.close, self._file)
        self._rows = torch.empty(n, d) if self._file is None else None

    def put(self, positions: Sequence[int], rows: Float32[Tensor, "m d"]) -> None:
        self.is_filled[list(positions)] = True
        if self._rows is not None:
            self._rows[list(positions)] = rows
            return
        assert self._file is not None
        for position, row in zip(positions, rows.contiguous().numpy(), strict=True):
            os.pwrite(self._file, row.tobytes(), 4 * self.shape[1] * position)

    def compact(self) -> Float32[Tensor, "m d"]:
        """The filled rows, in order, moved together at the start; call it once, after the last `put`."""
        kept = self.is_filled.nonzero().flatten()
        rows = self._rows
        if rows is None:
            assert self._file is not None
            n, d = self.shape
            rows = torch.frombuffer(mmap.mmap(self._file, 4 * n * d), dtype=torch.float32).view(n, d)
        for start in range(0, len(kept) if len(kept) < len(rows) else 0, BLOCK):
            some = kept[start : start + BLOCK]
            rows[start : start + len(some)] = rows[some]
        return rows[: len(kept)]


def unnamed_file(n_bytes: int, folder: Path | None) -> int | None:
    """The descriptor of a temporary file of this size, in the folder if one is given; None if the disk is full.

    All of its space is allocated now: writing to a mapped file on a full disk would kill the process.
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
