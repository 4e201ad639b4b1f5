"""How accurate the labels are, judged by given labels that had no part in them."""

import math

import torch
from jaxtyping import Bool, Float, Int64
from scipy.optimize import minimize_scalar
from scipy.stats import norm
from torch import Tensor

from laplacenet.labeling.evidence import Evidence
from laplacenet.labeling.result import Calibration, CalibrationBin, ClassEstimate, Estimate, Interval

LEVEL = 0.95


def wilson(share: float, n: float | int, *, level: float = LEVEL) -> Interval:
    """Wilson's score interval, which keeps its level with few trials and at shares near 0 and 1.

    `n` need not be whole: trials that count unequally are worth fewer than there are of them.
    """
    z = float(norm.ppf((1 + level) / 2))
    center = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return Interval(share, max(0.0, min(share, center - reach)), min(1.0, max(share, center + reach)))


def share_among(
    is_right: Bool[Tensor, " m"], weights: Float[Tensor, " m"], *, n_others: int, level: float = LEVEL
) -> Interval:
    """The share that is right among `n_others` rows, from rows drawn like them of which some count more.

    Kish's effective number of trials is (Σw)²/Σw². The others are a draw too: 1/n + 1/n_others is their joint variance.
    """
    total = weights.double().sum()
    n_effective = float(total**2 / weights.double().square().sum())
    n = 1 / (1 / n_effective + 1 / max(1, n_others))
    return wilson(float((weights.double() * is_right).sum() / total), n, level=level)


FEWEST = 10
"""Judged labels below which a share says next to nothing."""


def estimate_accuracy(
    unseen: Float[Tensor, "n C"],
    given: Int64[Tensor, " n"],
    prior: Float[Tensor, " C"],
    *,
    method: str,
    class_names: tuple[str, ...],
) -> Estimate:
    """From the rows whose scores are unseen ones (others are NaN).

    A class counts as often as `prior` expects it among the rows, whatever its share of the given labels.
    """
    is_judged = (given >= 0) & ~unseen.isnan().any(dim=1)
    truth, found = given[is_judged], unseen[is_judged].argmax(dim=1)
    is_right = found == truth
    classes = tuple(class_estimate(name, is_right[truth == number]) for number, name in enumerate(class_names))
    n = len(truth)
    accuracy = overall(is_right, truth, prior, n_others=int((given < 0).sum())) if n >= FEWEST else None
    return Estimate(method=method, level=LEVEL, n=n, accuracy=accuracy, classes=classes)


def overall(
    is_right: Bool[Tensor, " m"], truth: Int64[Tensor, " m"], prior: Float[Tensor, " C"], *, n_others: int
) -> Interval:
    counts = torch.bincount(truth, minlength=len(prior))
    return share_among(is_right, (prior / counts.clamp(min=1))[truth], n_others=n_others)


def class_estimate(name: str, is_right: Bool[Tensor, " m"]) -> ClassEstimate:
    n = len(is_right)
    return ClassEstimate(name, n, wilson(int(is_right.sum()) / n, n) if n else None)


def accuracy_on(found: Int64[Tensor, " n"], truth: Int64[Tensor, " n"]) -> tuple[int, Interval | None]:
    """How many labels of a test set are known, and the share of them that was found."""
    is_known = truth >= 0
    n = int(is_known.sum())
    return n, wilson(int((found == truth)[is_known].sum()) / n, n) if n else None


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


WRONG_SHARE = 0.05
"""How many given labels are taken to be wrong before any is looked at: one in twenty."""


def suspect_labels(
    unseen: Float[Tensor, "n C"], given: Int64[Tensor, " n"], *, least_ratio: float = (1 - WRONG_SHARE) / WRONG_SHARE
) -> Bool[Tensor, " n"]:
    """Where a class other than the given one is so much likelier that a slip is the better explanation.

    If one label in twenty is wrong, and then says something else than the likeliest class, the odds of a slip are
    0.05 · p(likeliest) to 0.95 · p(given); `least_ratio` can ask for more. `unseen` are calibrated, NaN for rows
    without such scores.
    """
    is_judged = (given >= 0) & ~unseen.isnan().any(dim=1)
    likeliest, found = unseen.nan_to_num(0).max(dim=1)
    own = unseen.nan_to_num(0).gather(1, given.clamp(min=0)[:, None]).squeeze(1)
    is_slip = likeliest > least_ratio * own
    return is_judged & (found != given) & is_slip
