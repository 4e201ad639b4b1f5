"""MT-LP: label propagation on top of Mean Teacher.

The first stage is Mean Teacher. In the second the unlabeled images also have labels, from a graph over the student's
features and with the weights of LP, while the student still has to agree with its teacher.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from laplacenet.models import Network
from laplacenet.training.averages import StudentAndTeacher
from laplacenet.training.method import Batch, EpochPlan
from laplacenet.training.methods.base import SEMI_SUPERVISED, TARGETS
from laplacenet.training.methods.consistency import CONSISTENCY, WEIGHTS, weighted_loss
from laplacenet.training.methods.lp import PropagatedLabels
from laplacenet.training.methods.mean_teacher import MeanTeacher, MeanTeacherConfig
from laplacenet.training.schedule import sigmoid_ramp_up


@dataclass(frozen=True)
class MTLPConfig(MeanTeacherConfig):
    """Mean Teacher's settings in its SGD version; `first_stage` is the share of all steps of plain Mean Teacher."""

    name: str = "mt-lp"
    ramp_up: float = 5 / 360
    ema_decay: float = 0.97
    n_heads: int = 2
    labeled_loss_over: str = "batch"
    first_stage: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0 <= self.first_stage < 1, "first_stage", "lie in [0, 1)")
        self.require(
            self.labeled_loss_over == "batch", "labeled_loss_over", "be batch, over which weights are averaged"
        )


@dataclass(frozen=True, eq=False)
class MTLP(PropagatedLabels, MeanTeacher):
    """First Mean Teacher, then 1/b Σ_i ω_i·ζ_ŷi·CE(f(x_i), ŷ_i) + w(t)·MSE(student, teacher) with the weights of LP.

    The second stage restarts the learning rate schedule, the rise of w and the teacher, which begins as a copy of the
    student. The teacher is the network that is tested.

    Kept between steps: the teacher and the number of its updates; in the second stage also the label and the weight of
    each image, computed anew before each epoch.

    Our reading: that of LP; and the teacher of the authors' second stage begins with random weights, not as a copy.
    """

    config: MTLPConfig

    summary: ClassVar[str] = "Mean Teacher, then graph labels on top of it"
    source: ClassVar[str] = "Iscen et al., Label Propagation for Deep Semi-supervised Learning, 2019"

    def labeling_network(self, learner: nn.Module) -> Network:
        assert isinstance(learner, StudentAndTeacher)
        return learner.student

    def plan_first_stage(self, index: int, first_step: int) -> EpochPlan:
        """One pass over the unlabeled rows, whose weight is 0."""
        if not len(self.problem.unlabeled):
            return super().plan_first_stage(index, first_step)
        n_steps = min(self.epoch_steps(len(self.problem.unlabeled)), self.first_stage_steps - first_step)
        tables = {TARGETS: self.problem.labels, WEIGHTS: (self.problem.labels >= 0).float()}
        order = self.shuffled(self.problem.unlabeled, index)
        return EpochPlan(index, SEMI_SUPERVISED, first_step, n_steps, order, tables)

    def plan_epoch(self, index: int, first_step: int, *, learner: nn.Module, inputs: Tensor) -> EpochPlan:
        if first_step == self.first_stage_steps:
            assert isinstance(learner, StudentAndTeacher)
            learner.restart()
        return PropagatedLabels.plan_epoch(self, index, first_step, learner=learner, inputs=inputs)

    def draw_numbers(self, plan: EpochPlan, first_step: int, n_steps: int, batch_size: int) -> dict[str, np.ndarray]:
        numbers = MeanTeacher.draw_numbers(self, plan, first_step, n_steps, batch_size)
        ramp = sigmoid_ramp_up(first_step - self.stage_start(plan), n_steps, self.config.ramp_up * self.steps)
        weight = {CONSISTENCY: np.float32(self.config.consistency) * ramp}
        return {**numbers, **weight, **self.restarted_rates(plan, first_step, n_steps)}

    def labeled_loss(self, logits: Float[Tensor, "b C"], batch: Batch) -> Float[Tensor, ""]:
        return weighted_loss(logits, batch)
