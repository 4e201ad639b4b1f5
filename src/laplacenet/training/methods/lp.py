"""Label propagation for deep semi-supervised learning: graph labels, weighted by certainty and class size.

First the network learns from the labeled images alone. Then, before each epoch, a nearest-neighbor graph over its
features spreads the given labels to all images, and the network trains on them. An image counts the more, the more
certain its label is and the fewer images share it. LaplaceNet follows this method, without these weights and with
strong views.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from laplacenet.graph import GraphConfig, PseudoLabels, affinity, normalize
from laplacenet.graph.pseudo_labels import Graph, spread
from laplacenet.models import Inference
from laplacenet.runtime.device import at_least_float32
from laplacenet.training.method import Batch, EpochPlan
from laplacenet.training.methods.consistency import ViewConfig, weighted_loss
from laplacenet.training.methods.epoch_labels import EpochLabels
from laplacenet.training.weighting import certainty, inverse_class_sizes


@dataclass(frozen=True)
class LPConfig(ViewConfig):
    """`first_stage` is the share of all steps that train on the given labels alone.

    The authors train for 180 epochs in each stage, but those of the first are over labeled images: with 4 000 labels on
    CIFAR-10 they have 40 steps each, those of the second 920. That makes 1/24 of all steps.
    """

    name: str = "lp"
    first_stage: float = 1 / 24

    unit_length: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0 <= self.first_stage < 1, "first_stage", "lie in [0, 1)")


@dataclass(frozen=True, eq=False)
class PropagatedLabels(EpochLabels):
    """Z = (I − α𝒲)⁻¹Y over the network's features, α = 1/(1 + `graph.mu`), with similarities to the third power.

    Labels ŷ_i = argmax Z_i; scores Ẑ_i are Z_i divided by its sum. ω_i = 1 − H(Ẑ_i)/log C, divided by the largest ω as
    in the original code; ζ_j = n/(C·n_j) with n_j images of label j. Our reading: an edge that is found from both ends
    has the larger similarity rather than the sum, and Y is not divided by class sizes, which only matters where the
    given labels are not balanced. `graph.alignment_iterations` has no effect.
    """

    def __post_init__(self) -> None:
        self.graph.require_classes(self.n_classes)

    def notes(self) -> list[str]:
        return [*super().notes(), *self.graph.notes(len(self.problem.labels))]

    def label(self, inference: Inference, features: Float[Tensor, "n d"]) -> PseudoLabels:
        neighbors = self.neighbors(features)
        cubed = replace(neighbors, similarities=neighbors.similarities.clamp(min=0) ** 3)
        graph = Graph(normalize(affinity(cubed)), neighbors.recall)
        config: GraphConfig = replace(self.graph, alignment_iterations=0)
        labels = self.problem.labels.to(features.device)
        return spread(graph, labels, config, n_classes=self.n_classes, group=inference.group)

    def weights(self, pseudo_labels: PseudoLabels, features: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        omega = certainty(pseudo_labels.scores)
        omega = omega / omega.max().clamp(min=torch.finfo(omega.dtype).tiny)
        omega = torch.where(self.is_given(omega), 1.0, omega)
        return omega * inverse_class_sizes(pseudo_labels.labels, self.n_classes)[pseudo_labels.labels]


@dataclass(frozen=True, eq=False)
class LP(PropagatedLabels):
    """First CE(f(x_i), y_i) on labeled images, then 1/b Σ_i ω_i·ζ_ŷi·CE(f(x_i), ŷ_i), ω_i = 1 for given labels.

    Before each epoch of the second stage Z = (I − α𝒲)⁻¹Y over the network's features gives ŷ_i = argmax Z_i, the
    certainty ω_i = 1 − H(Ẑ_i)/log C, divided by the largest ω, and the class weights ζ_j = n/(C·n_j). Edges have the
    third power of the similarity. The learning rate schedule restarts with the second stage. One view of each image.

    Kept between steps: the label and the weight of each image, computed anew before each epoch of the second stage.

    Our reading: features come from unaugmented images (the authors' code embeds augmented ones), an edge that is found
    from both ends has the larger similarity rather than the sum, and Y is not divided by class sizes.
    """

    config: LPConfig

    summary: ClassVar[str] = "graph labels weighted by certainty and class size, after a supervised stage"
    source: ClassVar[str] = "Iscen et al., Label Propagation for Deep Semi-supervised Learning, 2019"

    @property
    def n_views(self) -> int:
        return 1

    def draw_numbers(self, plan: EpochPlan, first_step: int, n_steps: int, batch_size: int) -> dict[str, np.ndarray]:
        numbers = super().draw_numbers(plan, first_step, n_steps, batch_size)
        return {**numbers, **self.restarted_rates(plan, first_step, n_steps)}

    def loss(self, learner: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        return weighted_loss(at_least_float32(learner(self.noisy_views(batch))), batch)
