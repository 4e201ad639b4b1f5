"""Lines 8 to 12 of Algorithm 2: features and a few labels become a pseudo-label for every point."""

from dataclasses import dataclass
from numbers import Integral

import torch
from jaxtyping import Bool, Float, Int, Num, Shaped
from torch import Tensor

from laplacenet.graph.affinity import affinity, normalize
from laplacenet.graph.alignment import align_to_prior
from laplacenet.graph.arrays import Array, as_floating, as_tensor
from laplacenet.graph.config import GraphConfig
from laplacenet.graph.reach import reach_every_point
from laplacenet.graph.search import Neighbors, half_ivf_neighbors, ivf_neighbors, nearest_neighbors
from laplacenet.graph.solver import solve
from laplacenet.runtime import InputError
from laplacenet.runtime.group import ALONE, Group
from laplacenet.runtime.timeline import mark

# Exact search takes about 10 s at this size, on two cores and on an H200, and grows with the square.
EXACT_UP_TO = {"cpu": 100_000, "cuda": 2_000_000}


@dataclass(frozen=True)
class PseudoLabels:
    """The graph's labels for every point.

    `scores` are after alignment and sum to 1 in each row; `labels` are their largest entries, but a given label is
    kept. A point that no label reaches is `unreachable`: its scores are the prior. `recall` is the share of true
    neighbors that an approximate search found, None where the search was exact.
    """

    labels: Int[Tensor, " n"]
    scores: Float[Tensor, "n C"]
    unreachable: Bool[Tensor, " n"]
    n_iterations: int
    is_converged: bool
    recall: float | None

    @classmethod
    def by_scores(cls, scores: Float[Tensor, "n C"], given: Int[Tensor, " n"]) -> "PseudoLabels":
        """Those of scores that need no graph and reach every point."""
        labels, nowhere = hard_labels(scores, given.to(scores.device)), torch.zeros(len(scores), dtype=torch.bool)
        return cls(labels, scores, nowhere.to(scores.device), n_iterations=0, is_converged=True, recall=None)


@torch.no_grad()
def pseudo_label(
    features: Num[Array, "n d"],
    labels: Shaped[Array, "..."],
    config: GraphConfig,
    *,
    n_classes: int | None = None,
    group: Group = ALONE,
) -> PseudoLabels:
    """A label for every point from the few that are given; −1 marks a hidden label.

    The processes of a group have the same features and labels. Each searches for a part of the points and solves for a
    part of the classes, and has the labels of all: those of a single process.
    """
    X = unit_rows(checked_features(features))
    y = checked_labels(as_tensor(labels, what="labels").to(X.device), len(X), n_classes)
    return spread(connect(X, config, group), y, config, n_classes=n_classes or int(y.max()) + 1, group=group)


@dataclass(frozen=True)
class Graph:
    """𝒲 over all points, and how much of their true neighborhoods it holds (None: all)."""

    W_normalized: Float[Tensor, "n n"]
    recall: float | None


@torch.no_grad()
def connect(X: Float[Tensor, "n d"], config: GraphConfig, group: Group = ALONE) -> Graph:
    """The graph over unit vectors: expensive to build, and the same for any labels."""
    neighbors = search_neighbors(X, config, group)
    mark("neighbors")
    W_normalized = normalize(affinity(neighbors))
    mark("affinity")
    return Graph(W_normalized, neighbors.recall)


@torch.no_grad()
def spread(
    graph: Graph, y: Int[Tensor, " n"], config: GraphConfig, *, n_classes: int, group: Group = ALONE
) -> PseudoLabels:
    """Propagate these labels (−1 = hidden) over the graph."""
    config.require_classes(n_classes)
    W_normalized = graph.W_normalized
    Y = one_hot(y, n_classes).to(W_normalized.dtype)
    prior = class_prior(Y, config.prior)
    solution = solve(
        W_normalized, Y, gamma=config.gamma, tol=config.tol, max_iterations=config.max_iterations, group=group
    )
    mark("conjugate gradients")
    del Y  # as large as the scores
    F, unreachable = reach_every_point(solution.F.clamp_(min=0), W_normalized)
    scores = align_to_prior(F, y >= 0, prior, iterations=config.alignment_iterations)
    mark("alignment")
    return PseudoLabels(
        labels=hard_labels(scores, y),
        scores=scores,
        unreachable=unreachable,
        n_iterations=solution.n_iterations,
        is_converged=solution.is_converged,
        recall=graph.recall,
    )


def search_neighbors(X: Float[Tensor, "n d"], config: GraphConfig, group: Group = ALONE) -> Neighbors:
    """Exact neighbors, or IVF, as `config.search` says; `auto` is exact up to a size, which depends on the device."""
    most = EXACT_UP_TO[X.device.type]
    if config.search == "exact" or (config.search == "auto" and len(X) <= most):
        return nearest_neighbors(X, k=config.k, group=group)
    search = ivf_neighbors if X.device.type == "cpu" else half_ivf_neighbors
    return search(X, k=config.k, group=group)


def checked_features(features: Num[Array, "n d"]) -> Float[Tensor, "n d"]:
    """The features as floating-point numbers, all of them finite."""
    X = as_floating(features, what="features")
    if X.ndim != 2 or not X.numel():
        raise InputError(f"features of shape {tuple(X.shape)}; give at least one point with at least one feature")
    if not X.isfinite().all():
        raise InputError("features hold NaN or infinite values; give finite numbers")
    return X


WRAPPED = {torch.uint8: 2**8 - 1, torch.uint16: 2**16 - 1, torch.uint32: 2**32 - 1}
"""What −1 becomes in a type without a sign; in 64 bits it becomes −1 again."""


MOST_CLASSES = 1_000_000


def checked_labels(labels: Tensor, n: int, n_classes: int | None) -> Int[Tensor, " n"]:
    """The labels as int64: −1 or a class, at least one of them given."""
    if labels.shape != (n,) or labels.is_floating_point() or labels.is_complex():
        raise InputError(f"labels of shape {tuple(labels.shape)} and {labels.dtype}; give {n} integers, −1 for hidden")
    if n_classes is not None and (not isinstance(n_classes, Integral) or not 1 <= n_classes <= MOST_CLASSES):
        raise InputError(f"n_classes = {n_classes!r}; give an integer from 1 to {MOST_CLASSES}")
    y = labels.long()
    if labels.dtype in WRAPPED and bool((y == WRAPPED[labels.dtype]).any()):
        raise InputError(f"a label of {WRAPPED[labels.dtype]} is −1 in {labels.dtype}; give a type with a sign")
    lowest, highest = (int(bound) for bound in torch.stack(torch.aminmax(y)).cpu())
    if lowest == highest == -1:
        raise InputError("every label is hidden (−1); give at least one")
    if lowest < -1 or (n_classes is not None and highest >= n_classes):
        accepted = "−1 or a class from 0" if n_classes is None else f"−1 or a class from 0 to {n_classes - 1}"
        raise InputError(f"labels from {lowest} to {highest}; give {accepted}")
    return y


def unit_rows(X: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """Rows of length 1, so that inner products are cosines; a row of zeros stays and has no neighbors."""
    # Division by the largest entry first: squares of finite numbers may overflow or vanish.
    X = X / positive_or_one(X.abs().amax(1, keepdim=True))
    return X / positive_or_one(torch.linalg.vector_norm(X, dim=1, keepdim=True))


def positive_or_one(divisor: Tensor) -> Tensor:
    """The divisor, but 1 where it is 0."""
    return torch.where(divisor > 0, divisor, 1)


def one_hot(y: Int[Tensor, " n"], n_classes: int) -> Bool[Tensor, "n C"]:
    """The paper's Y; the row of a hidden label (−1) is zero."""
    return y[:, None] == torch.arange(n_classes, device=y.device)


def class_prior(Y: Float[Tensor, "n C"], prior: tuple[float, ...] | None) -> Float[Tensor, " C"]:
    """The paper's D: the class shares among the labeled points, unless given."""
    D = Y.sum(0).double() if prior is None else torch.tensor(prior, dtype=torch.float64, device=Y.device)
    return D / D.sum()


def hard_labels(scores: Float[Tensor, "n C"], labels: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """The class with the largest score; a given label is kept."""
    return torch.where(labels >= 0, labels, scores.argmax(1))
