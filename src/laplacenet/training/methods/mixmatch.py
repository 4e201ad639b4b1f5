"""MixMatch: guesses averaged over views and sharpened, then MixUp over labeled and unlabeled images together.

The label of an unlabeled image is guessed as the mean of the outputs on several views of it, and sharpened: likely
classes gain, unlikely ones lose. Then labeled and unlabeled images are mixed with one another by MixUp, and their
labels and guesses with them.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.augment import ViewParameters
from laplacenet.models import Network, still_statistics
from laplacenet.runtime import stream
from laplacenet.runtime.device import at_least_float32
from laplacenet.training.averages import StudentAndTeacher
from laplacenet.training.method import Batch, EpochPlan
from laplacenet.training.methods.base import SUPERVISED, TARGETS, MethodConfig
from laplacenet.training.methods.consistency import STRENGTHS
from laplacenet.training.methods.weak_strong import Averaged, soft_cross_entropy
from laplacenet.training.objective import sample_partners
from laplacenet.training.views import ViewGroup, groups_of_views

PARTNERS, MIX_WEIGHTS, RAMP = "partners", "mix_weights", "ramp"


@dataclass(frozen=True)
class MixMatchConfig(MethodConfig):
    """`n_guesses` is the paper's K, `temperature` T, `alpha` α and `unlabeled_weight` λ_U (for CIFAR-10).

    λ_U rises linearly over the first `ramp_up` of all steps; the authors' 16 384 of 2^20 steps are 1/64. `strength` is
    that of all views: weak (flip and crop) as theirs, or strong. `ema_decay` is that of the average that is tested; it
    includes batch statistics and is a plain mean at first, while theirs is of weights alone, with a constant decay.
    """

    name: str = "mixmatch"
    n_guesses: int = 2
    temperature: float = 0.5
    alpha: float = 0.75
    unlabeled_weight: float = 75.0
    ramp_up: float = 1 / 64
    ema_decay: float = 0.999
    strength: str = "weak"

    def __post_init__(self) -> None:
        self.require(1 <= self.n_guesses <= 1000, "n_guesses", "lie between 1 and 1000")
        self.require(0 < self.temperature < float("inf"), "temperature", "be positive and finite")
        self.require(0 < self.alpha < float("inf"), "alpha", "be positive and finite")
        self.require(0 <= self.unlabeled_weight < float("inf"), "unlabeled_weight", "not be negative or infinite")
        self.require(0 <= self.ramp_up <= 1, "ramp_up", "lie between 0 and 1")
        self.require(0 <= self.ema_decay < 1, "ema_decay", "lie in [0, 1)")
        self.require(self.strength in STRENGTHS, "strength", f"be one of {', '.join(STRENGTHS)}")


@dataclass(frozen=True, eq=False)
class MixMatch(Averaged):
    """L_X + λ_U·L_U on X', U' = MixUp of (x, y) and (u_k, q) with partners from both, λ' = max(λ, 1 − λ) of each image.

    q = Sharpen(1/K Σ_k p(u_k), T) by the network itself, not its average. L_X is the cross-entropy on X', L_U the mean
    squared error of outputs on U' over images and classes. As in google-research/mixmatch, guesses do not update batch
    statistics, mixed images are passed in K + 1 interleaved batches, and only the first of these updates them.

    Kept between steps: the average of the weights, which is the network that is tested.

    Our reading: a batch has every (K + 1)-th image, so that labeled and unlabeled ones need not be equally many.
    """

    config: MixMatchConfig

    summary: ClassVar[str] = "averaged, sharpened guesses and MixUp of labeled with unlabeled images"
    source: ClassVar[str] = "Berthelot et al., MixMatch, 2019"

    def draw_views(
        self, n_steps: int, n_labeled: int, n_unlabeled: int, rng: np.random.Generator
    ) -> tuple[Int64[Tensor, " v"], ViewParameters | None]:
        """One of labeled images, K of unlabeled ones."""
        end, n_views = n_labeled + n_unlabeled, self.config.n_guesses
        groups = (
            [ViewGroup(0, n_labeled, "weak"), ViewGroup(n_labeled, end, "weak", n_views)]
            if self.config.strength == "weak"
            else [ViewGroup(0, n_labeled, "labeled"), ViewGroup(n_labeled, end, "unlabeled", n_views)]
        )
        return groups_of_views(self.views, n_steps, groups, rng=rng)

    def draw_numbers(self, plan: EpochPlan, first_step: int, n_steps: int, batch_size: int) -> dict[str, np.ndarray]:
        n_labeled = batch_size if plan.phase == SUPERVISED else self.train.labeled_batch_size
        n = n_labeled + self.config.n_guesses * (batch_size - n_labeled)
        rng = stream(self.problem.seed, "mixup", first_step)
        weights = rng.beta(self.config.alpha, self.config.alpha, size=(n_steps, n))
        steps = np.arange(first_step, first_step + n_steps)
        n_rising = self.config.ramp_up * self.steps
        ramp = np.minimum(1.0, steps / n_rising) if n_rising else np.ones(n_steps)
        return {
            PARTNERS: sample_partners(n_steps, n, rng),
            MIX_WEIGHTS: np.maximum(weights, 1 - weights).astype(np.float32),
            RAMP: ramp.astype(np.float32),
        }

    def loss(self, learner: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        assert isinstance(learner, StudentAndTeacher)
        n_labeled, n_views = batch.n_labeled, self.config.n_guesses
        targets = functional.one_hot(batch.tables[TARGETS][:n_labeled], self.n_classes).float()
        if n_labeled < len(batch.rows):
            guesses = self.guess(learner.student, batch.views[n_labeled:]).repeat(n_views, 1)
            targets = torch.cat([targets, guesses])
        weights = batch.draws[MIX_WEIGHTS]
        logits = at_least_float32(interleaved(learner.student, self.mixed(batch.views, batch, weights), n_views + 1))
        targets = self.mixed(targets, batch, weights)
        labeled = soft_cross_entropy(logits[:n_labeled], targets[:n_labeled]).mean()
        if n_labeled == len(batch.rows):
            return labeled
        unlabeled = functional.mse_loss(logits[n_labeled:].softmax(dim=1), targets[n_labeled:])
        return labeled + self.config.unlabeled_weight * batch.draws[RAMP] * unlabeled

    @torch.no_grad()
    def guess(self, student: Network, views: Float[Tensor, "v ..."]) -> Float[Tensor, "b_u C"]:
        """q: one pass for each view, normalized by its own batch."""
        n_views = self.config.n_guesses
        passes = views.chunk(n_views) if len(views) >= 2 * n_views else [views]
        with still_statistics(student):
            p = torch.cat([at_least_float32(student(view)).softmax(dim=1) for view in passes])
        mean = p.reshape(n_views, -1, p.shape[1]).mean(dim=0)
        return (mean.log() / self.config.temperature).softmax(dim=1)

    def mixed(self, values: Float[Tensor, "v ..."], batch: Batch, weights: Float[Tensor, " v"]) -> Tensor:
        """λ'·a_i + (1 − λ')·a_partner(i), not in bf16."""
        precise = at_least_float32(values)
        shaped = weights.reshape(-1, *[1] * (values.ndim - 1)).to(precise.dtype)
        return torch.lerp(precise.index_select(0, batch.draws[PARTNERS]), precise, shaped).to(values.dtype)


def interleaved(network: Network, views: Float[Tensor, "v ..."], n_batches: int) -> Float[Tensor, "v C"]:
    """Every n-th image forms a batch with its own statistics; only those of the first batch are remembered."""
    n_batches = max(1, min(n_batches, len(views) // 2))  # two images at least: one alone cannot be normalized
    first = network(views[0::n_batches])
    with still_statistics(network):
        others = [network(views[i::n_batches]) for i in range(1, n_batches)]
    logits: Tensor = first.new_empty(len(views), first.shape[1])
    for i, part in enumerate([first, *others]):
        logits[i::n_batches] = part
    return logits
