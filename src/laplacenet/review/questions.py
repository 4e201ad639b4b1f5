"""Which pictures are most worth an answer: typical ones at first, then doubtful ones, singly or as grids."""

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

LEVELS = (16, 48, 144)
"""Numbers of clusters: the regions of the first questions, and finer ones while new classes keep turning up."""
LARGEST_CLUSTERED = 5_000
N_DIRECTIONS = 48
GRID = 20
LEAST_IN_GRID = 4
N_SINGLES = 200
DENSITY_POWER = 2
"""Of the density that a doubtful picture is weighted with: an outlier's answer teaches little."""
N_GRIDS = 6
LEAST_SURE = 0.5
"""A grid is shown under one name: what is less likely than this would be clicked away."""


@dataclass(frozen=True)
class Grid:
    """Pictures that look like one class, given by its place among the columns of the scores."""

    column: int
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Ranking:
    """Rows of the embedded pictures, those most worth an answer first."""

    singles: tuple[int, ...]
    grids: tuple[Grid, ...]


@torch.no_grad()
def regions(embedded: Embedded, *, seed: int) -> list[list[list[int]]]:
    """For each level its clusters, the largest first, and in each its rows, the most typical first.

    Typical is what its neighbors resemble most: an outlier stands for nothing.
    """
    n = len(embedded)
    chosen = torch.arange(n)
    if n > LARGEST_CLUSTERED:
        drawn = stream(seed, "review/clusters").choice(n, LARGEST_CLUSTERED, replace=False)
        chosen = torch.from_numpy(np.sort(drawn))
    points = embedded.points[chosen]
    typicality = (embedded.W_normalized @ points.new_ones(n, 1)).squeeze(1)[chosen]
    centered = points - points.mean(0)
    _, _, V = torch.svd_lowrank(centered, q=min(N_DIRECTIONS, *points.shape))
    reduced = (centered @ V).numpy()
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


def first_questions(levels: list[list[list[int]]], answered: Collection[int], *, n_levels: int) -> list[int]:
    """One typical row for each region in which nothing is answered yet, of the first `n_levels` levels."""
    asked = set(answered)
    rows = []
    for clusters in levels[:n_levels]:
        for cluster in clusters:
            if asked.isdisjoint(cluster):
                rows.append(cluster[0])
                asked.add(cluster[0])
    return rows


@torch.no_grad()
def rank(embedded: Embedded, scores: Float[Tensor, "m C"], is_open: Bool[Tensor, " m"]) -> Ranking:
    """Among the open rows: those between two classes, none beside another of its kind; and grids of such."""
    if scores.shape[1] < 2 or not bool(is_open.any()):
        return Ranking(tuple(torch.nonzero(is_open).squeeze(1).tolist()[:N_SINGLES]), ())
    best = scores.topk(2, dim=1)
    margin = best.values[:, 0] - best.values[:, 1]
    rows = torch.nonzero(is_open).squeeze(1)
    doubtful = rows[margin[rows].argsort(stable=True)]
    gain = (1 - margin) * density(embedded) ** DENSITY_POWER
    rows = rows[gain[rows].argsort(descending=True, stable=True)]
    return Ranking(_spread(embedded, rows[: 4 * N_SINGLES]), _grids(embedded, scores, margin, doubtful))


@functools.lru_cache(maxsize=2)
def density(embedded: Embedded) -> Float[Tensor, " m"]:
    """Mean cosine of each row with its neighbors in the graph, at least a little."""
    W = embedded.W_normalized
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
    W = embedded.W_normalized
    starts, columns = W.crow_indices(), W.col_indices()
    taken, waiting, covered = [], [], set[int]()
    for row in rows.tolist():
        if row in covered:
            waiting.append(row)
            continue
        taken.append(row)
        covered.update(columns[int(starts[row]) : int(starts[row + 1])].tolist())
    return tuple((taken + waiting)[:N_SINGLES])


def _grids(
    embedded: Embedded, scores: Float[Tensor, "m C"], margin: Float[Tensor, " m"], rows: Int64[Tensor, " r"]
) -> tuple[Grid, ...]:
    """Of each class its most doubtful rows, those like the first of them beside it: alike is easily looked over.

    A wrong picture costs an answer, a right one nothing. So where half of a grid is wrong, an answer corrects nearly
    one label; a single doubtful picture corrects half a one.
    """
    confidence, guess = scores.max(1)
    grids: list[tuple[float, Grid]] = []
    for column in range(scores.shape[1]):
        own = rows[(guess[rows] == column) & (confidence[rows] >= LEAST_SURE)]  # still the most doubtful first
        if len(own) < LEAST_IN_GRID:
            continue
        doubtful = own[:GRID]
        alike = embedded.points[doubtful] @ embedded.points[doubtful[0]]
        members = doubtful[alike.argsort(descending=True, stable=True)]
        doubt = float((1 - margin[members]).sum())
        grids.append((doubt, Grid(column, tuple(members.tolist()))))
    grids.sort(key=lambda pair: -pair[0])
    return tuple(grid for _, grid in grids[:N_GRIDS])
