"""Estimate the accuracy of the labels from given labels that were held out, or measure it with true ones."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int64
from scipy.optimize import minimize_scalar
from scipy.stats import norm
from torch import Tensor

from laplacenet.data import Collection, ImageSet, VectorSet, read_judges
from laplacenet.data.arrays import ARRAY_SUFFIXES
from laplacenet.data.judges import labels_own_rows
from laplacenet.graph.estimated_prior import too_even
from laplacenet.labeling.evidence import Evidence
from laplacenet.labeling.result import Calibration, CalibrationBin, ClassEstimate, Estimate, Interval, Labeling
from laplacenet.labeling.settings import read_settings
from laplacenet.runtime import InputError, RunFolder

LEVEL = 0.95


def wilson(share: float, n: float | int, *, n_others: int | None = None, level: float = LEVEL) -> Interval:
    """Wilson's score interval, which keeps its level with few trials and at shares near 0 and 1.

    `n` may be fractional: trials with unequal weights count as fewer. With `n_others` the interval is for the share
    among that many further rows. They are a sample, too: variances add up to p(1 − p)(1/n + 1/n_others).
    """
    if n_others is not None:
        n = 1 / (1 / n + 1 / max(1, n_others))
    z = float(norm.ppf((1 + level) / 2))
    center = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return Interval(share, max(0.0, min(share, center - reach)), min(1.0, max(share, center + reach)))


def share_among(
    is_right: Bool[Tensor, " m"], weights: Float[Tensor, " m"], *, n_others: int | None, level: float = LEVEL
) -> Interval:
    """The accuracy among `n_others` rows, or in the population, from weighted rows drawn from it.

    Kish's effective number of trials is (Σw)²/Σw².
    """
    total = weights.double().sum()
    n_effective = float(total**2 / weights.double().square().sum())
    return wilson(float((weights.double() * is_right).sum() / total), n_effective, n_others=n_others, level=level)


FEWEST = 10
"""With fewer test labels an accuracy says next to nothing."""


def estimate_accuracy(
    unseen: Float[Tensor, "n C"],
    given: Int64[Tensor, " n"],
    prior: Float[Tensor, " C"],
    *,
    method: str,
    class_names: tuple[str, ...],
) -> Estimate:
    """From the rows with held-out scores (others are NaN).

    Classes are weighted by `prior`, whatever their share of the given labels. The accuracy is that of the rows without
    a given label; where there are none, that of rows to come.
    """
    is_judged = (given >= 0) & ~unseen.isnan().any(dim=1)
    truth, found = given[is_judged], unseen[is_judged].argmax(dim=1)
    is_right = found == truth
    classes = tuple(class_estimate(name, is_right[truth == number]) for number, name in enumerate(class_names))
    n = len(truth)
    accuracy = overall(is_right, truth, prior, n_others=int((given < 0).sum()) or None) if n >= FEWEST else None
    return Estimate(method=method, level=LEVEL, n=n, accuracy=accuracy, classes=classes)


def overall(
    is_right: Bool[Tensor, " m"], truth: Int64[Tensor, " m"], prior: Float[Tensor, " C"], *, n_others: int | None
) -> Interval:
    counts = torch.bincount(truth, minlength=len(prior))
    return share_among(is_right, (prior / counts.clamp(min=1))[truth], n_others=n_others)


def class_estimate(name: str, is_right: Bool[Tensor, " m"]) -> ClassEstimate:
    n = len(is_right)
    return ClassEstimate(name, n, wilson(int(is_right.sum()) / n, n) if n else None)


def accuracy_on(found: Int64[Tensor, " n"], truth: Int64[Tensor, " n"]) -> tuple[int, Interval | None]:
    """The number of test labels, and the accuracy on them."""
    is_known = truth >= 0
    n = int(is_known.sum())
    return n, wilson(int((found == truth)[is_known].sum()) / n, n) if n else None


BOUNDS = (0.01, 20.0)
N_BINS = 10
FEW = 20
"""With fewer labels than this the temperature is very uncertain."""


def calibrate(evidence: Evidence, labels: Int64[Tensor, " m"]) -> Calibration | None:
    """Fit the temperature on held-out scores, and measure the calibration."""
    if not len(labels):
        return None
    temperature = fit_temperature(evidence, labels)
    before, bins = (calibration_bins(evidence.at(t), labels) for t in (1.0, temperature))
    return Calibration(temperature, len(labels), expected_error(before), expected_error(bins), bins)


def fit_temperature(evidence: Evidence, labels: Int64[Tensor, " m"]) -> float:
    """The temperature with the least log-loss, under a normal prior (mean 0, deviation 1) on its logarithm.

    With hundreds of labels the prior has no effect; with ten it keeps the temperature away from its bounds.
    """

    def loss(log_temperature: float) -> float:
        logits = evidence.logits.double() / math.exp(log_temperature) + evidence.offset.double()
        return -float(logits.log_softmax(dim=1).gather(1, labels[:, None]).sum()) + log_temperature**2 / 2

    found = minimize_scalar(loss, bounds=tuple(map(math.log, BOUNDS)), method="bounded")
    return math.exp(float(found.x))


def calibration_bins(scores: Float[Tensor, "m C"], labels: Int64[Tensor, " m"]) -> tuple[CalibrationBin, ...]:
    """Ten bins of confidence of equal width; empty ones are left out."""
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
    """The mean distance between confidence and accuracy, weighted by the number in each bin."""
    total = sum(entry.n for entry in bins)
    return sum(entry.n * abs(entry.confidence - entry.accuracy) for entry in bins) / max(1, total)


WRONG_SHARE = 0.05
"""The prior probability that a given label is wrong: one in twenty."""


def suspect_labels(
    unseen: Float[Tensor, "n C"], given: Int64[Tensor, " n"], *, least_ratio: float = (1 - WRONG_SHARE) / WRONG_SHARE
) -> Bool[Tensor, " n"]:
    """Given labels for which another class is so much likelier that a mistake is the better explanation.

    If one label in twenty is wrong, and then says something else than the likeliest class, the odds of a mistake are
    0.05 · p(likeliest) to 0.95 · p(given); `least_ratio` can ask for more. `unseen` are calibrated, NaN for rows
    without such scores.
    """
    is_judged = (given >= 0) & ~unseen.isnan().any(dim=1)
    likeliest, found = unseen.nan_to_num(0).max(dim=1)
    own = unseen.nan_to_num(0).gather(1, given.clamp(min=0)[:, None]).squeeze(1)
    is_slip = likeliest > least_ratio * own
    return is_judged & (found != given) & is_slip


FASTEST = 0.5  # the error falls with this power of the number of labels at most
OF_UNJUDGED = 0.5  # accuracy in classes that cannot be judged, relative to the others; measured: 0.3 to 0.4


def estimate_by_folds(
    unseen: Float[Tensor, "n C"],
    given: Int64[Tensor, " n"],
    shares: Sequence[Float[Tensor, " C"]],
    *,
    n_folds: int,
    method: str,
    class_names: tuple[str, ...],
) -> Estimate:
    """`unseen` are the scores of labeled rows while their fold was held out, NaN elsewhere.

    `shares` are ways to count the classes, by `shares_to_count`: the interval holds all of theirs, the value is the
    mean of theirs. It allows for three things that the plain cross-validated accuracy ignores:

    * The answer that counts had all labels, one that is judged only those outside a fold: half of them with two folds.
      So the upper end allows for an error that falls with the square root of the number of labels (measured: with its
      power 0.2 to 0.3).
    * A class with one label cannot be judged, and is among the hardest. The lower end takes it to be all wrong, the
      value to be half as accurate as the others.
    * If labels were drawn at random, a class counts as often as it was drawn: an estimated prior would give weight to
      the classes with many labels, which are the easier ones. If each class was given about as many labels as any
      other, the estimated shares count too: they may be right, but favor the classes that are found too often.
    """
    ways = [estimate_accuracy(unseen, given, one, method=method, class_names=class_names) for one in shares]
    is_judged = torch.tensor([entry.n > 0 for entry in ways[0].classes])
    intervals = [
        widen(way.accuracy, n_folds=n_folds, unjudged=float(one[~is_judged].sum() / one.sum()))
        for way, one in zip(ways, shares, strict=True)
        if way.accuracy is not None
    ]
    if not intervals:
        return ways[0]
    accuracy = Interval(
        value=sum(one.value for one in intervals) / len(intervals),
        low=min(one.low for one in intervals),
        high=max(one.high for one in intervals),
    )
    return replace(ways[0], accuracy=accuracy)


def shares_to_count(given: Int64[Tensor, " n"], estimated: Float[Tensor, " C"]) -> tuple[Float[Tensor, " C"], ...]:
    """The weights of the classes: their frequencies among the labels, and also the estimated prior if these are
    balanced.
    """
    counts = torch.bincount(given[given >= 0], minlength=len(estimated))
    drawn = (counts / counts.sum()).to(estimated.dtype)
    return (drawn, estimated) if too_even(counts[counts > 0].numpy()) else (drawn,)


def widen(accuracy: Interval, *, n_folds: int, unjudged: float) -> Interval:
    """Widen the interval for the folds' smaller number of labels and for the classes that cannot be tested."""
    remaining_error = (1 - accuracy.high) * (1 - 1 / n_folds) ** FASTEST
    return Interval(
        value=accuracy.value * (1 - unjudged + unjudged * OF_UNJUDGED),
        low=accuracy.low * (1 - unjudged),
        high=1 - remaining_error,
    )


@dataclass(frozen=True)
class Evaluation:
    """Of the new labels: how many were tested, their accuracy with its 95 % confidence interval, the same for each
    class, and the mean distance of confidence from accuracy.
    """

    n: int
    accuracy: Interval
    classes: tuple[ClassEstimate, ...]
    calibration_error: float
    notes: tuple[str, ...] = ()


def evaluate_labeling(run: Path, labeling: Labeling, truth: Path) -> Evaluation:
    """`truth` is a label file for the run's own rows; rows whose label was given do not count."""
    if truth.is_dir() or not labels_own_rows(truth):
        raise InputError(f"{truth}: give the true labels of the run's own rows: a .csv, .tsv, .jsonl or .npy file")
    judges = read_judges(truth, rows_of(run, labeling))
    row_of = {name: row for row, name in enumerate(labeling.names)}
    rows = torch.tensor([row_of[name] for name in judges.names])
    bins = calibration_bins(labeling.scores[rows], judges.labels)
    is_right = labeling.labels[rows] == judges.labels
    classes = per_class(is_right, judges.labels, judges.class_names)
    accuracy = wilson(float(is_right.double().mean()), len(rows))
    return Evaluation(len(rows), accuracy, classes, expected_error(bins), judges.notes)


def per_class(
    is_right: Bool[Tensor, " m"], truth: Int64[Tensor, " m"], class_names: tuple[str, ...]
) -> tuple[ClassEstimate, ...]:
    return tuple(class_estimate(name, is_right[truth == number]) for number, name in enumerate(class_names))


def rows_of(run: Path, labeling: Labeling) -> Collection:
    """The run's rows by name and given label, without their pictures: true labels need no more."""
    config = read_settings(RunFolder.open(run)).collection
    pictures = Path(config.pictures)
    n, class_names = len(labeling), labeling.summary.class_names
    rows: ImageSet | VectorSet
    if pictures.suffix.lower() in ARRAY_SUFFIXES and not pictures.is_dir():
        rows = VectorSet(torch.zeros(n, 1), labeling.given, class_names)
    else:
        rows = ImageSet(torch.zeros(n, 1, 1, 1, dtype=torch.uint8), labeling.given, class_names, labeling.names)
    return Collection(rows, labeling.names, pictures, merges_similar_classes=config.merge_classes)
