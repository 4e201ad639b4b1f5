"""Dual Student: two networks that teach one another where one of them is stable.

A teacher that is the average of its student stays close to it and shares its mistakes. Dual Student trains two networks
that begin with different weights. On each unlabeled image the one whose prediction is more stable between two views
teaches the other.
"""

import copy
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils import parametrize

from laplacenet.models import Network
from laplacenet.runtime import stream_seed
from laplacenet.runtime.device import at_least_float32
from laplacenet.training.method import Batch, EpochPlan
from laplacenet.training.methods.consistency import (
    CONSISTENCY,
    DENOMINATORS,
    ConsistencyConfig,
    ConsistencyTraining,
    supervised_loss,
)
from laplacenet.training.schedule import sigmoid_ramp_up

STABILIZATION = "stabilization"


@dataclass(frozen=True)
class DualStudentConfig(ConsistencyConfig):
    """`threshold` is the paper's ξ (0.8 on CIFAR-10, 0.4 on CIFAR-100); both weights rise alike.

    `consistency` is λ_1, the weight of a network's agreement with itself, `stabilization` λ_2, that with the other.
    `labeled_loss_over` says whether the labeled loss is divided by the number of labeled images or, as in the original
    code, by that of the whole `batch`.
    """

    name: str = "dual-student"
    consistency: float = 10.0
    stabilization: float = 100.0
    threshold: float = 0.8
    ramp_up: float = 5 / 300
    labeled_loss_over: str = "labeled"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_weight("stabilization")
        self.require(0 <= self.threshold <= 1, "threshold", "lie between 0 and 1")
        accepted = f"be one of {', '.join(DENOMINATORS)}"
        self.require(self.labeled_loss_over in DENOMINATORS, "labeled_loss_over", accepted)


class TwoStudents(nn.Module):
    """The first is given, the second is the same architecture with weights of its own."""

    def __init__(self, first: Network, *, seed: int) -> None:
        super().__init__()
        self.first, self.second = first, initialized_anew(first, seed=seed)


@torch.no_grad()
def initialized_anew(network: Network, *, seed: int) -> Network:
    """A copy with fresh weights: He's initialization for convolutions, torch's own for linear layers."""
    fresh = copy.deepcopy(network)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for module in fresh.modules():
            if isinstance(module, nn.Linear):
                module.reset_parameters()
            elif isinstance(module, nn.Conv2d):
                weight = nn.init.kaiming_normal_(torch.empty_like(module.weight), mode="fan_out", nonlinearity="relu")
                if parametrize.is_parametrized(module):
                    module.weight = weight  # weight norm splits it again
                else:
                    module.weight.copy_(weight)
    return fresh


@dataclass(frozen=True, eq=False)
class DualStudent(ConsistencyTraining):
    """For each student i: CE on labeled images + λ_1·w(t)·L_con + λ_2·w(t)·L_sta.

    L_con = 1/(C·b) Σ ‖p_i(x') − p_i(x'')‖² over all images, with no gradient through the second view. An image is
    stable for a student if both views get the same class and one of them a probability above ξ. L_sta = 1/(C·b) Σ
    ‖p_i(x) − p_j(x)‖², with no gradient through p_j, over the unlabeled images that are stable for j but not for i, or
    for both where j agrees with itself at least as well as i. The first student trains on the first view, the second on
    the other; every pass updates batch statistics.

    Kept between steps: both students.

    Our reading: each student has one head, where the authors have two, and the first student is the one that is tested.
    """

    config: DualStudentConfig

    summary: ClassVar[str] = "two networks; each learns from the other where that one is the more stable"
    source: ClassVar[str] = "Ke et al., Dual Student, 2019"

    def learner(self, network: Network) -> nn.Module:
        return TwoStudents(network, seed=stream_seed(self.problem.seed, "second student"))

    def judged(self, learner: nn.Module) -> Network:
        assert isinstance(learner, TwoStudents)
        return learner.first

    def draw_numbers(self, plan: EpochPlan, first_step: int, n_steps: int, batch_size: int) -> dict[str, np.ndarray]:
        ramp = sigmoid_ramp_up(first_step, n_steps, self.config.ramp_up * self.steps)
        numbers = super().draw_numbers(plan, first_step, n_steps, batch_size)
        return {**numbers, STABILIZATION: np.float32(self.config.stabilization) * ramp}

    def loss(self, learner: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        assert isinstance(learner, TwoStudents)
        views = self.noisy_views(batch).chunk(2)
        logits = [at_least_float32(learner.first(views[0])), at_least_float32(learner.second(views[1]))]
        with torch.no_grad():
            others = [at_least_float32(learner.first(views[1])), at_least_float32(learner.second(views[0]))]
        p, q = [x.softmax(dim=1) for x in logits], [x.softmax(dim=1) for x in others]
        distances = [(own - again).square().mean(dim=1) for own, again in zip(p, q, strict=True)]
        is_stable = [stable(own, again, self.config.threshold) for own, again in zip(p, q, strict=True)]
        is_unlabeled = torch.arange(len(batch.rows), device=views[0].device) >= batch.n_labeled
        stabilization = p[0].new_zeros(())
        for i, j in ((0, 1), (1, 0)):
            learns = is_unlabeled & is_stable[j] & (~is_stable[i] | (distances[j] <= distances[i]))
            stabilization = stabilization + (learns * (p[i] - p[j].detach()).square().mean(dim=1)).mean()
        over = self.config.labeled_loss_over
        supervised = supervised_loss(logits[0], batch, over=over) + supervised_loss(logits[1], batch, over=over)
        agreement: Tensor = batch.draws[CONSISTENCY] * (distances[0].mean() + distances[1].mean())
        agreement = agreement + batch.draws[STABILIZATION] * stabilization
        return supervised + agreement


def stable(p: Float[Tensor, "b C"], q: Float[Tensor, "b C"], threshold: float) -> Bool[Tensor, " b"]:
    (confidence, guess), (other_confidence, other_guess) = p.max(dim=1), q.max(dim=1)
    return (guess == other_guess) & (torch.maximum(confidence, other_confidence) > threshold)
