"""A finished labeling judged by true labels that it was not given."""

from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from laplacenet.data import Collection, ImageSet, VectorSet, read_judges
from laplacenet.data.arrays import ARRAY_SUFFIXES
from laplacenet.data.judges import labels_own_rows
from laplacenet.labeling.estimate import calibration_bins, class_estimate, expected_error, wilson
from laplacenet.labeling.result import CalibrationBin, ClassEstimate, Interval, Labeling
from laplacenet.labeling.run import read_settings
from laplacenet.runtime import InputError, RunFolder


@dataclass(frozen=True)
class Evaluation:
    """Of the labels that were found: how many were judged, the share that is right with its 95 % confidence interval,
    the same for each class, and how far confidence is from accuracy on average."""

    n: int
    accuracy: Interval
    classes: tuple[ClassEstimate, ...]
    calibration_error: float
    bins: tuple[CalibrationBin, ...]
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
    classes = per_class(is_right, judges.labels, labeling.summary.class_names)
    accuracy = wilson(float(is_right.double().mean()), len(rows))
    return Evaluation(len(rows), accuracy, classes, expected_error(bins), bins, judges.notes)


def per_class(
    is_right: Bool[Tensor, " m"], truth: Int64[Tensor, " m"], class_names: tuple[str, ...]
) -> tuple[ClassEstimate, ...]:
    return tuple(class_estimate(name, is_right[truth == number]) for number, name in enumerate(class_names))


def rows_of(run: Path, labeling: Labeling) -> Collection:
    """The run's rows by name and given label, without what they look like: a list of true labels asks for no more."""
    config = read_settings(RunFolder.open(run)).collection
    pictures = Path(config.pictures)
    n, class_names = len(labeling), labeling.summary.class_names
    rows: ImageSet | VectorSet
    if pictures.suffix.lower() in ARRAY_SUFFIXES and not pictures.is_dir():
        rows = VectorSet(torch.zeros(n, 1), labeling.given, class_names)
    else:
        rows = ImageSet(torch.zeros(n, 1, 1, 1, dtype=torch.uint8), labeling.given, class_names, labeling.names)
    return Collection(rows, labeling.names, pictures, merges_similar_classes=config.merge_classes)
