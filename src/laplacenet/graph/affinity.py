"""The weighted graph over the points: W, its degrees, its normalized form 𝒲, and the Laplacian energy."""

import itertools
import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from laplacenet.graph.search import Neighbors
from laplacenet.graph.sparse import compressed_rows

ROWS_AT_ONCE = 1 << 19
EDGES_AT_ONCE = 1 << 26  # a block of W is sorted in about 32 bytes for each edge in both directions


@torch.no_grad()
def affinity(neighbors: Neighbors) -> Float[Tensor, "n n"]:
    """W, sparse CSR: the similarity where i is among j's nearest neighbors or j among i's, else 0.

    Symmetric (the larger of the two directions), no self-loops, negative similarities become 0. Made in blocks of rows,
    so that beside W itself little memory is needed. Indices have 32 bits where they fit, for they multiply faster.
    """
    n, k = neighbors.indices.shape
    index_type = torch.int32 if max(n, 2 * n * k) < 2**31 else torch.int64
    n_blocks = max(1, math.ceil(2 * n * k / EDGES_AT_ONCE))
    bounds = [n * number // n_blocks for number in range(n_blocks + 1)]
    counts, columns, values = zip(
        *(rows_of_affinity(neighbors, range(first, last), index_type) for first, last in itertools.pairwise(bounds)),
        strict=True,
    )
    starts = torch.nn.functional.pad(torch.cat(counts).cumsum(0), (1, 0)).to(index_type)
    return compressed_rows(starts, torch.cat(columns), torch.cat(values), n_columns=n)


def rows_of_affinity(
    neighbors: Neighbors, rows: range, index_type: torch.dtype
) -> tuple[Int[Tensor, " rows"], Int[Tensor, " nnz"], Float[Tensor, " nnz"]]:
    """The entries of some rows of W: how many each row has, their columns in order, their values."""
    n, k = neighbors.indices.shape
    j, own = neighbors.indices.flatten(), slice(rows.start * k, rows.stop * k)
    i = torch.arange(rows.start, rows.stop, device=j.device).repeat_interleave(k)
    coming = ((j >= rows.start) & (j < rows.stop)).nonzero().flatten()
    # Each directed edge enters in both orders under the key row·n + column: one sort makes rows and merges pairs.
    keys, order = torch.cat([(i - rows.start) * n + j[own], (j[coming] - rows.start) * n + coming // k]).sort()
    similarities = neighbors.similarities.flatten()
    values = torch.cat([similarities[own], similarities[coming]])[order]
    is_second = keys[1:] == keys[:-1]
    values[:-1] = torch.where(is_second, torch.maximum(values[:-1], values[1:]), values[:-1])
    is_kept = values > 0
    is_kept[1:] &= ~is_second
    keys, values = keys[is_kept], values[is_kept]
    starts = torch.searchsorted(keys, torch.arange(len(rows) + 1, device=j.device) * n)
    return starts.diff(), (keys % n).to(index_type), values


def degrees(W: Float[Tensor, "n n"]) -> Float[Tensor, " n"]:
    """The diagonal of the paper's D: the row sums of W."""
    return (W @ W.values().new_ones(W.shape[0], 1)).flatten()


@torch.no_grad()
def normalize(W: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
    """𝒲 = D^(−1/2) W D^(−1/2); the row of an isolated point stays zero."""
    degree = degrees(W)
    scale = torch.where(degree > 0, degree.rsqrt(), 0)
    starts, columns, values = W.crow_indices(), W.col_indices(), W.values().clone()
    for first in range(0, len(scale), ROWS_AT_ONCE):
        some = starts[first : first + ROWS_AT_ONCE + 1]
        entries = slice(int(some[0]), int(some[-1]))
        of_row = scale[first : first + ROWS_AT_ONCE].repeat_interleave(
            some.diff(), output_size=entries.stop - entries.start
        )
        values[entries] *= of_row.mul_(scale.index_select(0, columns[entries]))
    return compressed_rows(starts, columns, values, n_columns=W.shape[1])


@torch.no_grad()
def laplacian_energy(
    F: Float[Tensor, "n C"], W: Float[Tensor, "n n"], Y: Float[Tensor, "n C"], *, mu: float
) -> Float[Tensor, ""]:
    """𝒬(F) = ¼ Σ_ij W_ij ‖F_i/√d_i − F_j/√d_j‖² + µ/2 Σ_i ‖F_i − Y_i‖², over ordered pairs.

    An isolated point has no pair: only its fidelity counts. The minimiser is (1 − γ)(I − γ𝒲)⁻¹Y when no point is
    isolated.
    """
    degree = degrees(W)
    scaled = F * torch.where(degree > 0, degree.rsqrt(), 0)[:, None]
    # Σ_ij W_ij ‖a_i − a_j‖² = 2 Σ_i d_i ‖a_i‖² − 2 Σ_i ⟨a_i, (W a)_i⟩ needs no array of pairs.
    smoothness = (degree[:, None] * scaled.square()).sum() - (scaled * (W @ scaled)).sum()
    return smoothness / 2 + mu / 2 * (F - Y).square().sum()
