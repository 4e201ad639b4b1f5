"""Exact neighbors by brute force: the product of all pairs in blocks, and the k largest scores of each row."""

import contextlib
import math
from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

# One block of scores; larger blocks gain nothing, and a CPU's must leave room for the data.
BLOCK_BYTES = {"cpu": 1 << 27, "cuda": 1 << 31}


def exact_rows(
    X: Float[Tensor, "n d"], rows: Int[Tensor, " m"], k: int
) -> tuple[Float[Tensor, "m k"], Int[Tensor, "m k"]]:
    """Similarities and indices of the k nearest neighbors of these rows, found in blocks of bounded size."""
    n, m = len(X), len(rows)
    similarities, indices = X.new_empty(m, k), torch.empty(m, k, dtype=torch.int64, device=X.device)
    if k == 0:
        return similarities, indices
    n_padded, width = padded_columns(n, k)
    n_rows = max(1, min(m, rows_at_once(X, k)))
    scores = X.new_full((n_rows, n_padded), -math.inf)
    with full_precision(X.device):
        for start in range(0, m, n_rows):
            some = rows[start : start + n_rows]
            block = scores[: len(some)]
            torch.mm(X[some], X.T, out=block[:, :n])
            block.scatter_(1, some[:, None], -math.inf)
            similarities[start : start + n_rows], indices[start : start + n_rows] = top_k(block, k, width)
    return similarities, indices


def rows_at_once(X: Float[Tensor, "n d"], k: int) -> int:
    """The rows of a block of scores."""
    return max(1, BLOCK_BYTES[X.device.type] // (padded_columns(len(X), k)[0] * X.element_size()))


def padded_columns(n: int, k: int) -> tuple[int, int]:
    """The columns of n scores filled up to whole chunks, and the width of a chunk."""
    width = chunk_width(n, k)
    return math.ceil(n / width) * width, width


def chunk_width(n: int, k: int) -> int:
    """The power of two that balances the two selections of `top_k`: among n/width chunks, then among k·width scores."""
    return 1 << min(6, max(3, round(math.log2(n / k) / 2) - 1))


def top_k(
    scores: Float[Tensor, "rows columns"], k: int, width: int
) -> tuple[Float[Tensor, "rows k"], Int[Tensor, "rows k"]]:
    """The k largest scores of each row and their columns, best first.

    A chunk of columns whose maximum is not among the k largest maxima holds nothing that k other scores do not
    reach, so only the k best chunks are searched: a maximum is far cheaper than a selection. The columns of a chunk
    lie n_chunks apart, because a maximum across lines of memory is faster than one along them on a GPU.
    """
    n_rows, n_columns = scores.shape
    n_chunks = n_columns // width
    if n_chunks <= 2 * k:
        values, columns = scores.topk(k, dim=1)
        return values, columns
    chunks = scores.view(n_rows, width, n_chunks)
    best_chunks = chunks.amax(1).topk(k, dim=1, sorted=False).indices
    candidates = chunks.gather(2, best_chunks[:, None, :].expand(-1, width, -1)).view(n_rows, width * k)
    values, places = candidates.topk(k, dim=1)
    return values, places // k * n_chunks + best_chunks.gather(1, places % k)


@contextlib.contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Products in the precision of their operands, whatever the caller allows for its network."""
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    try:
        with torch.autocast(device_type=device.type, enabled=False):
            yield
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
