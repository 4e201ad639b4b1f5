"""Algorithm 1: the scores of unlabeled points are deformed until the classes are as frequent as the prior says."""

import torch
from jaxtyping import Bool, Float, Num
from torch import Tensor

from laplacenet.graph.arrays import Array, as_floating

SMALLEST_RATIO, LARGEST_RATIO = 0.99, 1.01
ROUNDS_PER_LOOK = 20  # after so many, rows are sorted again into settled and contested ones
BLOCK_BYTES = 1 << 28
LARGEST_WEIGHT = 2.0**60  # and the inverse of the smallest: without an end, thousands of rounds would overflow


@torch.no_grad()
def align_to_prior(
    scores: Num[Array, "n C"], is_labeled: Bool[Array, " n"], prior: Num[Array, " C"], *, iterations: int
) -> Float[Tensor, "n C"]:
    """The scores after `iterations` rounds of Algorithm 1, as rows that sum to 1.

    Negative scores count as 0. A row without a positive score says nothing: it is left out of the frequencies and
    becomes the prior. Rows of labeled points are only normalized.
    """
    scores = as_floating(scores)
    D = torch.as_tensor(prior, device=scores.device).double()
    D = D / D.sum()
    is_labeled = torch.as_tensor(is_labeled, device=scores.device)
    aligned, is_scored = torch.empty_like(scores), torch.empty_like(is_labeled)
    for rows in row_blocks(scores):
        aligned[rows] = out_of_the_smallest(scores[rows].clamp(min=0))
        is_scored[rows] = aligned[rows].amax(1) > 0
    weights = class_weights(aligned, is_scored & ~is_labeled, D, iterations=iterations).to(scores.dtype)
    for rows in row_blocks(scores):
        deformed = aligned[rows] * torch.where(is_labeled[rows, None], 1, weights)
        normalized = deformed / deformed.sum(1, keepdim=True)
        aligned[rows] = torch.where(is_scored[rows, None], normalized, D.to(scores.dtype))
    return aligned


def row_blocks(scores: Float[Tensor, "n C"]) -> list[slice]:
    """Rows that are worked on together: what is made on the way then takes little memory beside the scores."""
    n_rows = max(1, BLOCK_BYTES // max(1, scores.shape[1] * scores.element_size()))
    return [slice(start, start + n_rows) for start in range(0, len(scores), n_rows)]


def out_of_the_smallest(scores: Float[Tensor, "n C"]) -> Float[Tensor, "n C"]:
    """In place, larger rows where a weight could round them to nothing: a power of two changes no share."""
    is_tiny = scores.amax(1, keepdim=True) < torch.finfo(scores.dtype).tiny * LARGEST_WEIGHT
    return scores.mul_(torch.where(is_tiny, LARGEST_WEIGHT, 1.0).to(scores.dtype))


def class_weights(
    scores: Float[Tensor, "n C"], is_counted: Bool[Tensor, " n"], prior: Float[Tensor, " C"], *, iterations: int
) -> Float[Tensor, " C"]:
    """The factor by which Algorithm 1 has multiplied each class after all its rounds over the rows that count.

    Rescaling a row never moves its argmax, so one weight per class is the whole state of the algorithm. A round can
    shift two classes against each other by so much and no more, so only rows that may change sides are looked at again.
    """
    # A class neither expected nor seen stays as it is: so small a number makes 0/0 a 1 and changes no other ratio.
    tiny = torch.finfo(prior.dtype).tiny
    weights, expected = torch.ones_like(prior), prior * is_counted.sum() + tiny
    for first in range(0, iterations, ROUNDS_PER_LOOK):
        n_rounds = min(ROUNDS_PER_LOOK, iterations - first)
        looks = [settle(scores[rows][is_counted[rows]], weights, n_rounds=n_rounds) for rows in row_blocks(scores)]
        settled = torch.stack([counts for counts, _ in looks]).sum(0) + tiny
        contested = torch.cat([rows for _, rows in looks])
        ones = prior.new_ones(len(contested))
        for _ in range(n_rounds):
            counts = settled.index_add(0, (contested * weights.to(scores.dtype)).argmax(1), ones)
            weights *= (expected / counts).clamp_(SMALLEST_RATIO, LARGEST_RATIO)
        weights.clamp_(1 / LARGEST_WEIGHT, LARGEST_WEIGHT)
    return weights


def settle(
    scores: Float[Tensor, "some C"], weights: Float[Tensor, " C"], *, n_rounds: int
) -> tuple[Float[Tensor, " C"], Float[Tensor, "n_contested C"]]:
    """How often each class is the best of a row by more than these rounds can make up for, and the other rows."""
    deformed = scores * weights.to(scores.dtype)
    best, classes = deformed.max(1)
    runner_up = deformed.scatter_(1, classes[:, None], 0).amax(1)
    # Weights and products are rounded, far below this margin.
    is_settled = best > runner_up * (LARGEST_RATIO / SMALLEST_RATIO) ** n_rounds * 1.001
    counts = torch.zeros_like(weights).index_add_(0, classes, is_settled.to(weights.dtype))
    return counts, scores[~is_settled]
