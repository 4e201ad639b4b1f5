"""What FixMatch and its successors share: guesses on weak views, losses on strong ones, an average that is judged."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.augment import ViewParameters
from laplacenet.models import Network
from laplacenet.runtime.device import at_least_float32
from laplacenet.training.averages import StudentAndTeacher
from laplacenet.training.method import Batch
from laplacenet.training.methods.base import TARGETS, BaseMethod, MethodConfig
from laplacenet.training.views import ViewGroup, groups_of_views


@dataclass(frozen=True)
class WeakStrongConfig(MethodConfig):
    """`unlabeled_weight` is λ, the weight of the loss on unlabeled images.

    `ema_decay` is the decay of the average of the weights that is tested. It includes batch statistics and is their
    plain mean at first; in the authors' codes the decay is constant, and only UDA's averages statistics too.
    """

    unlabeled_weight: float = 1.0
    ema_decay: float = 0.999

    def __post_init__(self) -> None:
        self.require(0 <= self.unlabeled_weight < float("inf"), "unlabeled_weight", "not be negative or infinite")
        self.require(0 <= self.ema_decay < 1, "ema_decay", "lie in [0, 1)")


@dataclass(frozen=True)
class Logits:
    """Of one batch: labeled images (weak views), and the two views of unlabeled ones; `weak` bears no gradient."""

    labeled: Float[Tensor, "b_l C"]
    weak: Float[Tensor, "b_u C"]
    strong: Float[Tensor, "b_u C"]


@dataclass(frozen=True, eq=False)
class Averaged(BaseMethod):
    """The network that is judged is an exponential moving average of the trained one, by `config.ema_decay`."""

    def learner(self, network: Network) -> nn.Module:
        return StudentAndTeacher(network)

    def judged(self, learner: nn.Module) -> Network:
        assert isinstance(learner, StudentAndTeacher)
        return learner.teacher

    def after_step(self, learner: nn.Module, batch: Batch) -> None:
        assert isinstance(learner, StudentAndTeacher)
        learner.average(self.config.ema_decay)


@dataclass(frozen=True, eq=False)
class WeakStrong(Averaged):
    """Cross-entropy on weak views of labeled images + what a subclass makes of the unlabeled ones."""

    config: WeakStrongConfig

    def draw_views(
        self, n_steps: int, n_labeled: int, n_unlabeled: int, rng: np.random.Generator
    ) -> tuple[Int64[Tensor, " v"], ViewParameters | None]:
        """Labeled images weak; unlabeled ones weak, then strong."""
        end = n_labeled + n_unlabeled
        groups = [ViewGroup(0, end, "weak"), ViewGroup(n_labeled, end, "unlabeled")]
        return groups_of_views(self.views, n_steps, groups, rng=rng)

    def loss(self, learner: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        """All views in one forward pass: one set of batch statistics."""
        assert isinstance(learner, StudentAndTeacher)
        n_labeled, n_weak = batch.n_labeled, len(batch.rows)
        logits = at_least_float32(learner.student(batch.views))
        supervised = self.supervised_loss(logits[:n_labeled], batch)
        if n_labeled == n_weak:
            return supervised
        views = Logits(logits[:n_labeled], logits[n_labeled:n_weak].detach(), logits[n_weak:])
        return supervised + self.unlabeled_loss(learner, views, batch)

    def supervised_loss(self, logits: Float[Tensor, "b_l C"], batch: Batch) -> Float[Tensor, ""]:
        return functional.cross_entropy(logits, batch.tables[TARGETS][: batch.n_labeled])

    def unlabeled_loss(self, learner: StudentAndTeacher, logits: Logits, batch: Batch) -> Float[Tensor, ""]:
        """With its weight. What a method keeps between steps lies in buffers of the learner and is updated here."""
        raise NotImplementedError


def soft_cross_entropy(logits: Float[Tensor, "b C"], targets: Float[Tensor, "b C"]) -> Float[Tensor, " b"]:
    """−Σ_c q_c log p_c of each image."""
    return -(targets * logits.log_softmax(dim=1)).sum(dim=1)
