"""The class prior of an estimator."""

from typing import Any

import numpy as np
from jaxtyping import Int64

from laplacenet.graph.priors import prior_shares


def prior_weights(prior: Any, counts: Int64[np.ndarray, " C"]) -> tuple[float, ...]:
    """One positive number per class, in proportion to its expected share; None is `labeled`."""
    return prior_shares("labeled" if prior is None else prior, counts)
