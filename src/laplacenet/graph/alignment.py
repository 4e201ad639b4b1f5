"""Algorithm 1: the scores of unlabeled points are deformed until the classes are as frequent as the prior says."""

import torch
from jaxtyping import Bool, Float, Num
from torch import Tensor

from laplacenet.graph.arrays import Array, as_floating

SMALLEST_RATIO, LARGEST_RATIO = 0.99, 1.01


@torch.no_grad()
def align_to_prior(
    scores: Num[Array, "n C"], is_labeled: Bool[Array, " n"], prior: Num[Array, " C"], *, iterations: int
) -> Float[Tensor, "n C"]:
    """The scores after `iterations` rounds of Algorithm 1, as rows that sum to 1.

    Negative scores count as 0. A row without a positive score says nothing: it is left out of the frequencies and
    becomes the prior. Rows of labeled points are only normalized.
    """
    positive = as_floating(scores).clamp(min=0)
    D = torch.as_tensor(prior, device=positive.device).double()
    D = D / D.sum()
    is_labeled = torch.as_tensor(is_labeled, device=positive.device)
    is_scored = positive.amax(1) > 0
    weights = class_weights(positive[is_scored & ~is_labeled], D, iterations=iterations)
    deformed = positive * torch.where(is_labeled[:, None], 1, weights.to(positive.dtype))
    normalized = deformed / deformed.sum(1, keepdim=True)
    return torch.where(is_scored[:, None], normalized, D.to(positive.dtype))


def class_weights(
    scores: Float[Tensor, "n_unlabeled C"], prior: Float[Tensor, " C"], *, iterations: int
) -> Float[Tensor, " C"]:
    """The factor by which Algorithm 1 has multiplied each class after all its rounds.

    Rescaling a row never moves its argmax, so one weight per class is the whole state of the algorithm.
    """
    weights, ones = torch.ones_like(prior), prior.new_ones(len(scores))
    expected, counts, deformed = prior * len(scores), torch.empty_like(prior), torch.empty_like(scores)
    for _ in range(iterations):
        torch.mul(scores, weights.to(scores.dtype), out=deformed)
        counts.zero_().index_add_(0, deformed.argmax(1), ones)
        # x/0 is infinite and meets the clip; 0/0 is a class neither expected nor seen, which stays as it is.
        weights *= (expected / counts).nan_to_num_(1).clamp_(SMALLEST_RATIO, LARGEST_RATIO)
    return weights
