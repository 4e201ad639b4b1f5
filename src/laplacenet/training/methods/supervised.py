"""The supervised baseline: the labeled images alone, with LaplaceNet's views and MixUp.

The unlabeled images are not used at all. Network, views, MixUp and number of steps are LaplaceNet's, so the difference
in error is what the unlabeled images contribute.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from laplacenet.training.method import EpochPlan
from laplacenet.training.methods.base import NOTHING, SUPERVISED, TARGETS
from laplacenet.training.methods.laplacenet import MixUpConfig, MixUpTraining


@dataclass(frozen=True)
class SupervisedConfig(MixUpConfig):
    """Views and MixUp are LaplaceNet's."""

    name: str = "supervised"


@dataclass(frozen=True, eq=False)
class Supervised(MixUpTraining):
    """L_sup = 1/(b·n_a) Σ_i Σ_j l_s(f(t_j(x_i)), y_i) on labeled images, under MixUp, at every step.

    An epoch is as long as one over the unlabeled images would be, so that all methods are tested equally often.

    Kept between steps: nothing but the network.
    """

    config: SupervisedConfig

    divides_rows: ClassVar[bool] = True
    summary: ClassVar[str] = "the labeled images alone; the baseline of every comparison"
    source: ClassVar[str] = "The supervised rows of LaplaceNet's tables"

    def plan_epoch(self, index: int, first_step: int, *, learner: nn.Module, inputs: Tensor) -> EpochPlan:
        n_steps = min(self.epoch_steps(len(self.problem.unlabeled)), self.steps - first_step)
        return EpochPlan(index, SUPERVISED, first_step, n_steps, NOTHING, {TARGETS: self.problem.labels})
