"""Labels for new points: the mean of the nearest training points' labels."""

import numpy as np
import torch
from jaxtyping import Float, Float32, Float64
from torch import Tensor

BLOCK_BYTES = 1 << 26


def directions(X: Float[np.ndarray, "n d"]) -> Float32[np.ndarray, "n d"]:
    """Rows of length 1 in single precision, so that inner products are cosines; a row of zeros stays."""
    # Division by the largest entry first: squares of finite numbers may overflow or vanish.
    X = X / positive_or_one(np.abs(X).max(axis=1, keepdims=True))
    X /= positive_or_one(np.linalg.norm(X, axis=1, keepdims=True))
    return X.astype(np.float32, copy=False)


def positive_or_one(divisor: Float[np.ndarray, "n 1"]) -> Float[np.ndarray, "n 1"]:
    """The divisor, but 1 where it is 0."""
    return np.where(divisor > 0, divisor, np.ones_like(divisor))


@torch.no_grad()
def neighbor_means(
    queries: Float32[Tensor, "m d"],
    points: Float32[Tensor, "n d"],
    distributions: Float64[Tensor, "n C"],
    *,
    k: int,
    otherwise: Float64[Tensor, " C"],
) -> Float64[Tensor, "m C"]:
    """The mean of the k nearest points' distributions, weighted by cosine, as rows that sum to 1.

    Points whose distribution is zero are ignored; if all are, the row is `otherwise`.
    """
    k = min(k, len(points))
    means = torch.empty(len(queries), distributions.shape[1], dtype=torch.float64, device=queries.device)
    n_rows = max(1, BLOCK_BYTES // max(4 * len(points), 8 * k * distributions.shape[1]))
    for rows in torch.split(torch.arange(len(queries), device=queries.device), n_rows):
        similarities, nearest = (queries[rows] @ points.T).topk(k, dim=1)
        weights = similarities.clamp(min=0).double()
        sums = (weights[:, :, None] * distributions[nearest]).sum(1)
        total = sums.sum(1, keepdim=True)
        means[rows] = torch.where(total > 0, sums / total, otherwise)
    return means
