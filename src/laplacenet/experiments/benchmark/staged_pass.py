"""Our pseudo-label pass with a clock between its stages."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from laplacenet.experiments.benchmark.clock import Stages
from laplacenet.graph import (
    GraphConfig,
    Neighbors,
    affinity,
    align_to_prior,
    hard_labels,
    normalize,
    solve,
)
from laplacenet.graph.pseudo_labels import class_prior, one_hot, search_neighbors, unit_rows
from laplacenet.graph.reach import reach_every_point


@dataclass(frozen=True)
class StagedLabels:
    """As `pseudo_label` gives them, with what the benchmark asks beside."""

    labels: Int64[Tensor, " n"]
    neighbors: Neighbors
    n_iterations: int


@torch.no_grad()
def staged_pass(
    features: Float[Tensor, "n d"], labels: Int64[Tensor, " n"], config: GraphConfig, *, n_classes: int, stages: Stages
) -> StagedLabels:
    """The same functions in the same order as `pseudo_label`."""
    y = labels.to(features.device)
    with stages("neighbors"):
        X = unit_rows(features)
        neighbors = search_neighbors(X, config)
    return staged_labels(neighbors, y, config, n_classes=n_classes, stages=stages)


def staged_labels(
    neighbors: Neighbors, y: Int64[Tensor, " n"], config: GraphConfig, *, n_classes: int, stages: Stages
) -> StagedLabels:
    """What follows the search."""
    with stages("affinity"):
        W_normalized = normalize(affinity(neighbors))
    with stages("cg"):
        Y = one_hot(y, n_classes).to(W_normalized.dtype)
        solution = solve(W_normalized, Y, gamma=config.gamma, tol=config.tol, max_iterations=config.max_iterations)
    with stages("alignment"):
        F, _ = reach_every_point(solution.F.clamp_(min=0), W_normalized)
        prior = class_prior(Y, config.prior)
        scores = align_to_prior(F, y >= 0, prior, iterations=config.alignment_iterations)
        found = hard_labels(scores, y)
    return StagedLabels(found, neighbors, solution.n_iterations)
