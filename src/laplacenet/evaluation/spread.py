"""Mean and deviation over runs, as the paper's ±."""

import statistics
from collections.abc import Sequence

from laplacenet.runtime import InputError


def mean_and_std(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean and the sample standard deviation (n − 1); one run has no deviation."""
    if not values:
        raise InputError("the mean of no runs is not a number; give at least one")
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None
