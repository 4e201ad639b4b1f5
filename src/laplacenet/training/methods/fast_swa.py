"""Fast-SWA on Mean Teacher: the plain average of the student at the ends of many epochs.

Towards the end of training the weights move about among many solutions that are about equally good. Fast-SWA raises the
learning rate again in cycles, so that Mean Teacher's student visits more of them, and tests the plain average of its
weights at the ends of many epochs.
"""

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor, nn

from laplacenet.models import Network
from laplacenet.runtime import mixed_precision
from laplacenet.training.averages import StudentAndTeacher, move_toward, recompute_statistics
from laplacenet.training.method import LR, Batch, EpochPlan
from laplacenet.training.methods.mean_teacher import MeanTeacher, MeanTeacherConfig

COPY = "copy"


@dataclass(frozen=True)
class FastSWAConfig(MeanTeacherConfig):
    """The cosine is followed by `n_cycles` cycles, each of `cycle` of all steps, that repeat its last piece.

    Averaging begins one cycle before the first of them and includes the student of every `average_every`-th epoch. The
    defaults are the authors' shorter run: 180 epochs and two cycles of 30, averaged every three epochs from epoch 150,
    with the SGD version of Mean Teacher, whose weight rises over 5 epochs.
    """

    name: str = "fast-swa"
    ramp_up: float = 5 / 240
    ema_decay: float = 0.97
    n_heads: int = 2
    labeled_loss_over: str = "batch"
    n_cycles: int = 2
    cycle: float = 30 / 240
    average_every: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.n_cycles >= 0, "n_cycles", "not be negative")
        self.require(
            0 < self.cycle * (self.n_cycles + 1) <= 1, "cycle", "leave room for n_cycles + 1 cycles in the run"
        )
        self.require(self.average_every >= 1, "average_every", "be at least 1")


class WithAverage(nn.Module):
    """Mean Teacher's learner, and the average of its students."""

    def __init__(self, pair: StudentAndTeacher, network: Network) -> None:
        super().__init__()
        self.pair = pair
        self.average: Network = copy.deepcopy(network).requires_grad_(False)


@dataclass(frozen=True, eq=False)
class FastSWA(MeanTeacher):
    """Mean Teacher's loss. θ_SWA = 1/K Σ_k θ_k over the student's weights θ_k at the ends of K epochs.

    The student joins the average at the beginning of the next epoch; the average's batch statistics are then recomputed
    from all images. The average is the network that is tested; until averaging begins it is the student itself. The
    learning rate follows the method's own cosine with cycles, so `train.schedule` has no effect.

    Kept between steps: Mean Teacher's teacher, and the average θ_SWA.

    Our reading: batch statistics come from all unaugmented images (the authors take 100 augmented batches), and the
    student after the very last step does not join.
    """

    config: FastSWAConfig

    summary: ClassVar[str] = "Mean Teacher, and the average of its student over many epochs"
    source: ClassVar[str] = "Athiwaratkun et al., There Are Many Consistent Explanations of Unlabeled Data, 2019"

    def learner(self, network: Network) -> nn.Module:
        pair = super().learner(network)
        assert isinstance(pair, StudentAndTeacher)
        return WithAverage(pair, network)

    def judged(self, learner: nn.Module) -> Network:
        assert isinstance(learner, WithAverage)
        return learner.average

    @property
    def first_averaged_epoch(self) -> int:
        """The first that begins with averaging: never that of the untrained network."""
        first_step = self.steps * (1 - (self.config.n_cycles + 1) * self.config.cycle)
        return max(1, math.ceil(first_step / self.epoch_steps(len(self.problem.unlabeled))))

    def plan_epoch(self, index: int, first_step: int, *, learner: nn.Module, inputs: Tensor) -> EpochPlan:
        assert isinstance(learner, WithAverage)
        plan = super().plan_epoch(index, first_step, learner=learner, inputs=inputs)
        n_averaged, rest = divmod(index - self.first_averaged_epoch, self.config.average_every)
        if n_averaged >= 0 and rest == 0:
            move_toward(learner.average, learner.pair.student, 1 / (n_averaged + 1))
            device = learner.average.head.weight.device
            with mixed_precision(device):
                recompute_statistics(learner.average, self.plain_batches(inputs, device))
        return plan

    def plain_batches(self, inputs: Tensor, device: torch.device) -> Iterator[Tensor]:
        """All inputs in batches of the usual size; a last one of a single input would have no variance."""
        for batch in torch.split(inputs, self.train.batch_size):
            if len(batch) > 1:
                yield self.views.plain(batch.to(device))

    def draw_numbers(self, plan: EpochPlan, first_step: int, n_steps: int, batch_size: int) -> dict[str, np.ndarray]:
        numbers = super().draw_numbers(plan, first_step, n_steps, batch_size)
        is_before = np.full(n_steps, plan.index < self.first_averaged_epoch, dtype=np.float32)
        return {**numbers, LR: self.cyclic_rates(first_step, n_steps), COPY: is_before}

    def cyclic_rates(self, first_step: int, n_steps: int) -> Float32[np.ndarray, " steps"]:
        """Half a cosine, cut at 6/7 (180 of 210 epochs), then its last piece once for each cycle."""
        steps, cycle = np.arange(first_step, first_step + n_steps), self.config.cycle * self.steps
        end = self.steps - self.config.n_cycles * cycle
        place = np.where(steps < end, steps, end - cycle + (steps - end) % cycle)
        rates: np.ndarray = self.train.lr * 0.5 * (1 + np.cos(math.pi * place / (end * 7 / 6)))
        return rates.astype(np.float32)

    def loss(self, learner: nn.Module, batch: Batch) -> Tensor:
        assert isinstance(learner, WithAverage)
        return super().loss(learner.pair, batch)

    def after_step(self, learner: nn.Module, batch: Batch) -> None:
        assert isinstance(learner, WithAverage)
        super().after_step(learner.pair, batch)
        move_toward(learner.average, learner.pair.student, batch.draws[COPY])
