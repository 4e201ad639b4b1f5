"""The class prior of an estimator."""

from typing import Any

import numpy as np
from jaxtyping import Int64

from laplacenet.graph.priors import PRIORS, PriorError, prior_shares

CHOICES = "'labeled', 'shrunk', 'equal', None"


def prior_weights(prior: Any, counts: Int64[np.ndarray, " C"], *, choices: str = CHOICES) -> tuple[float, ...]:
    """One positive number per class, in proportion to its expected share; None is `labeled`.

    `choices` are the words that the estimator accepts, for its message.
    """
    try:
        return prior_shares("labeled" if prior is None else prior, counts)
    except PriorError as error:
        raise ValueError(str(error).replace(f"choose {', '.join(PRIORS)}", f"choose {choices}")) from error
