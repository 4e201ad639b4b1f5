"""The estimate of accuracy where folds of the given labels were hidden from classifier and graph.

Three things that a plain share of labels found again would hide:

* The answer that counts had all labels, one that is judged only those outside a fold: half of them with two folds. So
  the upper end allows for an error that falls with the square root of the number of labels (measured: with its power
  0.2 to 0.3).
* A class with one label cannot be judged, and is among the hardest. The lower end takes it to be all wrong, the value
  to be half as accurate as the others.
* If labels were drawn at random, a class counts as often as it was drawn: an estimated prior would give weight to the
  classes with many labels, which are the easier ones. Only if each class was given about as many labels as any other
  do the estimated shares count.
"""

from dataclasses import replace

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from laplacenet.graph.guided import too_even
from laplacenet.labeling.estimate import estimate_accuracy
from laplacenet.labeling.result import Estimate, Interval

FASTEST = 0.5  # the error falls with this power of the number of labels at most
OF_UNJUDGED = 0.5  # accuracy in classes that cannot be judged, relative to the others; measured: 0.3 to 0.4


def estimate_by_folds(
    unseen: Float[Tensor, "n C"],
    given: Int64[Tensor, " n"],
    shares: Float[Tensor, " C"],
    *,
    n_folds: int,
    method: str,
    class_names: tuple[str, ...],
) -> Estimate:
    """`unseen` are scores of labeled rows while their fold was hidden, NaN elsewhere; `shares` by `shares_to_count`."""
    found = estimate_accuracy(unseen, given, shares, method=method, class_names=class_names)
    if found.accuracy is None:
        return found
    is_judged = torch.tensor([entry.n > 0 for entry in found.classes])
    unjudged = float(shares[~is_judged].sum() / shares.sum())
    return replace(found, accuracy=widened(found.accuracy, n_folds=n_folds, unjudged=unjudged))


def shares_to_count(given: Int64[Tensor, " n"], estimated: Float[Tensor, " C"]) -> Float[Tensor, " C"]:
    """How much each class counts: as often as it was drawn, or as estimated if the counts say nothing."""
    counts = torch.bincount(given[given >= 0], minlength=len(estimated))
    if too_even(counts[counts > 0].numpy()):
        return estimated
    return (counts / counts.sum()).to(estimated.dtype)


def widened(accuracy: Interval, *, n_folds: int, unjudged: float) -> Interval:
    """By what the folds' smaller number of labels and the unjudged share of the rows leave open."""
    remaining_error = (1 - accuracy.high) * (1 - 1 / n_folds) ** FASTEST
    return Interval(
        value=accuracy.value * (1 - unjudged + unjudged * OF_UNJUDGED),
        low=accuracy.low * (1 - unjudged),
        high=1 - remaining_error,
    )
