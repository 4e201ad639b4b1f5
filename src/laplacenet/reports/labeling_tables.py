"""A labeling class by class: accuracies, numbers of given and new labels, and confusions."""

from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor

from laplacenet.labeling.result import Interval, Labeling
from laplacenet.reports.style import class_colors, marks

N_WRITTEN_OUT = 15  # classes up to which the confusion is a table of numbers; beyond, a picture and the worst pairs
N_PAIRS = 20


@dataclass(frozen=True)
class ClassRow:
    """One class: its mark and color as on the map, its estimate, and its shares of labels in percent."""

    mark: str
    color: str
    name: str
    n_judged: int
    accuracy: Interval | None
    n_given: int
    n_found: int
    given: float
    found: float
    prior: float


@dataclass(frozen=True)
class ConfusedPair:
    given: str
    found: str
    n: int
    n_given: int


@dataclass(frozen=True)
class ConfusionRow:
    mark: str
    name: str
    cells: tuple[tuple[int, float], ...]  # how many, and which share of the row


@dataclass(frozen=True)
class Confusion:
    """Given labels against held-out predictions; `squares` are column, row, share and words for the picture."""

    n: int
    rows: tuple[ConfusionRow, ...]
    squares: tuple[tuple[int, int, float, str], ...]
    pairs: tuple[ConfusedPair, ...]
    is_written_out: bool


def class_rows(labeling: Labeling) -> list[ClassRow]:
    summary = labeling.summary
    n_classes = len(summary.class_names)
    n_given = counts(labeling.given[labeling.is_given], n_classes)
    n_found = counts(labeling.labels[~labeling.is_given], n_classes)
    judged = {one.name: one for one in summary.estimate.classes}
    rows = []
    looks = zip(summary.class_names, marks(summary.class_names), class_colors(n_classes), strict=True)
    for i, (name, mark, color) in enumerate(looks):
        one = judged.get(name)
        rows.append(
            ClassRow(
                mark,
                color,
                name,
                n_judged=0 if one is None else one.n,
                accuracy=None if one is None else one.accuracy,
                n_given=n_given[i],
                n_found=n_found[i],
                given=100 * n_given[i] / max(1, sum(n_given)),
                found=100 * n_found[i] / max(1, sum(n_found)),
                prior=100 * summary.prior[i],
            )
        )
    return rows


def counts(labels: Int64[Tensor, " n"], n_classes: int) -> list[int]:
    return torch.bincount(labels, minlength=n_classes).tolist()


def confusion(labeling: Labeling) -> Confusion | None:
    """None where no given label was judged unseen."""
    is_judged = labeling.is_given & labeling.unseen_scores.isfinite().all(1)
    n, names = int(is_judged.sum()), labeling.summary.class_names
    if n == 0:
        return None
    n_classes = len(names)
    places = labeling.given[is_judged] * n_classes + labeling.unseen_scores[is_judged].argmax(1)
    table = torch.bincount(places, minlength=n_classes**2).view(n_classes, n_classes)
    shares = table / table.sum(1, keepdim=True).clamp(min=1)
    rows = tuple(
        ConfusionRow(mark, name, tuple(zip(table[i].tolist(), shares[i].tolist(), strict=True)))
        for i, (name, mark) in enumerate(zip(names, marks(names), strict=True))
    )
    squares = tuple(
        (
            column,
            row,
            round(float(shares[row, column]), 3),
            f"{names[row]} → {names[column]}: {int(table[row, column])}",
        )
        for row, column in table.nonzero().tolist()
    )
    return Confusion(n, rows, squares, confused_pairs(table, names), n_classes <= N_WRITTEN_OUT)


def confused_pairs(table: Int64[Tensor, "C C"], names: tuple[str, ...]) -> tuple[ConfusedPair, ...]:
    """Pairs of given and predicted classes that differ, the most frequent first."""
    wrong = table.clone().fill_diagonal_(0)
    pairs = sorted(wrong.nonzero().tolist(), key=lambda pair: -int(wrong[pair[0], pair[1]]))[:N_PAIRS]
    return tuple(ConfusedPair(names[i], names[j], int(wrong[i, j]), int(table[i].sum())) for i, j in pairs)
