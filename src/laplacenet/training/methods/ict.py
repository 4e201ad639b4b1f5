"""Interpolation consistency training: the output of a mixture should be the mixture of the outputs.

Two unlabeled images are mixed pixel by pixel. The output on the mixture should be the same mixture of the outputs on
the two images, so that the output changes evenly from one image to another. The outputs to be mixed are those of a
teacher, the moving average of the network.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.models import Network
from laplacenet.runtime import stream
from laplacenet.runtime.device import at_least_float32
from laplacenet.training.averages import StudentAndTeacher
from laplacenet.training.method import Batch, EpochPlan
from laplacenet.training.methods.base import SUPERVISED, TARGETS
from laplacenet.training.methods.consistency import CONSISTENCY, ConsistencyConfig, ConsistencyTraining
from laplacenet.training.objective import mix, mixed_cross_entropy, sample_mix_weights, sample_partners

LABELED_PARTNERS, LABELED_MIX, PARTNERS, MIX = "labeled_partners", "labeled_mix", "partners", "mix"


@dataclass(frozen=True)
class ICTConfig(ConsistencyConfig):
    """λ ~ Beta(a, a): a is `mix_alpha` for unlabeled images and `labeled_mix_alpha` for labeled ones; 0 is no MixUp.

    Its authors take a = 1 on CIFAR-10 and 0.1 on SVHN. `ema_decay` is the decay of the teacher's average.
    """

    name: str = "ict"
    mix_alpha: float = 1.0
    labeled_mix_alpha: float = 1.0
    ema_decay: float = 0.999

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_weight("mix_alpha", "labeled_mix_alpha")
        self.require(0 <= self.ema_decay < 1, "ema_decay", "lie in [0, 1)")


@dataclass(frozen=True, eq=False)
class ICT(ConsistencyTraining):
    """MixUp's CE on labeled images + w(t)·1/(C·b_u) Σ ‖softmax f_θ(m_ij) − softmax Mix_λ(f_θ'(u_i), f_θ'(u_j))‖².

    m_ij = Mix_λ(u_i, u_j) = λ·u_i + (1 − λ)·u_j, with one λ and one permutation for each step. As in the authors' code
    the teacher's logits are mixed, not its probabilities. The teacher θ', the average of θ, is the network that is
    tested; its batch statistics come from its own passes.

    Kept between steps: the teacher θ' and the number of its updates.

    Our reading: only unlabeled images update the teacher's batch statistics; the authors' code passes labeled images
    through the teacher too, to report its error.
    """

    config: ICTConfig

    summary: ClassVar[str] = "the output of a mixture should be the teacher's mixed outputs"
    source: ClassVar[str] = "Verma et al., Interpolation Consistency Training, 2019"

    @property
    def n_views(self) -> int:
        return 1

    def learner(self, network: Network) -> nn.Module:
        return StudentAndTeacher(network)

    def judged(self, learner: nn.Module) -> Network:
        assert isinstance(learner, StudentAndTeacher)
        return learner.teacher

    def draw_numbers(self, plan: EpochPlan, first_step: int, n_steps: int, batch_size: int) -> dict[str, np.ndarray]:
        rng = stream(self.problem.seed, "ict", first_step)
        n_labeled = batch_size if plan.phase == SUPERVISED else self.train.labeled_batch_size
        return {
            **super().draw_numbers(plan, first_step, n_steps, batch_size),
            LABELED_PARTNERS: sample_partners(n_steps, n_labeled, rng),
            LABELED_MIX: sample_mix_weights(n_steps, self.config.labeled_mix_alpha, rng),
            PARTNERS: sample_partners(n_steps, batch_size - n_labeled, rng),
            MIX: sample_mix_weights(n_steps, self.config.mix_alpha, rng),
        }

    def loss(self, learner: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        assert isinstance(learner, StudentAndTeacher)
        views, n, draws = self.noisy_views(batch), batch.n_labeled, batch.draws
        partners, weight = draws[LABELED_PARTNERS], draws[LABELED_MIX]
        logits = at_least_float32(learner.student(mix(views[None, :n], partners, weight)[0]))
        supervised = mixed_cross_entropy(logits[None], batch.tables[TARGETS][:n], partners, weight)
        if n == len(views):
            return supervised
        with torch.no_grad():
            outputs = at_least_float32(learner.teacher(views[n:]))
        target = mix(outputs[None], draws[PARTNERS], draws[MIX])[0].softmax(dim=1)
        mixed = at_least_float32(learner.student(mix(views[None, n:], draws[PARTNERS], draws[MIX])[0]))
        return supervised + draws[CONSISTENCY] * functional.mse_loss(mixed.softmax(dim=1), target)

    def after_step(self, learner: nn.Module, batch: Batch) -> None:
        assert isinstance(learner, StudentAndTeacher)
        has_unlabeled = batch.n_labeled < len(batch.views)  # without them no pass went through the teacher
        learner.average(self.config.ema_decay, statistics="own" if has_unlabeled else "copy")
