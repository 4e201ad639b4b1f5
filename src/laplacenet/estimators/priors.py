"""What is believed of the classes' shares before the graph is asked."""

import math
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64


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


def shrunk_shares(counts: Int64[np.ndarray, " C"]) -> Float64[np.ndarray, " C"]:
    """The labeled shares, drawn towards equal ones as far as so few labels leave room for doubt.

    The James-Stein estimator of Hausser and Strimmer (2009): where counts differ no more than a random draw of labels
    would make them differ, the shares are equal; with many labels they are what was counted.
    """
    n, equal = counts.sum(), 1 / len(counts)
    shares = counts / n
    spread = (n - 1) * np.square(equal - shares).sum()
    doubt = min(1.0, (1 - np.square(shares).sum()) / spread) if spread > 0 else 1.0
    shrunk: np.ndarray = doubt * equal + (1 - doubt) * shares
    return shrunk
