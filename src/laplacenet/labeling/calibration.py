"""Probabilities that mean what they say: one temperature for all, fitted on labels that had no part in the evidence."""

import math

from jaxtyping import Float, Int64
from scipy.optimize import minimize_scalar
from torch import Tensor

from laplacenet.labeling.evidence import Evidence
from laplacenet.labeling.result import Calibration, CalibrationBin

BOUNDS = (0.01, 20.0)
N_BINS = 10
FEW = 20
"""With fewer labels than this the temperature is hardly known."""


def calibrate(evidence: Evidence, labels: Int64[Tensor, " m"]) -> Calibration | None:
    """The temperature for evidence in which these labels had no part, and how well confidences fit with it."""
    if not len(labels):
        return None
    temperature = fit_temperature(evidence, labels)
    before, bins = (calibration_bins(evidence.at(t), labels) for t in (1.0, temperature))
    return Calibration(temperature, len(labels), expected_error(before), expected_error(bins), bins)


def fit_temperature(evidence: Evidence, labels: Int64[Tensor, " m"]) -> float:
    """The temperature with the least log-loss, held back as if its logarithm had been drawn with deviation 1 around 0.

    With hundreds of labels the hold is nothing; with ten it keeps a temperature from running off to a bound.
    """

    def loss(log_temperature: float) -> float:
        logits = evidence.logits.double() / math.exp(log_temperature) + evidence.offset.double()
        return -float(logits.log_softmax(dim=1).gather(1, labels[:, None]).sum()) + log_temperature**2 / 2

    found = minimize_scalar(loss, bounds=tuple(map(math.log, BOUNDS)), method="bounded")
    return math.exp(float(found.x))


def calibration_bins(scores: Float[Tensor, "m C"], labels: Int64[Tensor, " m"]) -> tuple[CalibrationBin, ...]:
    """Ten bins of confidence of one width; those that hold nothing are left out."""
    confidence, found = scores.double().max(dim=1)
    is_right = (found == labels).double()
    places = (confidence * N_BINS).long().clamp(0, N_BINS - 1)
    members = [places == number for number in range(N_BINS)]
    return tuple(
        CalibrationBin(int(rows.sum()), float(confidence[rows].mean()), float(is_right[rows].mean()))
        for rows in members
        if bool(rows.any())
    )


def expected_error(bins: tuple[CalibrationBin, ...]) -> float:
    """The mean distance between confidence and accuracy, each bin by its number."""
    total = sum(entry.n for entry in bins)
    return sum(entry.n * abs(entry.confidence - entry.accuracy) for entry in bins) / max(1, total)
