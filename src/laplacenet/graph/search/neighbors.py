"""The entry: exact nearest neighbors of every point by inner product, in bounded memory."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from laplacenet.graph.arrays import Array, as_floating
from laplacenet.graph.search.exact import exact_rows, full_precision, rows_at_once
from laplacenet.graph.search.half import can_halve, half_neighbors
from laplacenet.graph.search.int8 import can_quantize, int8_neighbors
from laplacenet.graph.search.sharing import of_all, own_rows
from laplacenet.runtime import InputError
from laplacenet.runtime.group import ALONE, Group


@dataclass(frozen=True)
class Neighbors:
    """Row i holds the k points with the largest inner product with point i, best first, never i itself."""

    indices: Int[Tensor, "n k"]
    similarities: Float[Tensor, "n k"]
    recall: float | None = None
    """Share of true neighbors found, estimated on a sample of rows; None where the search is exact."""


@torch.no_grad()
def nearest_neighbors(features: Num[Array, "n d"], *, k: int, group: Group = ALONE) -> Neighbors:
    """Exact neighbors by inner product of the features as given; k is cut to n − 1.

    The processes of a group have the same features, and each searches for a part of them.
    """
    X = as_floating(features)
    if k < 1 or len(X) < 1:
        raise InputError(f"neighbors of {len(X)} points with k = {k}; give at least one point and k of at least 1")
    k = min(k, len(X) - 1)
    with full_precision(X.device):
        if not group.agree(not can_quantize(X, k)):  # not every machine may have the instructions
            similarities, indices = int8_neighbors(X, k, group)
        elif can_halve(X, k):
            similarities, indices = half_neighbors(X, k, group)
        else:
            own = own_rows(len(X), rows_at_once(X, max(1, k)), group)
            rows = torch.arange(own.start, own.stop, device=X.device)
            similarities, indices = of_all(*exact_rows(X, rows, k), group)
    return Neighbors(indices, similarities)
