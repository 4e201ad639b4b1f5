"""Temperatures that calibrate logits and probabilities."""

import numpy as np
from jaxtyping import Float, Float64, Int64
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from torch import Tensor

TEMPERATURES = (0.02, 20.0)
SMALLEST = 1e-12


def fit_temperature(logits: Float64[np.ndarray, "m C"], classes: Int64[np.ndarray, " m"]) -> float:
    """The temperature with the least log-loss, under a standard normal prior on its logarithm."""

    def loss(log_temperature: float) -> float:
        return log_loss(logits / np.exp(log_temperature), classes) * len(classes) + log_temperature**2 / 2

    found = minimize_scalar(loss, bounds=tuple(np.log(TEMPERATURES)), method="bounded")
    return float(np.exp(found.x))


def fit_temperature_to(logits: Float64[np.ndarray, "m C"], scores: Float64[np.ndarray, "m C"]) -> float:
    """The temperature at which these logits fit the scores best, by cross-entropy."""

    def loss(log_temperature: float) -> float:
        return -float((scores * log_softmax(logits / np.exp(log_temperature), axis=1)).sum(axis=1).mean())

    found = minimize_scalar(loss, bounds=tuple(np.log(TEMPERATURES)), method="bounded")
    return float(np.exp(found.x))


def log_loss(logits: Float64[np.ndarray, "m C"], classes: Int64[np.ndarray, " m"]) -> float:
    return -float(log_softmax(logits, axis=1)[np.arange(len(classes)), classes].mean())


def finite(logits: Float64[np.ndarray, "m C"]) -> Float64[np.ndarray, "m C"]:
    """Replace the logit −∞ of a class that a fold left without labels, which no temperature could scale."""
    lowest = np.where(np.isfinite(logits), logits, 0).min()
    found: np.ndarray = np.maximum(logits, lowest - 10)
    return found


def tempered(scores: Float[Tensor, "n C"], temperature: float) -> Float[Tensor, "n C"]:
    """Probabilities at another temperature; NaN stays NaN."""
    return (scores.double().clamp(min=SMALLEST).log() / temperature).softmax(dim=1).to(scores.dtype)
