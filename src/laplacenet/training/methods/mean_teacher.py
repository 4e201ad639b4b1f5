"""Mean Teacher: a student that agrees with the moving average of its own weights."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.augment import ViewParameters
from laplacenet.models import Network, still_statistics
from laplacenet.training.averages import StudentAndTeacher
from laplacenet.training.method import Batch, EpochPlan
from laplacenet.training.methods.base import TARGETS, BaseMethod, MethodConfig
from laplacenet.training.schedule import sigmoid_ramp_up
from laplacenet.training.views import ViewGroup, groups_of_views

CONSISTENCY = "consistency"


@dataclass(frozen=True)
class MeanTeacherConfig(MethodConfig):
    """`consistency` is the weight of the agreement once it has risen over the first `ramp_up` of all steps."""

    name: str = "mean-teacher"
    consistency: float = 100.0
    ramp_up: float = 0.25
    ema_decay: float = 0.999

    def __post_init__(self) -> None:
        self.require(0 <= self.consistency < float("inf"), "consistency", "not be negative or infinite")
        self.require(0 <= self.ramp_up <= 1, "ramp_up", "lie between 0 and 1")
        self.require(0 <= self.ema_decay < 1, "ema_decay", "lie in [0, 1)")


@dataclass(frozen=True, eq=False)
class MeanTeacher(BaseMethod):
    """CE(student(x), y) on labeled images + w(t)·MSE(softmax student(x'), softmax teacher(x'')) on all of them.

    The teacher, an average of parameters and batch statistics, is the network that is judged.
    """

    config: MeanTeacherConfig

    summary: ClassVar[str] = "agreement with an exponential moving average of the network"
    source: ClassVar[str] = "Tarvainen and Valpola, Mean teachers are better role models, 2017"

    def learner(self, network: Network) -> nn.Module:
        return StudentAndTeacher(network)

    def judged(self, learner: nn.Module) -> Network:
        assert isinstance(learner, StudentAndTeacher)
        return learner.teacher

    def draw_views(
        self, n_steps: int, n_labeled: int, n_unlabeled: int, rng: np.random.Generator
    ) -> tuple[Int64[Tensor, " v"], ViewParameters | None]:
        """Two weak views of everything, the student's and the teacher's."""
        return groups_of_views(self.views, n_steps, [ViewGroup(0, n_labeled + n_unlabeled, "weak", n_views=2)], rng=rng)

    def draw_numbers(self, plan: EpochPlan, first_step: int, n_steps: int, batch_size: int) -> dict[str, np.ndarray]:
        ramp = sigmoid_ramp_up(first_step, n_steps, self.config.ramp_up * self.steps)
        return {CONSISTENCY: np.float32(self.config.consistency) * ramp}

    def loss(self, learner: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        assert isinstance(learner, StudentAndTeacher)
        first, second = batch.views.chunk(2)
        logits = learner.student(first).float()
        with torch.no_grad(), still_statistics(learner.teacher):
            target = learner.teacher(second).float().softmax(dim=1)
        supervised = functional.cross_entropy(logits[: batch.n_labeled], batch.tables[TARGETS][: batch.n_labeled])
        return supervised + batch.draws[CONSISTENCY] * functional.mse_loss(logits.softmax(dim=1), target)

    def after_step(self, learner: nn.Module, batch: Batch) -> None:
        assert isinstance(learner, StudentAndTeacher)
        learner.average(self.config.ema_decay)
