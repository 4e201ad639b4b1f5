"""SoftMatch: every guess counts, by a weight that falls like a Gaussian below the mean confidence.

A threshold discards every guess below it. SoftMatch uses all guesses: one with at least the mean confidence counts in
full, one below it the less, the further it lies below, along a Gaussian curve. Before confidence is measured, guesses
are rescaled so that all classes are guessed alike.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.models import Network
from laplacenet.training.averages import StudentAndTeacher
from laplacenet.training.method import Batch
from laplacenet.training.methods.alignment import align, move_average
from laplacenet.training.methods.weak_strong import Logits, WeakStrong, WeakStrongConfig


@dataclass(frozen=True)
class SoftMatchConfig(WeakStrongConfig):
    """`momentum` is that of the averages; `n_sigma` is n_σ: the larger, the faster weights fall below the mean."""

    name: str = "softmatch"
    momentum: float = 0.999
    n_sigma: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0 <= self.momentum < 1, "momentum", "lie in [0, 1)")
        self.require(0 < self.n_sigma < float("inf"), "n_sigma", "be positive and finite")


class SoftMatchLearner(StudentAndTeacher):
    """Averages of the confidence's mean and variance, and of the outputs that are aligned."""

    mean: Tensor
    variance: Tensor
    outputs: Tensor

    def __init__(self, student: Network) -> None:
        super().__init__(student)
        self.register_buffer("mean", torch.tensor(1 / student.n_classes))
        self.register_buffer("variance", torch.tensor(1.0))
        self.register_buffer("outputs", torch.full((student.n_classes,), 1 / student.n_classes))

    @torch.no_grad()
    def update(self, confidence: Float[Tensor, " b"], momentum: float) -> None:
        variance = confidence.var() if len(confidence) > 1 else torch.zeros_like(self.variance)
        self.mean.lerp_(confidence.mean(), 1 - momentum)
        self.variance.lerp_(variance, 1 - momentum)


@dataclass(frozen=True, eq=False)
class SoftMatch(WeakStrong):
    """CE + λ_u·mean of w(max q̃)·CE(p(strong u), argmax q), w(a) = exp(−min(a − μ, 0)²/(2 σ²/n_σ²)).

    q̃ is q aligned to the uniform distribution (UA) and serves for the weight alone, as in USB. μ and σ² are averages
    of the mean and the unbiased variance of max q̃, updated before they are used.

    Kept between steps: moving averages of μ, of σ² and of the outputs; and the average of the weights, which is the
    network that is tested.
    """

    config: SoftMatchConfig

    leaves_guesses_out: ClassVar[bool] = True
    summary: ClassVar[str] = "FixMatch with Gaussian weights in place of a threshold, and uniform alignment"
    source: ClassVar[str] = "Chen et al., SoftMatch, 2023"

    def learner(self, network: Network) -> nn.Module:
        return SoftMatchLearner(network)

    def unlabeled_loss(self, learner: StudentAndTeacher, logits: Logits, batch: Batch) -> Float[Tensor, ""]:
        assert isinstance(learner, SoftMatchLearner)
        guesses, config = logits.weak.softmax(dim=1), self.config
        move_average(learner.outputs, guesses.mean(dim=0), config.momentum, learner.n_updates)
        uniform = torch.full_like(learner.outputs, 1 / self.n_classes)
        confidence = align(guesses, uniform, learner.outputs).amax(dim=1)
        learner.update(confidence, config.momentum)
        below = (confidence - learner.mean).clamp(max=0)
        weights = torch.exp(-(below**2) * config.n_sigma**2 / (2 * learner.variance.clamp(min=1e-12)))
        losses = functional.cross_entropy(logits.strong, guesses.argmax(dim=1), reduction="none")
        batch.note_used(weights)
        return config.unlabeled_weight * (losses * weights).mean()
