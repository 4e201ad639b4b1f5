"""How accurate the labels are, judged by given labels that had no part in them."""

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from laplacenet.labeling.intervals import LEVEL, share_among, wilson
from laplacenet.labeling.result import ClassEstimate, Estimate, Interval

FEWEST = 10
"""Judged labels below which a share says next to nothing."""


def estimate_accuracy(
    unseen: Float[Tensor, "n C"],
    given: Int64[Tensor, " n"],
    prior: Float[Tensor, " C"],
    *,
    method: str,
    class_names: tuple[str, ...],
) -> Estimate:
    """From the rows whose scores are unseen ones (others are NaN).

    A class counts as often as `prior` expects it among the rows, whatever its share of the given labels.
    """
    is_judged = (given >= 0) & ~unseen.isnan().any(dim=1)
    truth, found = given[is_judged], unseen[is_judged].argmax(dim=1)
    is_right = found == truth
    classes = tuple(class_estimate(name, is_right[truth == number]) for number, name in enumerate(class_names))
    n = len(truth)
    accuracy = overall(is_right, truth, prior, n_others=int((given < 0).sum())) if n >= FEWEST else None
    return Estimate(method=method, level=LEVEL, n=n, accuracy=accuracy, classes=classes)


def overall(
    is_right: Bool[Tensor, " m"], truth: Int64[Tensor, " m"], prior: Float[Tensor, " C"], *, n_others: int
) -> Interval:
    counts = torch.bincount(truth, minlength=len(prior))
    return share_among(is_right, (prior / counts.clamp(min=1))[truth], n_others=n_others)


def class_estimate(name: str, is_right: Bool[Tensor, " m"]) -> ClassEstimate:
    n = len(is_right)
    return ClassEstimate(name, n, wilson(int(is_right.sum()) / n, n) if n else None)


def accuracy_on(found: Int64[Tensor, " n"], truth: Int64[Tensor, " n"]) -> tuple[int, Interval | None]:
    """How many labels of a test set are known, and the share of them that was found."""
    is_known = truth >= 0
    n = int(is_known.sum())
    return n, wilson(int((found == truth)[is_known].sum()) / n, n) if n else None
