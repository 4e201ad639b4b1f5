"""Which rows are most worth a person's label next, and which given labels are worth a second look."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from laplacenet.labeling.result import Labeling, path_cell
from laplacenet.runtime import InputError, stream
from laplacenet.runtime.csv_files import csv_text

POOL = 4_000  # rows compared with one another: their similarities fill 64 MB
N_COVERING = 50  # rows that should cover the pool: as many as `next` lists by itself
ALIKE = math.exp(-1)  # closeness at the reach
FLOOR = 0.01  # what a row counts of which the graph is sure: sure is not right, and ties are broken by coverage


@dataclass(frozen=True, eq=False)
class Selection:
    """Rows in the order in which they should be labeled; `n_alike` counts the rows that are much like each."""

    rows: Int64[Tensor, " m"]
    n_alike: Int64[Tensor, " m"]


def select_next(labeling: Labeling, n: int) -> Selection:
    """The n rows without a given label whose labels would settle most of what is unsettled.

    Each row of the collection wants to lie near a labeled one, the more the less sure the graph is of it: it weighs
    what its label's margin lacks to 1. One row after another is taken that adds most to the sum of weight ×
    closeness to the nearest row taken. So a row in the middle of an unsure crowd comes first; its twins then add
    little, which spreads the choice over clusters; and an outlier, however unsure, is close to itself alone.
    Uncertainty without this picks fifty pictures of one hard pair, spread without it picks outliers. Fewer rows are the
    beginning of more.
    """
    require_some(n)
    candidates = torch.nonzero(~labeling.is_given).squeeze(1)
    if len(candidates) == 0:
        return Selection(candidates, candidates)
    weights = FLOOR + (1 - FLOOR) * (1 - labeling.margin[candidates].clamp(0, 1))
    pool = _drawn_by_weight(weights, POOL)
    closeness = _closeness(labeling.features[candidates[pool]].float())
    taken = _greedy_cover(closeness, weights[pool], min(n, len(pool)))
    n_alike = ((closeness[taken] >= ALIKE).sum(dim=1) - 1) * (len(candidates) / len(pool))
    return Selection(candidates[pool[taken]], n_alike.round().long())


def suspects(labeling: Labeling) -> Int64[Tensor, " m"]:
    """Given labels that the scores they had no part in contradict, the most clearly contradicted first."""
    rows = torch.nonzero(labeling.is_suspect).squeeze(1)
    return rows[contradiction(labeling, rows).argsort(descending=True, stable=True)]


def contradiction(labeling: Labeling, rows: Int64[Tensor, " m"]) -> Float[Tensor, " m"]:
    """By how much the best unseen score stands above that of the label that was given."""
    unseen = labeling.unseen_scores[rows].nan_to_num(0.0)
    return unseen.amax(1) - unseen.gather(1, labeling.given[rows, None]).squeeze(1)


def why(labeling: Labeling, row: int, n_alike: int) -> str:
    """In words: between which labels the row stands, and how many others are like it."""
    names = labeling.summary.class_names
    shares, classes = labeling.scores[row].topk(min(2, len(names)))
    said = " or ".join(f"{names[c]} {s:.2f}" for s, c in zip(shares.tolist(), classes.tolist(), strict=True))
    return f"{said}; like {n_alike} other{'' if n_alike == 1 else 's'}"


def why_suspect(labeling: Labeling, row: int) -> str:
    names, unseen = labeling.summary.class_names, labeling.unseen_scores[row]
    given = int(labeling.given[row])
    return f"given as {names[given]}, which scores {float(unseen[given]):.2f} where the label is not seen"


def next_entries(labeling: Labeling, n: int) -> list[tuple[int, int, str]]:
    """The n rows most worth labeling: row, guess, reason."""
    chosen = select_next(labeling, n)
    rows = zip(chosen.rows.tolist(), chosen.n_alike.tolist(), strict=True)
    return [(row, int(labeling.labels[row]), why(labeling, row, n_alike)) for row, n_alike in rows]


def require_some(n: int) -> None:
    if n < 1:
        raise InputError(f"-n {n}: ask for at least one row")


def suspect_entries(labeling: Labeling, n: int) -> list[tuple[int, int, str]]:
    """The n most doubtful of the given labels: row, what the scores say that it had no part in, reason."""
    require_some(n)
    rows = suspects(labeling)[:n].tolist()
    return [(row, int(labeling.unseen_scores[row].argmax()), why_suspect(labeling, row)) for row in rows]


def guess_confidence(labeling: Labeling, row: int, guess: int) -> float:
    """Of a given label's guess, by the scores that the label had no part in."""
    scores = labeling.unseen_scores[row] if labeling.is_given[row] else labeling.scores[row]
    return float(scores[guess])


def as_csv(labeling: Labeling, rows: Sequence[tuple[int, int, str]]) -> str:
    """A list to fill in: an empty column for the label, so that a guess nobody looked at is never taken for one."""
    names = labeling.summary.class_names
    cells = (
        (path_cell(labeling.names[row]), "", names[guess], f"{guess_confidence(labeling, row, guess):.4f}", reason)
        for row, guess, reason in rows
    )
    return csv_text(("path", "label", "guess", "confidence", "why"), cells)


def _drawn_by_weight(weights: Float[Tensor, " n"], size: int) -> Int64[Tensor, " m"]:
    """All rows, or `size` of them drawn without replacement in proportion to their weights, the same each time."""
    if len(weights) <= size:
        return torch.arange(len(weights))
    waits = torch.from_numpy(stream(0, "worth labeling").exponential(size=len(weights))) / weights
    return waits.topk(size, largest=False).indices.sort().values


def _closeness(features: Float[Tensor, "m d"]) -> Float[Tensor, "m m"]:
    """exp(−distance/scale) by cosine; the scale is the reach at which N_COVERING rows can cover all m of them.

    It does not depend on how many are asked for, so that fewer are the beginning of more.
    """
    distances = (1 - features @ features.T).clamp(min=0)
    reach = min(len(features) - 1, max(1, round(len(features) / N_COVERING)))
    scale = distances.kthvalue(reach + 1, dim=1).values.median().clamp(min=1e-6)
    return (-distances / scale).exp()


def _greedy_cover(closeness: Float[Tensor, "m m"], weights: Float[Tensor, " m"], n: int) -> Int64[Tensor, " n"]:
    """Row after row, each the one that adds most; none twice.

    What a row adds only shrinks as others are taken, so an old sum is a bound: only the row that leads is summed again.
    """
    covered = torch.zeros(len(weights))
    bounds = closeness @ weights
    taken: list[int] = []
    while len(taken) < n:
        leader = int(bounds.argmax())
        bounds[leader] = weights @ (closeness[leader] - covered).clamp(min=0)
        if int(bounds.argmax()) == leader:
            covered = torch.maximum(covered, closeness[leader])
            bounds[leader] = -1.0
            taken.append(leader)
    return torch.tensor(taken)
