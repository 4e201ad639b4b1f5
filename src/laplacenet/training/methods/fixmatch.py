"""FixMatch: confident guesses on weak views are the targets of strong ones."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.augment import ViewParameters
from laplacenet.models import Network
from laplacenet.training.averages import StudentAndTeacher
from laplacenet.training.method import Batch
from laplacenet.training.methods.base import TARGETS, BaseMethod, MethodConfig
from laplacenet.training.views import ViewGroup, groups_of_views


@dataclass(frozen=True)
class FixMatchConfig(MethodConfig):
    """A guess counts from a probability of `threshold` on. The network that is judged is an average of the weights."""

    name: str = "fixmatch"
    threshold: float = 0.95
    unlabeled_weight: float = 1.0
    ema_decay: float = 0.999

    def __post_init__(self) -> None:
        self.require(0 <= self.threshold <= 1, "threshold", "lie between 0 and 1")
        self.require(0 <= self.unlabeled_weight < float("inf"), "unlabeled_weight", "not be negative or infinite")
        self.require(0 <= self.ema_decay < 1, "ema_decay", "lie in [0, 1)")


@dataclass(frozen=True, eq=False)
class FixMatch(BaseMethod):
    """CE(f(weak x), y) on labeled images + λ·mean of [max q ≥ τ]·CE(f(strong u), argmax q), q = f(weak u)."""

    config: FixMatchConfig

    summary: ClassVar[str] = "confident guesses on weak views train the strong ones"
    source: ClassVar[str] = "Sohn et al., FixMatch, 2020"

    def learner(self, network: Network) -> nn.Module:
        return StudentAndTeacher(network)

    def judged(self, learner: nn.Module) -> Network:
        assert isinstance(learner, StudentAndTeacher)
        return learner.teacher

    def draw_views(
        self, n_steps: int, n_labeled: int, n_unlabeled: int, rng: np.random.Generator
    ) -> tuple[Int64[Tensor, " v"], ViewParameters | None]:
        """Labeled images weak; unlabeled ones weak, then strong."""
        end = n_labeled + n_unlabeled
        groups = [ViewGroup(0, end, "weak"), ViewGroup(n_labeled, end, "unlabeled")]
        return groups_of_views(self.views, n_steps, groups, rng=rng)

    def loss(self, learner: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        """All views in one forward pass; the masked mean is over all unlabeled images."""
        assert isinstance(learner, StudentAndTeacher)
        n_labeled, n_weak = batch.n_labeled, len(batch.rows)
        logits = learner.student(batch.views).float()
        supervised = functional.cross_entropy(logits[:n_labeled], batch.tables[TARGETS][:n_labeled])
        if n_labeled == n_weak:
            return supervised
        confidence, guess = logits[n_labeled:n_weak].detach().softmax(dim=1).max(dim=1)
        losses = functional.cross_entropy(logits[n_weak:], guess, reduction="none")
        unlabeled: Tensor = (losses * (confidence >= self.config.threshold)).mean()
        return supervised + self.config.unlabeled_weight * unlabeled

    def after_step(self, learner: nn.Module, batch: Batch) -> None:
        assert isinstance(learner, StudentAndTeacher)
        learner.average(self.config.ema_decay)
