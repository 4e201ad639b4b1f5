"""DAG: labels that travel along paths of rising density, over features that denser neighbors have smoothed.

Images in dense regions of the feature space are labeled more safely than those between the regions. From each unlabeled
image a path leads to ever denser neighbors, until it meets a labeled image or the densest point of its region, whose
label it takes. We knew the paper's abstract and introduction only, so the details are our reading.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from laplacenet.graph import Neighbors, PseudoLabels
from laplacenet.graph.pseudo_labels import one_hot, unit_rows
from laplacenet.models import Inference
from laplacenet.runtime.device import at_least_float32
from laplacenet.training.method import Batch
from laplacenet.training.methods.consistency import ViewConfig, weighted_loss
from laplacenet.training.methods.epoch_labels import EpochLabels
from laplacenet.training.weighting import certainty


@dataclass(frozen=True)
class DAGConfig(ViewConfig):
    """`temperature` divides similarities in both softmaxes: over denser neighbors and over class means.

    `first_stage` is the share of all steps that train on the given labels alone. No setting is the paper's.
    """

    name: str = "dag"
    strength: str = "strong"
    temperature: float = 0.1
    first_stage: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0 < self.temperature < float("inf"), "temperature", "be positive and finite")
        self.require(0 <= self.first_stage < 1, "first_stage", "lie in [0, 1)")


@dataclass(frozen=True, eq=False)
class DAG(EpochLabels):
    """First CE on given labels, then 1/b Σ_i ω_i·CE(f(x_i), ŷ_i) with labels from a density-aware graph.

    The density of a node is the sum of the similarities to its k neighbors. Aggregation: z̄_i is z_i plus a
    softmax-weighted mean of its denser neighbors. Propagation: a path leads from each node to its most similar denser
    neighbor, and so on, until it meets a labeled node, whose label it takes, or a density peak, whose label is the
    softmax of its similarities to the class means of labeled z̄. ω_i = 1 − H/log C, 1 for given labels.

    Kept between steps: the label and the weight ω of each image, computed anew before each epoch after the first stage.

    Our reading: there is no public code, and we had the paper's abstract and introduction, not its equations. From the
    paper: a graph that knows the density of its nodes, features that aggregate their neighborhood by density (DNA), and
    pseudo-labels that are propagated along density-ascending paths (DPLP). Ours is everything else: all formulas above,
    settings, and strong views. The paper trains features and propagation end to end; here the aggregated features only
    serve to label, once before each epoch, and the network is trained on the labels.
    """

    config: DAGConfig

    summary: ClassVar[str] = "labels along paths of rising density in a graph (our reading)"
    source: ClassVar[str] = "Li et al., Density-Aware Graph for Deep Semi-Supervised Visual Recognition, 2020"

    def notes(self) -> list[str]:
        return [*super().notes(), *self.graph.notes(len(self.problem.labels))]

    def label(self, inference: Inference, features: Float[Tensor, "n d"]) -> PseudoLabels:
        X, labels, T = unit_rows(features), self.problem.labels.to(features.device), self.config.temperature
        neighbors = self.neighbors(X)
        density = neighbors.similarities.sum(dim=1)
        smoothed = unit_rows(X + aggregate(X, neighbors, density, temperature=T))
        Y = one_hot(labels, self.n_classes).to(X.dtype)
        means = unit_rows(Y.T @ smoothed)
        has_mean = Y.sum(dim=0) > 0
        by_means = (smoothed @ means.T / T).masked_fill(~has_mean, -torch.inf).softmax(dim=1)
        ends = path_ends(ascend(self.neighbors(smoothed), density, is_end=labels >= 0))
        return PseudoLabels.by_scores(torch.where((labels >= 0)[:, None], Y, by_means)[ends], self.problem.labels)

    def weights(self, pseudo_labels: PseudoLabels, features: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        omega = certainty(pseudo_labels.scores)
        return torch.where(self.is_given(omega), 1.0, omega)

    def loss(self, learner: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        """Both views in one pass."""
        logits = at_least_float32(learner(self.noisy_views(batch)))
        first, second = logits.chunk(2)
        return (weighted_loss(first, batch) + weighted_loss(second, batch)) / 2


def aggregate(
    X: Float[Tensor, "n d"], neighbors: Neighbors, density: Float[Tensor, " n"], *, temperature: float
) -> Float[Tensor, "n d"]:
    """Σ_j a_ij·x_j over denser neighbors, a the softmax of their similarities; zero at a peak."""
    is_denser = density[neighbors.indices] > density[:, None]
    scores = (neighbors.similarities / temperature).masked_fill(~is_denser, -torch.inf)
    attention = scores.softmax(dim=1).nan_to_num(0.0).to(X.dtype)  # a row without a denser neighbor is NaN
    total = torch.zeros_like(X)
    for column in range(attention.shape[1]):  # never n × k × d numbers at once
        total += attention[:, column, None] * X[neighbors.indices[:, column]]
    return total


def ascend(neighbors: Neighbors, density: Float[Tensor, " n"], *, is_end: Tensor) -> Int64[Tensor, " n"]:
    """The next node of each path: the most similar denser neighbor, or the node itself at its end."""
    is_denser = density[neighbors.indices] > density[:, None]
    itself = torch.arange(len(density), device=density.device)
    if not neighbors.indices.shape[1]:
        return itself
    best, place = neighbors.similarities.masked_fill(~is_denser, -torch.inf).max(dim=1)
    parent = neighbors.indices.gather(1, place[:, None])[:, 0]
    return torch.where(is_end | (best == -torch.inf), itself, parent)


def path_ends(parent: Int64[Tensor, " n"]) -> Int64[Tensor, " n"]:
    """Where each path ends; every round doubles the length of the steps."""
    while not torch.equal(further := parent[parent], parent):
        parent = further
    return parent
