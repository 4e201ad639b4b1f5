"""The weighted graph over the points: W, its degrees, its normalized form 𝒲, and the Laplacian energy."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from laplacenet.graph.search import Neighbors
from laplacenet.graph.sparse import compressed_rows, row_indices


@torch.no_grad()
def affinity(neighbors: Neighbors) -> Float[Tensor, "n n"]:
    """W, sparse CSR: the similarity where i is among j's nearest neighbors or j among i's, else 0.

    Symmetric (the larger of the two directions), no self-loops, negative similarities become 0.
    """
    n, k = neighbors.indices.shape
    i = torch.arange(n, device=neighbors.indices.device)[:, None].expand(n, k)
    j = neighbors.indices
    # Each directed edge enters in both orders under the key row·n + column: one sort makes rows and merges pairs.
    keys, order = torch.cat([(i * n + j).flatten(), (j * n + i).flatten()]).sort()
    values = neighbors.similarities.flatten().repeat(2)[order]
    is_second = keys[1:] == keys[:-1]
    values[:-1] = torch.where(is_second, torch.maximum(values[:-1], values[1:]), values[:-1])
    is_kept = values > 0
    is_kept[1:] &= ~is_second
    keys, values = keys[is_kept], values[is_kept]
    return csr_matrix(keys // n, keys % n, values, n)


def csr_matrix(
    rows: Int[Tensor, " nnz"], columns: Int[Tensor, " nnz"], values: Float[Tensor, " nnz"], n: int
) -> Float[Tensor, "n n"]:
    """The n × n matrix with these entries, sorted by row; 32-bit indices where they fit, for they multiply faster."""
    index_type = torch.int32 if max(n, len(values)) < 2**31 else torch.int64
    starts = torch.searchsorted(rows, torch.arange(n + 1, device=rows.device))
    return compressed_rows(starts.to(index_type), columns.to(index_type), values, n_columns=n)


def degrees(W: Float[Tensor, "n n"]) -> Float[Tensor, " n"]:
    """The diagonal of the paper's D: the row sums of W."""
    return (W @ W.values().new_ones(W.shape[0], 1)).flatten()


@torch.no_grad()
def normalize(W: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
    """𝒲 = D^(−1/2) W D^(−1/2); the row of an isolated point stays zero."""
    degree = degrees(W)
    scale = torch.where(degree > 0, degree.rsqrt(), 0)
    values = W.values() * scale[row_indices(W)] * scale[W.col_indices()]
    return compressed_rows(W.crow_indices(), W.col_indices(), values, n_columns=W.shape[1])


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
