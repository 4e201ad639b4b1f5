"""Exact neighbors on a CPU by int8 scalar quantization with exact re-ranking.

Features are turned by a random rotation, so that no coordinate stands out, and quantized to 8 bits. The norm of the
quantization error bounds how far an int8 score can lie from the true one: a point whose int8 score is further than
twice that bound below the k-th best is no neighbor. The others, a hundred or two, are scored in full precision, so the
result is exact.
"""

import functools
import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int, Int8, Int32
from torch import Tensor

from laplacenet.graph.search.exact import exact_rows
from laplacenet.graph.search.selection import best_of_each
from laplacenet.graph.search.sharing import Found, of_all, own_rows
from laplacenet.graph.sparse import compressed_rows
from laplacenet.runtime import stream
from laplacenet.runtime.group import ALONE, Group
from laplacenet.runtime.threads import by_pieces

CHUNK_WIDTH = 32  # scores whose maximum is taken first; narrower ones are no faster to reduce
GROUPS_PER_NEIGHBOR = 8  # maxima among which the k-th is sought, for each of the k
BLOCK_BYTES = 1 << 25  # of int8 scores, which are read again while the cache holds most of them
# A score by itself takes as long as 16 within a product of blocks, and a row with more than this share of its chunks
# near the best leaves at least every 23rd point as a candidate. More than one such row in 16 do not pay.
CROWDED_SHARE, MOST_CROWDED = 3 / 4, 1 / 16
PIECE = 2048  # rows that one thread searches after one another
MOST_FEATURES = 8192  # so many products of 8 bits, and the bounds on them, stay far from the ends of 32
NEVER = -(1 << 30)


@dataclass(frozen=True)
class Quantized:
    """Points in 8 bits, followed by zeros up to whole groups of chunks.

    Of the scores of point i, one that lies `slack[i]` below another is below it in full precision too.
    """

    points: Int8[Tensor, "columns d"]
    slack: Int32[Tensor, " n"]


def can_quantize(X: Float[Tensor, "n d"], k: int) -> bool:
    """Whether int8 products are available and there are enough points for them to pay."""
    n, d = X.shape
    return X.device.type == "cpu" and has_int8_products() and 0 < k <= n // (2 * CHUNK_WIDTH) and d <= MOST_FEATURES


def has_int8_products() -> bool:
    """Whether torch can multiply int8 matrices exactly here, and fast.

    Without VNNI instructions, which ONEDNN_MAX_CPU_ISA may switch off, a sum of two products saturates, and no bound
    would hold: so the largest products are tried. The functions are private to torch: where a version lacks one, the
    search takes products in full precision instead.
    """
    is_vnni_supported = getattr(torch.cpu, "_is_vnni_supported", None)
    if is_vnni_supported is None or not hasattr(torch, "_int_mm") or not is_vnni_supported():
        return False
    largest = torch.full((CHUNK_WIDTH, CHUNK_WIDTH), 127, dtype=torch.int8)
    signed = largest * torch.tensor([[1], [-1]], dtype=torch.int8).repeat(CHUNK_WIDTH // 2, 1)
    return torch.equal(torch._int_mm(signed, signed.T), signed.int() @ signed.int().T)


def int8_neighbors(X: Float[Tensor, "n d"], k: int, group: Group = ALONE) -> Found:
    """Similarities and indices of the k nearest neighbors of every row.

    Points are taken in random order: neighbors then lie in different chunks, and one block is like the next.
    """
    n = len(X)
    order = torch.from_numpy(stream(0, "graph/screening").permutation(n))
    points = X[order]
    quantized = quantize(points, k)
    own = own_rows(n, PIECE, group)
    similarities, found = X.new_empty(own.stop - own.start, k), torch.empty(own.stop - own.start, k, dtype=torch.int64)

    def search(rows: slice) -> None:
        here = slice(rows.start - own.start, rows.stop - own.start)
        similarities[here], found[here] = _search(points, quantized, rows, k)

    by_pieces(search, [slice(start, min(start + PIECE, own.stop)) for start in range(own.start, own.stop, PIECE)])
    similarities, found = of_all(similarities, found, group)
    back = order.argsort()
    return similarities[back], order[found[back]]


def _search(
    points: Float[Tensor, "n d"], quantized: Quantized, rows: slice, k: int
) -> tuple[Float[Tensor, "m k"], Int[Tensor, "m k"]]:
    """Block after block; if one leaves too many candidates, it and the rest are searched in full precision."""
    n_columns = len(quantized.points)
    found = []
    scores = torch.empty(max(16, BLOCK_BYTES // (4 * n_columns)), n_columns, dtype=torch.int32)
    start = rows.start
    while start < rows.stop:
        block = slice(start, min(start + len(scores), rows.stop))
        candidates = _candidates(quantized, block, scores[: block.stop - start], k)
        if candidates is None:
            found.append(exact_rows(points, torch.arange(start, rows.stop), k))
            break
        found.append(_best(points, block, *candidates, k=k))
        start = block.stop
    similarities, indices = zip(*found, strict=True)
    return torch.cat(similarities), torch.cat(indices)


def quantize(points: Float[Tensor, "n d"], k: int) -> Quantized:
    """The points in 8 bits, and for each how far two of its scores can be off together.

    With x = a + r and y = b + s, where a and b are kept and r and s are lost, xy − ab = ry + as.
    """
    n, d = points.shape
    rotated = points @ rotation(d).to(points.dtype)
    rotated /= float(rotated.abs().max()) / 127 or 1.0
    unit = CHUNK_WIDTH * _chunks_per_group(n, k)
    kept = torch.zeros(math.ceil(n / unit) * unit, d, dtype=torch.int8)
    kept[:n] = rotated.round()
    length = torch.linalg.vector_norm(rotated, dim=1)
    # The rotation is rounded too.
    lost = torch.linalg.vector_norm(rotated.sub_(kept[:n]), dim=1) + d**1.5 * torch.finfo(points.dtype).eps * length
    error = lost * length.max() + (length + lost) * lost.max()
    return Quantized(kept, (2 * error + 2).clamp_(max=-NEVER - 1).to(torch.int32))


@functools.lru_cache(maxsize=1)
def rotation(d: int) -> Float64[Tensor, "d d"]:
    """An orthogonal matrix: products stay as they are, and large coordinates are spread over all.

    Every pass over one network's features needs the same one, and its QR decomposition takes d³ operations: the last is
    kept. Callers must not write to it.
    """
    noise = torch.from_numpy(stream(0, "graph/rotation").standard_normal((d, d)))
    orthogonal: Tensor = torch.linalg.qr(noise).Q
    return orthogonal


def _chunks_per_group(n: int, k: int) -> int:
    return max(1, n // (CHUNK_WIDTH * GROUPS_PER_NEIGHBOR * k))


def _candidates(
    quantized: Quantized, rows: slice, scores: Int32[Tensor, "m columns"], k: int
) -> tuple[Int[Tensor, " candidates"], Int[Tensor, " candidates"]] | None:
    """Row within the block and column of every score that may be among the k best of its row, row after row.

    None where there are too many of them.
    """
    m, n_columns = scores.shape
    n = len(quantized.slack)
    torch._int_mm(quantized.points[rows], quantized.points.T, out=scores)
    scores[:, n:] = NEVER
    scores.diagonal(rows.start).fill_(NEVER)
    chunks = scores.view(-1, CHUNK_WIDTH)
    maxima = chunks.amax(1).view(m, -1)
    groups = maxima.view(m, _chunks_per_group(n, k), -1).amax(1)
    # k groups hold k scores no smaller than the k-th of their maxima: the k-th best score is no smaller either.
    least = groups.topk(k, dim=1, sorted=False).values.amin(1) - quantized.slack[rows]
    near = (maxima >= least[:, None]).flatten().nonzero().flatten()
    row_of_chunk = near // maxima.shape[1]
    is_crowded = row_of_chunk.bincount(minlength=m) > CROWDED_SHARE * maxima.shape[1]
    if is_crowded.sum() > MOST_CROWDED * m:
        return None
    is_candidate = chunks.index_select(0, near) >= least.index_select(0, row_of_chunk)[:, None]
    place = is_candidate.flatten().nonzero().flatten()
    place = near.index_select(0, place // CHUNK_WIDTH) * CHUNK_WIDTH + place % CHUNK_WIDTH
    row = place // n_columns
    return row, place - row * n_columns


def _best(
    points: Float[Tensor, "n d"],
    rows: slice,
    row: Int[Tensor, " candidates"],
    column: Int[Tensor, " candidates"],
    *,
    k: int,
) -> tuple[Float[Tensor, "m k"], Int[Tensor, "m k"]]:
    """The k best candidates of each row by their scores in full precision."""
    queries = points[rows]
    starts = torch.searchsorted(row, torch.arange(len(queries) + 1))
    asked = compressed_rows(starts, column, points.new_zeros(len(row)), n_columns=len(points))
    scores = torch.sparse.sampled_addmm(asked, queries, points.T).values()
    similarities, best = best_of_each(row, scores, k, n_rows=len(queries))
    return similarities, column[best]
