"""The k nearest neighbors of every point by inner product, exact, in bounded memory."""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from laplacenet.graph.arrays import Array, as_floating
from laplacenet.runtime import InputError

# One block of scores; larger blocks gain nothing, and a CPU's must leave room for the data.
BLOCK_BYTES = {"cpu": 1 << 26, "cuda": 1 << 31}


@dataclass(frozen=True)
class Neighbors:
    """Row i holds the k points with the largest inner product with point i, best first, never i itself."""

    indices: Int[Tensor, "n k"]
    similarities: Float[Tensor, "n k"]
    recall: float | None = None
    """Share of true neighbors found, estimated on a sample of rows; None where the search is exact."""


@torch.no_grad()
def nearest_neighbors(features: Num[Array, "n d"], *, k: int) -> Neighbors:
    """Exact neighbors by inner product of the features as given; k is cut to n − 1."""
    X = as_floating(features)
    if k < 1 or len(X) < 1:
        raise InputError(f"neighbors of {len(X)} points with k = {k}; give at least one point and k of at least 1")
    n, k = len(X), min(k, len(X) - 1)
    indices = torch.empty(n, k, dtype=torch.int64, device=X.device)
    similarities = torch.empty(n, k, dtype=X.dtype, device=X.device)
    if k:
        with full_precision(X.device):
            _search(X, indices, similarities)
    return Neighbors(indices, similarities)


def _search(X: Float[Tensor, "n d"], indices: Int[Tensor, "n k"], similarities: Float[Tensor, "n k"]) -> None:
    n, k = indices.shape
    width = chunk_width(n, k)
    n_padded = math.ceil(n / width) * width
    n_rows = min(n, max(1, BLOCK_BYTES.get(X.device.type, 1 << 26) // (n_padded * X.element_size())))
    scores = torch.empty(n_rows, n_padded, dtype=X.dtype, device=X.device)
    scores[:, n:] = -math.inf
    for start in range(0, n, n_rows):
        stop = min(start + n_rows, n)
        block = scores[: stop - start]
        torch.mm(X[start:stop], X.T, out=block[:, :n])
        block[:, start:stop].fill_diagonal_(-math.inf)
        similarities[start:stop], indices[start:stop] = top_k(block, k, width)


def chunk_width(n: int, k: int) -> int:
    """The power of two that balances the two selections of `top_k`: n/width chunks, then k·width scores."""
    return 1 << min(7, max(5, round(math.log2(n / k) / 2)))


def top_k(
    scores: Float[Tensor, "rows columns"], k: int, width: int
) -> tuple[Float[Tensor, "rows k"], Int[Tensor, "rows k"]]:
    """The k largest scores of each row and their columns, best first.

    A chunk of columns whose maximum is not among the k largest maxima holds nothing that k other scores do not
    reach, so only the k best chunks are searched: a maximum is far cheaper than a selection.
    """
    n_rows, n_columns = scores.shape
    n_chunks = n_columns // width
    if n_chunks <= 2 * k:
        values, columns = scores.topk(k, dim=1)
        return values, columns
    chunks = scores.view(n_rows, n_chunks, width)
    best_chunks = chunks.amax(2).topk(k, dim=1, sorted=False).indices
    candidates = chunks.gather(1, best_chunks[:, :, None].expand(-1, -1, width)).view(n_rows, k * width)
    values, places = candidates.topk(k, dim=1)
    columns = best_chunks.gather(1, places // width) * width + places % width
    return values, columns


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
