"""Small collections whose truth is known: clusters as embeddings, striped pictures as files."""

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int64
from numpy import ndarray
from torch import Tensor

from laplacenet.graph import GraphConfig
from laplacenet.graph.pseudo_labels import Graph
from laplacenet.labeling.evidence import Evidence, graph_scores, no_evidence, without_fold


def make_quick(patch: pytest.MonkeyPatch) -> None:
    """Fewer patches and a rougher map, for tests of something else."""
    patch.setattr("laplacenet.models.patches.N_PATCHES", 2_000)
    patch.setattr("laplacenet.labeling.outcome.N_ITERATIONS", 250)


def clusters(
    n: int, n_classes: int, *, noise: float, seed: int = 0, shares: list[float] | None = None
) -> tuple[Float[Tensor, "n d"], Int64[Tensor, " n"]]:
    """Points around random directions; at noise 1.5 the graph finds nine in ten, at 2 half of them."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(n_classes, 16))
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    truth = rng.choice(n_classes, size=n, p=shares)
    points = centers[truth] + noise * rng.normal(size=(n, 16)) / 4
    return torch.from_numpy(points).float(), torch.from_numpy(truth)


def some_given(truth: Int64[Tensor, " n"], rows: Int64[ndarray, " m"]) -> Int64[Tensor, " n"]:
    """The labels of these rows, −1 elsewhere."""
    given = torch.full_like(truth, -1)
    given[rows] = truth[rows]
    return given


def drawn_rows(truth: Int64[Tensor, " n"], n: int, *, seed: int) -> Int64[ndarray, " m"]:
    """Rows at random."""
    return np.random.default_rng(seed).permutation(len(truth))[:n]


def drawn_evenly(truth: Int64[Tensor, " n"], n_each: int, *, seed: int) -> Int64[ndarray, " m"]:
    """As many rows of every class."""
    rng = np.random.default_rng(seed)
    members = [np.flatnonzero(truth.numpy() == number) for number in range(int(truth.max()) + 1)]
    return np.concatenate([rng.permutation(rows)[:n_each] for rows in members])


def striped(n: int, n_classes: int, *, side: int = 16, seed: int = 0) -> tuple[ndarray, ndarray]:
    """Grey pictures with stripes, a class by their angle, and their labels."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % n_classes
    y, x = np.mgrid[:side, :side]
    angle = np.pi * truth / n_classes
    across = np.cos(angle)[:, None, None] * x + np.sin(angle)[:, None, None] * y
    waves = np.sin(across + rng.uniform(0, 6, size=(n, 1, 1)))
    pixels = 128 + 70 * waves + 20 * rng.normal(size=waves.shape)
    return pixels.clip(0, 255).astype(np.uint8), truth


def unseen_graph_evidence(
    graph: Graph,
    given: Int64[Tensor, " n"],
    folds: Int64[Tensor, " n"],
    config: GraphConfig,
    *,
    prior: str,
    n_classes: int,
) -> Evidence:
    """For every row of a fold, the evidence with that fold's labels hidden; NaN for rows in no fold."""
    unseen = no_evidence(len(given), n_classes)
    for fold in range(int(folds.max()) + 1):
        by_graph = graph_scores(graph, without_fold(given, folds, fold), config, prior=prior, n_classes=n_classes)
        unseen = unseen.with_rows(folds == fold, by_graph.evidence)
    return unseen
