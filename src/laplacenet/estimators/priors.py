"""The classes' expected shares, as an estimator is told them."""

import math
from typing import Any

import numpy as np
from jaxtyping import Int64

from laplacenet.graph.priors import shrunk_shares


def class_weights(prior: Any, counts: Int64[np.ndarray, " C"]) -> tuple[float, ...]:
    """One positive number per class, in proportion to its expected share; `counts` are those of the given labels."""
    prior = "labeled" if prior is None else prior
    if not isinstance(prior, str):
        return given_weights(prior, len(counts))
    shares = {"labeled": counts.astype(float), "shrunk": shrunk_shares(counts)}
    if prior not in shares:
        raise ValueError(f"unknown prior {prior!r}; choose one of {', '.join(shares)}, None or one number per class")
    return tuple(shares[prior].tolist())


def given_weights(prior: Any, n_classes: int) -> tuple[float, ...]:
    try:
        weights = tuple(float(weight) for weight in prior)
    except (TypeError, ValueError) as error:
        raise ValueError(f"prior = {prior!r}; give one positive number per class") from error
    if len(weights) != n_classes:
        raise ValueError(f"prior has {len(weights)} entries; give one for each of the {n_classes} classes")
    if not all(math.isfinite(weight) and weight > 0 for weight in weights):
        raise ValueError(f"prior = {prior!r}; give one positive number per class")
    return weights
