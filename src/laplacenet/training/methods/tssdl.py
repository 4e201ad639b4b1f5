"""TSSDL: pseudo-labels weighted by how close their neighbors are, and features drawn together within a class.

The network labels the unlabeled images itself. A label counts less if the features of its image lie far from all
others, since the image may be an outlier. Features are drawn together within a class and pushed apart between classes.
Only the paper's abstract was known to us, so most of this is our reading.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.graph import PseudoLabels
from laplacenet.models import Inference
from laplacenet.runtime.device import at_least_float32
from laplacenet.training.method import Batch
from laplacenet.training.methods.base import TARGETS
from laplacenet.training.methods.consistency import (
    CONSISTENCY,
    WEIGHTS,
    ConsistencyConfig,
    ConsistencyTraining,
    embed_and_classify,
    weighted_loss,
)
from laplacenet.training.methods.epoch_labels import EpochLabels


@dataclass(frozen=True)
class TSSDLConfig(ConsistencyConfig):
    """`feature_weight` is λ and `margin` is h; confidence comes from the distances to `n_neighbors` features.

    `first_stage` is the share of all steps that train on the given labels alone. No setting is the paper's.
    `consistency` is the Π-model's, whose term this is: divided by the number of classes, it would hardly count with a
    weight of 1.
    """

    name: str = "tssdl"
    consistency: float = 100.0
    feature_weight: float = 0.1
    margin: float = 1.0
    n_neighbors: int = 10
    first_stage: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_weight("feature_weight", "margin")
        self.require(self.n_neighbors >= 1, "n_neighbors", "be at least 1")
        self.require(0 <= self.first_stage < 1, "first_stage", "lie in [0, 1)")


@dataclass(frozen=True, eq=False)
class TSSDL(EpochLabels, ConsistencyTraining):
    """1/b Σ_i r_i·CE(f(x_i'), ŷ_i) + λ·L_MMF + w(t)·1/(C·b) Σ_i ‖softmax f(x_i') − softmax f(x_i'')‖².

    r_i = 1 − d_i/max d, where d_i is the sum of distances to the k nearest features; r_i = 1 for given labels. L_MMF is
    the mean over pairs i < j of r_i·r_j·(‖z_i − z_j‖² where ŷ_i = ŷ_j, else max(0, h − ‖z_i − z_j‖²)).

    Kept between steps: the label and the weight r of each image, computed anew before each epoch after the first stage.

    Our reading: there is no public code, and we had the paper's abstract and accounts by others, not its equations.
    From the paper: labels of unlabeled images are variables of training (transductive learning), a confidence for each
    of them reduces the effect of outliers, and the Min-Max Feature loss makes features compact within a class and
    separate between classes. Ours: the formulas of r and L_MMF, k = 10 and h = 1; pseudo-labels are the network's
    argmax before each epoch, after a stage on given labels alone; features have length 1 and pairs come from one batch;
    the agreement of two views as third term; every weight and schedule.
    """

    config: TSSDLConfig

    summary: ClassVar[str] = "own pseudo-labels weighted by density, and min-max features (our reading)"
    source: ClassVar[str] = "Shi et al., Transductive Semi-Supervised Deep Learning using Min-Max Features, 2018"

    def label(self, inference: Inference, features: Float[Tensor, "n d"]) -> PseudoLabels:
        with torch.no_grad():
            return PseudoLabels.by_scores(inference.network.head(features).softmax(dim=1), self.problem.labels)

    def weights(self, pseudo_labels: PseudoLabels, features: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        similarities = self.neighbors(features, k=self.config.n_neighbors).similarities
        confidence = neighbor_confidence((2 - 2 * similarities).clamp(min=0).sqrt())
        return torch.where(self.is_given(confidence), 1.0, confidence)

    def loss(self, learner: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        first, second = self.noisy_views(batch).chunk(2)
        z, logits = embed_and_classify(learner, first)  # type: ignore[arg-type]
        other = at_least_float32(learner(second))
        agreement = functional.mse_loss(logits.softmax(dim=1), other.softmax(dim=1))
        features = min_max_loss(z, batch.tables[TARGETS], batch.tables[WEIGHTS], margin=self.config.margin)
        labeled = weighted_loss(logits, batch) + self.config.feature_weight * features
        return labeled + batch.draws[CONSISTENCY] * agreement


def neighbor_confidence(distances: Float[Tensor, "n k"]) -> Float[Tensor, " n"]:
    """r_i = 1 − d_i/max d; where all distances are 0, everything is certain."""
    d = distances.sum(dim=1)
    return 1 - d / d.max().clamp(min=torch.finfo(d.dtype).tiny)


def min_max_loss(
    z: Float[Tensor, "b d"], labels: Int64[Tensor, " b"], weights: Float[Tensor, " b"], *, margin: float
) -> Float[Tensor, ""]:
    """L_MMF over the pairs of a batch."""
    z = functional.normalize(z, dim=1)
    with torch.autocast(z.device.type, enabled=False):
        squares = (2 - 2 * z @ z.T).clamp(min=0)
    is_same = labels[:, None] == labels[None, :]
    losses = torch.where(is_same, squares, (margin - squares).clamp(min=0)) * (weights[:, None] * weights[None, :])
    n_pairs = max(1, len(z) * (len(z) - 1) // 2)
    return losses.triu(diagonal=1).sum() / n_pairs
