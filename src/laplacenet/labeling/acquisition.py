"""Which rows to label next, and which given labels to check again."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from laplacenet.labeling.result import Labeling, path_cell
from laplacenet.runtime import InputError, stream
from laplacenet.runtime.csv_files import csv_text
from laplacenet.runtime.wording import counted

POOL = 4_000  # rows that are compared pairwise: their similarities take 64 MB
N_COVERING = 50  # rows that should cover the pool: as many as `next` lists by default
ALIKE = math.exp(-1)  # closeness at the reach
COPY = 1e-6  # cosine distance up to which two rows are the same picture: rounding makes up to about a tenth of it
FLOOR = 0.01  # weight of a row of which the graph is certain: it may be wrong, and ties are broken by coverage


@dataclass(frozen=True, eq=False)
class Selection:
    """Rows in the order in which they should be labeled; `n_alike` counts the rows that are much like each."""

    rows: Int64[Tensor, " m"]
    n_alike: Int64[Tensor, " m"]


def select_next(labeling: Labeling, n: int) -> Selection:
    """The n unlabeled rows whose labels would reduce the uncertainty most.

    A row's weight is 1 minus the margin of its label. Rows are selected greedily: each adds most to the sum over all
    rows of weight × closeness to the nearest selected row. So a row in the middle of an uncertain cluster comes first;
    its near-duplicates then add little, which spreads the selection over clusters; and an outlier, however uncertain,
    is close to itself only. Uncertainty alone would select fifty pictures of one hard pair of classes, coverage alone
    outliers. Copies of rows with a given label are left out: somebody has looked at them. A shorter list is the
    beginning of a longer one.
    """
    require_some(n)
    candidates = torch.nonzero(~labeling.is_given).squeeze(1)
    if len(candidates) == 0:
        return Selection(candidates, candidates)
    weights = FLOOR + (1 - FLOOR) * (1 - labeling.margin[candidates].clamp(0, 1))
    pool = _drawn_by_weight(weights, POOL)
    pool = pool[_is_no_copy(labeling, candidates[pool])]
    closeness = _closeness(labeling.features[candidates[pool]].float())
    taken = _greedy_cover(closeness, weights[pool], min(n, len(pool)))
    n_alike = ((closeness[taken] >= ALIKE).sum(dim=1) - 1) * (len(candidates) / len(pool))
    return Selection(candidates[pool[taken]], n_alike.round().long())


def suspects(labeling: Labeling) -> Int64[Tensor, " m"]:
    """Given labels that are contradicted by held-out scores, the clearest first."""
    rows = torch.nonzero(labeling.is_suspect).squeeze(1)
    return rows[contradiction(labeling, rows).argsort(descending=True, stable=True)]


def contradiction(labeling: Labeling, rows: Int64[Tensor, " m"]) -> Float[Tensor, " m"]:
    """The best held-out score minus that of the given label."""
    unseen = labeling.unseen_scores[rows].nan_to_num(0.0)
    return unseen.amax(1) - unseen.gather(1, labeling.given[rows, None]).squeeze(1)


def why(labeling: Labeling, row: int, n_alike: int) -> str:
    """In words: the two most likely labels of the row, and how many others are like it, if any."""
    names = labeling.summary.class_names
    shares, classes = labeling.scores[row].topk(min(2, len(names)))
    said = " or ".join(f"{names[c]} {s:.2f}" for s, c in zip(shares.tolist(), classes.tolist(), strict=True))
    return f"{said}; like {counted(n_alike, 'other')}" if n_alike else said


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
    """The n most doubtful of the given labels: row, the label by held-out scores, reason."""
    require_some(n)
    rows = suspects(labeling)[:n].tolist()
    return [(row, int(labeling.unseen_scores[row].argmax()), why_suspect(labeling, row)) for row in rows]


def guess_confidence(labeling: Labeling, row: int, guess: int) -> float:
    """The confidence of a guess; for given labels by held-out scores."""
    scores = labeling.unseen_scores[row] if labeling.is_given[row] else labeling.scores[row]
    return float(scores[guess])


def as_csv(labeling: Labeling, rows: Sequence[tuple[int, int, str]]) -> str:
    """A list to fill in: an empty column for the label, so that an unchecked guess is never taken for a label."""
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


def _is_no_copy(labeling: Labeling, rows: Int64[Tensor, " m"]) -> Bool[Tensor, " m"]:
    """Whether the rows equal no row with a given label; all are taken if none is new."""
    features, given = labeling.features[rows].float(), torch.nonzero(labeling.is_given).squeeze(1)
    nearest = torch.full((len(rows),), torch.inf)
    for start in range(0, len(given), POOL):
        known = labeling.features[given[start : start + POOL]].float()
        nearest = torch.minimum(nearest, (1 - features @ known.T).amin(dim=1))
    is_new = nearest > COPY
    return is_new if bool(is_new.any()) else torch.ones_like(is_new)


def _closeness(features: Float[Tensor, "m d"]) -> Float[Tensor, "m m"]:
    """exp(−distance/scale) by cosine; the scale is the reach at which N_COVERING rows can cover all m of them.

    It does not depend on n, so that a shorter list is the beginning of a longer one.
    """
    distances = (1 - features @ features.T).clamp(min=0)
    reach = min(len(features) - 1, max(1, round(len(features) / N_COVERING)))
    scale = distances.kthvalue(reach + 1, dim=1).values.median().clamp(min=1e-6)
    return (-distances / scale).exp()


def _greedy_cover(closeness: Float[Tensor, "m m"], weights: Float[Tensor, " m"], n: int) -> Int64[Tensor, " n"]:
    """Greedy selection: each row is the one that adds most.

    The gain of a row only shrinks as others are selected, so an old sum is an upper bound, and only the leading row is
    summed again.
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
