"""The class prior, estimated from given labels and from predictions."""

import numpy as np
from jaxtyping import Float64, Int64
from scipy.stats import chi2

from laplacenet.graph.priors import shrunk_shares

TOO_EVEN = 0.05


def estimated_shares(counts: Int64[np.ndarray, " C"], found: Int64[np.ndarray, " C"]) -> Float64[np.ndarray, " C"]:
    """The prior, from the counts of given labels and of predicted ones.

    Labels drawn at random are informative: the result is the mean of their shrunken shares and the predicted ones.
    Counts too even for a random draw were chosen class by class and say nothing: then the predicted shares are used,
    shrunk by one label a class. A class without a given label has no share.
    """
    is_present = counts > 0
    n_given, n_present = int(counts.sum()), int(is_present.sum())
    shares = np.zeros(len(counts))
    present, seen = counts[is_present], found[is_present] / max(1, found[is_present].sum())
    if not found[is_present].sum():
        seen = present / n_given
    if too_even(present):
        shares[is_present] = doubted_shares(seen, n_given=n_given, doubt=1.0)
    else:
        shares[is_present] = (shrunk_shares(present) + seen) / 2
    # half a label's share: a share of zero would be a belief that the class is empty
    shares[is_present] = np.maximum(shares[is_present], 0.5 / (n_given + n_present))
    shares /= shares.sum()
    return shares


def doubted_shares(found: Float64[np.ndarray, " C"], *, n_given: int, doubt: float) -> Float64[np.ndarray, " C"]:
    """The predicted shares, shrunk towards equal ones by `doubt` pseudo-counts a class."""
    n_classes = len(found)
    weight = doubt * n_classes / (doubt * n_classes + n_given)
    drawn: np.ndarray = weight / n_classes + (1 - weight) * found
    return drawn


def too_even(counts: Int64[np.ndarray, " C"]) -> bool:
    """Whether counts are more even than a random draw would give even from classes of equal size."""
    if len(counts) < 2:
        return True
    expected = counts.sum() / len(counts)
    return bool(chi2.cdf(np.square(counts - expected).sum() / expected, len(counts) - 1) < TOO_EVEN)
