"""Dual Student: two networks that teach one another where one of them is stable.

A teacher that is the average of its student stays close to it and shares its mistakes. Dual Student trains two networks
that begin with different weights. On each unlabeled image the one whose prediction is more stable between two views
teaches the other.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize

from laplacenet.models import Head, Network
from laplacenet.runtime import stream_seed
from laplacenet.runtime.decoding import later_setting
from laplacenet.runtime.device import at_least_float32
from laplacenet.training.method import Batch, EpochPlan
from laplacenet.training.methods.consistency import (
    CONSISTENCY,
    DENOMINATORS,
    ConsistencyConfig,
    ConsistencyTraining,
    embed_and_classify,
    supervised_loss,
)
from laplacenet.training.schedule import sigmoid_ramp_up

STABILIZATION = "stabilization"


@dataclass(frozen=True)
class DualStudentConfig(ConsistencyConfig):
    """`threshold` is the paper's ξ (0.8 on CIFAR-10, 0.4 on CIFAR-100); both weights rise alike.

    `consistency` is λ_1, the weight of a network's agreement with itself, `stabilization` λ_2, that with the other.
    `labeled_loss_over` says whether the labeled loss is divided by the number of labeled images or, as in the authors'
    code, by that of the whole `batch`. With `n_heads=2`, as there, the agreement has a second head, and `head_distance`
    weights the squared distance between the logits of both heads.
    """

    name: str = "dual-student"
    consistency: float = 10.0
    stabilization: float = 100.0
    threshold: float = 0.8
    ramp_up: float = 5 / 300
    labeled_loss_over: str = later_setting("batch", before="labeled")
    n_heads: int = later_setting(2, before=1)
    head_distance: float = 0.01

    threshold_is_fixed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_weight("stabilization", "head_distance")
        self.require(self.n_heads in (1, 2), "n_heads", "be 1 or 2")
        self.require(0 <= self.threshold <= 1, "threshold", "lie between 0 and 1")
        accepted = f"be one of {', '.join(DENOMINATORS)}"
        self.require(self.labeled_loss_over in DENOMINATORS, "labeled_loss_over", accepted)


class TwoStudents(nn.Module):
    """The first is given, the second is the same architecture with weights of its own; with second heads or without."""

    def __init__(self, first: Network, *, seed: int, head_seed: int | None = None) -> None:
        super().__init__()
        self.first, self.second = first, initialized_anew(first, seed=seed)
        self.second_heads = nn.ModuleList()
        if head_seed is not None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(head_seed)
                self.second_heads.extend(Head(first.embedding_size, first.n_classes) for _ in range(2))

    def classify(self, i: int, x: Tensor) -> tuple[Float[Tensor, "b C"], Float[Tensor, "b C"]]:
        """The logits of both heads of a student, from one pass; twice the same where there is but one head."""
        student = (self.first, self.second)[i]
        if not self.second_heads:
            logits = at_least_float32(student(x))
            return logits, logits
        z, logits = embed_and_classify(student, x)
        with torch.autocast(z.device.type, enabled=False):
            return logits, self.second_heads[i](z)


@torch.no_grad()
def initialized_anew(network: Network, *, seed: int) -> Network:
    """A copy with fresh weights: He's initialization for convolutions, torch's own for linear layers.

    A pretrained body keeps its weights, since its batch statistics belong to them; only the head is then fresh.
    """
    fresh = copy.deepcopy(network)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for module in (fresh.head if network.is_pretrained else fresh).modules():
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
    """For each student i: CE on labeled images + λ_1·w(t)·L_con + λ_2·w(t)·L_sta + δ/(C·b) Σ ‖g_i − h_i‖².

    As in the authors' code, a student has two heads g and h on one body: p_i is the softmax of g_i, which learns from
    labels, q_i that of h_i, which learns to agree. L_con = 1/(C·b) Σ ‖q_i(x') − p_i(x'')‖² over all images, with no
    gradient through the second view. An image is stable for a student if p_i gives both views the same class and one of
    them a probability above ξ. L_sta = 1/(C·b) Σ ‖q_i(x) − p_j(x)‖², with no gradient through p_j, over the unlabeled
    images that are stable for j but not for i, or for both where j agrees with itself at least as well as i. The first
    student trains on the first view, the second on the other; every pass updates batch statistics.

    Kept between steps: both students.

    Our reading: the first student is the one that is tested. If the network is pretrained,
    both students begin with the same body.
    """

    config: DualStudentConfig

    summary: ClassVar[str] = "two networks; each learns from the other where that one is the more stable"
    source: ClassVar[str] = "Ke et al., Dual Student, 2019"

    def learner(self, network: Network) -> nn.Module:
        head_seed = stream_seed(self.problem.seed, "second heads") if self.config.n_heads == 2 else None
        return TwoStudents(network, seed=stream_seed(self.problem.seed, "second student"), head_seed=head_seed)

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
        logits, agreeing = zip(*(learner.classify(i, views[i]) for i in (0, 1)), strict=True)
        with torch.no_grad():
            others = [at_least_float32(learner.first(views[1])), at_least_float32(learner.second(views[0]))]
        p, q, again = ([x.softmax(dim=1) for x in outputs] for outputs in (logits, agreeing, others))
        distances = [(q[i] - again[i]).square().mean(dim=1) for i in (0, 1)]
        is_stable = [stable(p[i], again[i], self.config.threshold) for i in (0, 1)]
        is_unlabeled = torch.arange(len(batch.rows), device=views[0].device) >= batch.n_labeled
        stabilization = p[0].new_zeros(())
        for i, j in ((0, 1), (1, 0)):
            learns = is_unlabeled & is_stable[j] & (~is_stable[i] | (distances[j] <= distances[i]))
            stabilization = stabilization + (learns * (q[i] - p[j].detach()).square().mean(dim=1)).mean()
        over = self.config.labeled_loss_over
        supervised = supervised_loss(logits[0], batch, over=over) + supervised_loss(logits[1], batch, over=over)
        agreement: Tensor = batch.draws[CONSISTENCY] * (distances[0].mean() + distances[1].mean())
        agreement = agreement + batch.draws[STABILIZATION] * stabilization
        return supervised + agreement + self.head_distances(logits, agreeing)

    def head_distances(self, logits: Sequence[Tensor], agreeing: Sequence[Tensor]) -> Tensor | float:
        if self.config.n_heads == 1:
            return 0.0
        pairs = zip(logits, agreeing, strict=True)
        return self.config.head_distance * torch.stack([functional.mse_loss(g, h) for g, h in pairs]).sum()


def stable(p: Float[Tensor, "b C"], q: Float[Tensor, "b C"], threshold: float) -> Bool[Tensor, " b"]:
    (confidence, guess), (other_confidence, other_guess) = p.max(dim=1), q.max(dim=1)
    return (guess == other_guess) & (torch.maximum(confidence, other_confidence) > threshold)
