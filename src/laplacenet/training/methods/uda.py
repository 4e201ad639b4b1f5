"""UDA: the strong view's distribution follows the sharpened one of the weak view.

The output on a weak view of an unlabeled image, sharpened, is the target for a strong view of the same image, wherever
the network is confident. The change from earlier consistency methods is the strong view, by RandAugment, in place of
noise or small shifts.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from laplacenet.training.averages import StudentAndTeacher
from laplacenet.training.method import Batch, EpochPlan
from laplacenet.training.methods.base import TARGETS
from laplacenet.training.methods.weak_strong import Logits, WeakStrong, WeakStrongConfig, soft_cross_entropy

SIGNAL = "signal"
ANNEALING = ("none", "linear", "log", "exp")


@dataclass(frozen=True)
class UDAConfig(WeakStrongConfig):
    """Guesses are sharpened by `temperature` and count where the unsharpened maximum exceeds `threshold`.

    `signal_annealing` is the paper's TSA: labeled images leave the loss once their class has a probability above a
    bound that rises to 1 as `linear`, `log` or `exp` says. The authors' latest CIFAR-10 script does not use it.
    """

    name: str = "uda"
    threshold: float = 0.8
    temperature: float = 0.4
    signal_annealing: str = "none"

    threshold_is_fixed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0 <= self.threshold < 1, "threshold", "lie in [0, 1)")
        self.require(0 < self.temperature < float("inf"), "temperature", "be positive and finite")
        self.require(self.signal_annealing in ANNEALING, "signal_annealing", f"be one of {', '.join(ANNEALING)}")


@dataclass(frozen=True, eq=False)
class UDA(WeakStrong):
    """CE(f(x), y) + λ·mean of [max p(u) > β]·KL(p_τ(u) ‖ p(strong u)), p_τ = softmax(logits/τ) without a gradient.

    As in google-research/uda the mean is over all unlabeled images of the batch, and labeled images and both views of
    unlabeled ones share one forward pass and its batch statistics.

    Kept between steps: the average of the weights, which is the network that is tested.
    """

    config: UDAConfig

    leaves_guesses_out: ClassVar[bool] = True
    summary: ClassVar[str] = "strong views follow the sharpened outputs of weak ones"
    source: ClassVar[str] = "Xie et al., Unsupervised Data Augmentation, 2020"

    def draw_numbers(self, plan: EpochPlan, first_step: int, n_steps: int, batch_size: int) -> dict[str, np.ndarray]:
        """The bound η_t = α_t·(1 − 1/C) + 1/C of each step."""
        progress = np.arange(first_step, first_step + n_steps) / self.steps
        match self.config.signal_annealing:
            case "linear":
                alpha = progress
            case "log":
                alpha = 1 - np.exp(-5 * progress)
            case "exp":
                alpha = np.exp(5 * (progress - 1))
            case _:
                return {}
        return {SIGNAL: (alpha * (1 - 1 / self.n_classes) + 1 / self.n_classes).astype(np.float32)}

    def supervised_loss(self, logits: Float[Tensor, "b_l C"], batch: Batch) -> Float[Tensor, ""]:
        if SIGNAL not in batch.draws:
            return super().supervised_loss(logits, batch)
        losses = functional.cross_entropy(logits, batch.tables[TARGETS][: batch.n_labeled], reduction="none")
        is_kept = torch.exp(-losses.detach()) <= batch.draws[SIGNAL]
        return (losses * is_kept).sum() / is_kept.sum().clamp(min=1)

    def unlabeled_loss(self, learner: StudentAndTeacher, logits: Logits, batch: Batch) -> Float[Tensor, ""]:
        is_confident = logits.weak.softmax(dim=1).amax(dim=1) > self.config.threshold
        sharpened = logits.weak / self.config.temperature
        target = sharpened.softmax(dim=1)
        divergence = soft_cross_entropy(logits.strong, target) - soft_cross_entropy(sharpened, target)
        batch.note_used(is_confident)
        return self.config.unlabeled_weight * (divergence * is_confident).mean()
