"""Which images a step sees: labeled rows from endless reshuffles, unlabeled rows once an epoch.

Every function is pure in (seed, position): any step of any epoch can be drawn again, so a resumed run needs no random
state to go on as if it had never stopped.
"""

import numpy as np
from jaxtyping import Int64

from laplacenet.runtime import stream


def reshuffled_rows(
    rows: Int64[np.ndarray, " n"], first: int, count: int, *, seed: int, name: str
) -> Int64[np.ndarray, " count"]:
    """`count` rows from position `first` of an endless sequence of reshuffles of `rows`."""
    n = len(rows)
    first_pass, last_pass = first // n, (first + count - 1) // n
    passes = [stream(seed, name, i).permutation(rows) for i in range(first_pass, last_pass + 1)]
    start = first - first_pass * n
    return np.concatenate(passes)[start : start + count]


def epoch_rows(rows: Int64[np.ndarray, " n"], *, seed: int, epoch: int) -> Int64[np.ndarray, " n"]:
    """One pass through the unlabeled rows."""
    return stream(seed, "unlabeled", epoch).permutation(rows)


def composite_rows(
    labeled: Int64[np.ndarray, "steps b_l"], unlabeled: Int64[np.ndarray, "steps b_u"]
) -> Int64[np.ndarray, "steps b"]:
    """B = B_L ∪ B_U, the labeled ones first."""
    return np.concatenate([labeled, unlabeled], axis=1)
