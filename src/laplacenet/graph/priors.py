"""The class prior that labels are aligned to: a word, or one number per class."""

import math
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from laplacenet.runtime.errors import InputError

PRIORS = ("shrunk", "labeled", "equal")
SMALLEST_SHARE = 1e-9
"""A smaller share would underflow in single precision once scores are divided by it."""


class PriorError(InputError, ValueError):
    """A prior that cannot be used; scikit-learn's callers expect a ValueError."""


def prior_shares(prior: Any, counts: Int64[np.ndarray, " C"]) -> tuple[float, ...]:
    """`shrunk`, `labeled`, `equal`, or one positive number per class (a sequence, or text with commas); sums to 1.

    `counts` are the given labels of each class. A class of which no label is given keeps half a label's share: a share
    of zero would be a belief that it is empty.
    """
    if isinstance(prior, str) and prior in PRIORS:
        if prior == "equal":
            return (1 / len(counts),) * len(counts)
        shares = np.maximum(counts, 0.5) if prior == "labeled" else shrunk_shares(counts)
        shares = np.maximum(shares, 0.5 * shares.sum() / max(1, counts.sum()))
        return tuple((shares / shares.sum()).tolist())
    return numeric_shares(prior.split(",") if isinstance(prior, str) else prior, len(counts), shown=prior)


def numeric_shares(numbers: Any, n_classes: int, *, shown: Any) -> tuple[float, ...]:
    """`shown` is the prior as the user gave it."""
    refusal = f"prior {shown}: choose {', '.join(PRIORS)} or give {n_classes} positive numbers, one per class"
    try:
        weights = [float(number) for number in numbers]
    except (TypeError, ValueError) as error:
        raise PriorError(refusal) from error
    if len(weights) != n_classes or not all(math.isfinite(weight) and weight > 0 for weight in weights):
        raise PriorError(refusal)
    relative = [weight / max(weights) for weight in weights]  # first, so that the sum cannot overflow
    shares = tuple(weight / sum(relative) for weight in relative)
    if min(shares) < SMALLEST_SHARE:
        raise PriorError(f"prior {shown}: the smallest share is below {SMALLEST_SHARE:g}; leave that class out")
    return shares


def shrunk_shares(counts: Int64[np.ndarray, " C"]) -> Float64[np.ndarray, " C"]:
    """The labeled shares, shrunk towards equal ones: the fewer labels, the more.

    The James-Stein estimator of Hausser and Strimmer (2009): where counts differ no more than a random draw of labels
    would make them differ, the shares are equal; with many labels they are what was counted.
    """
    n, equal = counts.sum(), 1 / len(counts)
    shares = counts / n
    spread = (n - 1) * np.square(equal - shares).sum()
    doubt = min(1.0, (1 - np.square(shares).sum()) / spread) if spread > 0 else 1.0
    shrunk: np.ndarray = doubt * equal + (1 - doubt) * shares
    return shrunk
