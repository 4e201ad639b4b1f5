"""Pseudo-labeling with MixUp: soft labels from the network itself, kept apart by two regularizers.

The network's outputs are the soft labels of the unlabeled images. Alone, that would confirm its own mistakes. Against
this all images and labels are mixed by MixUp, and two regularizers ask for outputs that use all classes alike on
average and are decided for each image.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.augment import ViewParameters
from laplacenet.graph import PseudoLabels
from laplacenet.runtime.device import at_least_float32
from laplacenet.training.averages import StudentAndTeacher
from laplacenet.training.method import Batch
from laplacenet.training.methods.base import TARGETS
from laplacenet.training.methods.consistency import STRENGTHS
from laplacenet.training.methods.laplacenet import PARTNERS, SOFT_LABELS, mixed_views
from laplacenet.training.methods.network_labels import NetworkLabels, NetworkLabelsConfig
from laplacenet.training.methods.weak_strong import soft_cross_entropy
from laplacenet.training.views import ViewGroup, groups_of_views


@dataclass(frozen=True)
class PLMixupConfig(NetworkLabelsConfig):
    """`balance` and `entropy` weight the regularizers (the paper's λ_A and λ_H).

    `strength` is that of all views: weak (flip and crop), or strong as in LaplaceNet.
    """

    name: str = "pl-mixup"
    n_views: int = 1
    mixup_alpha: float = 1.0
    supervised_passes: int = 10
    balance: float = 0.8
    entropy: float = 0.4
    strength: str = "weak"

    unit_length: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0 <= self.balance < float("inf"), "balance", "not be negative or infinite")
        self.require(0 <= self.entropy < float("inf"), "entropy", "not be negative or infinite")
        self.require(self.strength in STRENGTHS, "strength", f"be one of {', '.join(STRENGTHS)}")
        self.require(not self.class_weighting, "class_weighting", "be false: soft labels bear no class weight")


@dataclass(frozen=True, eq=False)
class PLMixup(NetworkLabels):
    """λ·CE(p(x̃), ỹ_a) + (1 − λ)·CE(p(x̃), ỹ_b) + λ_A·KL(u ‖ p̄) + λ_H·mean entropy of p(x̃), x̃ = λ·x_a + (1 − λ)·x_b.

    ỹ is the given label, else the network's softmax on the unaugmented image; p̄ is the batch's mean output, u uniform.
    The supervised start has MixUp and the regularizers too.

    Kept between steps: the soft label of each image, computed anew before each epoch. With an `ema_decay` also an
    average of the weights, which then labels and is tested.

    Our reading: soft labels are computed in one pass before each epoch with running batch statistics, while the authors
    collect them in training mode during the previous epoch, by a pass over the unmixed images of each step. That pass
    also updates batch statistics there; here mixed images alone do. The average of the weights over the last 50 epochs
    in their code is left out.
    """

    config: PLMixupConfig

    summary: ClassVar[str] = "the network's own soft labels under MixUp, with two regularizers"
    source: ClassVar[str] = "Arazo et al., Pseudo-Labeling and Confirmation Bias, 2020"

    def draw_views(
        self, n_steps: int, n_labeled: int, n_unlabeled: int, rng: np.random.Generator
    ) -> tuple[Int64[Tensor, " v"], ViewParameters | None]:
        if self.config.strength == "strong":
            return super().draw_views(n_steps, n_labeled, n_unlabeled, rng)
        group = ViewGroup(0, n_labeled + n_unlabeled, "weak", n_views=self.config.n_views)
        return groups_of_views(self.views, n_steps, [group], rng=rng)

    def tables(self, pseudo_labels: PseudoLabels) -> dict[str, Tensor]:
        given = self.problem.labels.to(pseudo_labels.scores.device)
        known = functional.one_hot(given.clamp(min=0), self.n_classes).float()
        soft = torch.where((given >= 0)[:, None], known, pseudo_labels.scores)
        return {TARGETS: pseudo_labels.labels, SOFT_LABELS: soft}

    def loss(self, learner: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        targets: Tensor | None = batch.tables.get(SOFT_LABELS)
        if targets is None:
            targets = functional.one_hot(batch.tables[TARGETS], self.n_classes).float()
        views, mix_weight = mixed_views(batch)
        network = learner.student if isinstance(learner, StudentAndTeacher) else learner
        logits = at_least_float32(network(views.flatten(0, 1)))
        others = targets.index_select(0, batch.draws[PARTNERS])
        mixed = torch.lerp(others, targets, mix_weight.to(targets.dtype))
        p = logits.softmax(dim=1)
        balance = -(p.mean(dim=0) * self.n_classes).clamp(min=1e-12).log().mean()
        entropy = soft_cross_entropy(logits, p).mean()
        fit = soft_cross_entropy(logits, mixed.repeat(len(views), 1)).mean()
        return fit + self.config.balance * balance + self.config.entropy * entropy
