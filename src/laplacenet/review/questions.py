"""Which pictures to ask about: typical ones at first, then grids or uncertain ones, by gain per answer."""

import functools
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from sklearn.cluster import KMeans
from torch import Tensor

from laplacenet.review.propagation import Embedded
from laplacenet.runtime import stream, stream_seed

LEVELS = (16, 48, 144, 432)
"""Numbers of clusters: the regions of the first questions, and finer ones while new classes keep turning up."""
LARGEST_CLUSTERED = 5_000
N_DIRECTIONS = 48
GRID = 20
LEAST_IN_GRID = 2
N_SINGLES = 200
DENSITY_POWER = 2
"""The exponent of the density in the weight of an uncertain picture: the answer for an outlier teaches little."""
TYPICAL_FIRST = 0.15
"""Share of answered pictures above which mostly outliers are wrong, so that they are asked about."""
N_GRIDS = 6
INFORMATION = 7.5e-5
"""Labels put right by a nat of information about a picture, times the square of the open pictures of a class: the more
there are, the more of them learn, and the longer it lasts."""
ROUNDS = 6


@dataclass(frozen=True)
class Grid:
    """Pictures that look like one class, given by its place among the columns of the scores."""

    column: int
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Ranking:
    """Rows of the embedded pictures, the most useful first."""

    singles: tuple[int, ...]
    grids: tuple[Grid, ...]


@torch.no_grad()
def regions(embedded: Embedded, *, seed: int) -> list[list[list[int]]]:
    """For each level its clusters, the largest first, and in each its rows, the most typical first.

    A picture is typical if it resembles its neighbors.
    """
    n = len(embedded)
    chosen = torch.arange(n)
    if n > LARGEST_CLUSTERED:
        drawn = stream(seed, "review/clusters").choice(n, LARGEST_CLUSTERED, replace=False)
        chosen = torch.from_numpy(np.sort(drawn))
    points = embedded.points[chosen]
    typicality = (embedded.land.graph.W_normalized @ points.new_ones(n, 1)).squeeze(1)[chosen]
    reduced = embedded.reduced[chosen, :N_DIRECTIONS].numpy()
    return [_clusters(reduced, chosen, typicality, n_clusters, seed=seed) for n_clusters in LEVELS]


def _clusters(
    reduced: Float[np.ndarray, "m c"],
    chosen: Int64[Tensor, " m"],
    typicality: Float[Tensor, " m"],
    n_clusters: int,
    *,
    seed: int,
) -> list[list[int]]:
    n_clusters = max(1, min(n_clusters, len(reduced) // 3))
    random_state = stream_seed(seed, "review/clusters", n_clusters) % 2**32
    found = KMeans(n_clusters, n_init=1, max_iter=20, random_state=random_state).fit_predict(reduced)
    order = typicality.argsort(descending=True, stable=True).numpy()
    clusters: list[list[int]] = [[] for _ in range(n_clusters)]
    for place in order:
        clusters[found[place]].append(int(chosen[place]))
    return sorted((cluster for cluster in clusters if cluster), key=len, reverse=True)


def first_questions(levels: list[list[list[int]]], answered: Collection[int]) -> list[int]:
    """One typical row for each region in which nothing is answered yet."""
    asked = set(answered)
    rows = []
    for clusters in levels:
        for cluster in clusters:
            if asked.isdisjoint(cluster):
                rows.append(cluster[0])
                asked.add(cluster[0])
    return rows


@torch.no_grad()
def rank(embedded: Embedded, scores: Float[Tensor, "m C"], is_open: Bool[Tensor, " m"]) -> Ranking:
    """Among the open rows: those between two classes, none beside another of its kind; and grids worth more than one.

    An answer corrects a wrong label, and informs others by the entropy of the prediction. A grid costs one answer and
    one for each wrong picture in it; its gain is that of all its pictures.
    """
    rows = torch.nonzero(is_open).squeeze(1)
    if scores.shape[1] < 2 or not len(rows):
        return Ranking(tuple(rows.tolist()[:N_SINGLES]), ())
    best = scores.topk(2, dim=1).values
    doubt, margin = 1 - best[:, 0], best[:, 0] - best[:, 1]
    information = INFORMATION * (len(rows) / scores.shape[1]) ** 2
    weight = typical_first(embedded, 1 - len(rows) / len(is_open))
    gain = doubt + information * weight * entropy(scores)
    worth = (1 - margin) * density(embedded) ** DENSITY_POWER
    singles = rows[worth[rows].argsort(descending=True, stable=True)]
    spread = _spread(embedded, singles[: 4 * N_SINGLES])
    grids = _grids(embedded, scores, gain, rows)
    return Ranking(spread, tuple(grid for rate, grid in grids if rate >= float(gain[spread[0]])))


def entropy(scores: Float[Tensor, "m C"]) -> Float[Tensor, " m"]:
    total: Tensor = torch.special.entr(scores).sum(1)
    return total


def typical_first(embedded: Embedded, answered: float) -> Float[Tensor, " m"]:
    """Weights of the information in answers: the density at first, 1 once more pictures are answered."""
    relative: Tensor = (density(embedded) / density(embedded).mean()) ** DENSITY_POWER
    share = 1 / (1 + (answered / TYPICAL_FIRST) ** 2)
    return share * relative + (1 - share)


@functools.lru_cache(maxsize=2)
def density(embedded: Embedded) -> Float[Tensor, " m"]:
    """Mean cosine of each row with its neighbors in the graph, at least a little."""
    W = embedded.land.graph.W_normalized
    starts, columns = W.crow_indices(), W.col_indices()
    counts = starts.diff()
    rows = torch.repeat_interleave(torch.arange(len(embedded)), counts)
    total = torch.zeros(len(embedded))
    for part in torch.split(torch.arange(len(rows)), 100_000):
        cosine = (embedded.points[rows[part]] * embedded.points[columns[part]]).sum(1)
        total.index_add_(0, rows[part], cosine)
    return (total / counts.clamp(min=1)).clamp(min=0.01)


def _spread(embedded: Embedded, rows: Int64[Tensor, " m"]) -> tuple[int, ...]:
    """The rows in their order, but a neighbor of one that was taken waits: its answer may settle it too."""
    W = embedded.land.graph.W_normalized
    starts, columns = W.crow_indices().numpy(), W.col_indices().numpy()
    is_covered = np.zeros(len(embedded), dtype=bool)
    taken, waiting = [], []
    for row in rows.tolist():
        if is_covered[row]:
            waiting.append(row)
            continue
        taken.append(row)
        is_covered[columns[starts[row] : starts[row + 1]]] = True
    return tuple((taken + waiting)[:N_SINGLES])


def _grids(
    embedded: Embedded, scores: Float[Tensor, "m C"], gain: Float[Tensor, " m"], rows: Int64[Tensor, " r"]
) -> list[tuple[float, Grid]]:
    """Of each class the grid with the most gain per answer, with that gain; the best first."""
    confidence, guess = scores.max(1)
    of_class, gains, doubts = guess[rows].numpy(), gain[rows].numpy(), 1 - confidence[rows].numpy()
    grids: list[tuple[float, Grid]] = []
    for column in range(scores.shape[1]):
        own = np.flatnonzero(of_class == column)
        if len(own) < LEAST_IN_GRID:
            continue
        members, rate = best_grid(gains[own], doubts[own])
        grids.append((rate, Grid(column, tuple(rows[torch.from_numpy(own[members])].tolist()))))
    grids.sort(key=lambda pair: -pair[0])
    return [(rate, alike_first(embedded, grid)) for rate, grid in grids[:N_GRIDS]]


def alike_first(embedded: Embedded, grid: Grid) -> Grid:
    """Ordered by similarity to the first, so that the grid is easy to scan."""
    chosen = torch.tensor(grid.rows)
    alike = embedded.points[chosen] @ embedded.points[chosen[0]]
    return Grid(grid.column, tuple(chosen[alike.argsort(descending=True, stable=True)].tolist()))


def best_grid(gain: Float[np.ndarray, " m"], doubt: Float[np.ndarray, " m"]) -> tuple[Int64[np.ndarray, " g"], float]:
    """The places of at most 20 rows with the largest Σ gain / (1 + Σ doubt), and this ratio.

    Dinkelbach's method: at the best ratio ρ, the best rows are those with the largest gain − ρ·doubt.
    """
    rate = 0.0
    for _ in range(ROUNDS):
        surplus = gain - rate * doubt
        members = np.argsort(-surplus, kind="stable")[:GRID]
        members = members[: max(LEAST_IN_GRID, int((surplus[members] > 0).sum()))]
        found = float(gain[members].sum() / (1 + doubt[members].sum()))
        if found <= rate * (1 + 1e-4):
            break
        rate = found
    return members, rate
