"""FreeMatch: thresholds that follow the network's own confidence, and a term for fairness among classes.

FixMatch's threshold is the same from the first step to the last. FreeMatch's threshold follows the mean confidence of
the network, so it begins low and rises, and it is lower for classes in which the network has less confidence. A small
further term lets no class be forgotten.
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
from laplacenet.training.methods.weak_strong import Logits, WeakStrong, WeakStrongConfig


@dataclass(frozen=True)
class FreeMatchConfig(WeakStrongConfig):
    """`momentum` is that of the averages τ, p̃ and h̃; `fairness` is the weight w_f of the term L_f."""

    name: str = "freematch"
    momentum: float = 0.999
    fairness: float = 0.001

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0 <= self.momentum < 1, "momentum", "lie in [0, 1)")
        self.require(0 <= self.fairness < float("inf"), "fairness", "not be negative or infinite")


class FreeMatchLearner(StudentAndTeacher):
    """Three averages beside the networks: τ, the mean confidence; p̃, the mean output; h̃, the shares of guesses."""

    confidence: Tensor
    outputs: Tensor
    shares: Tensor

    def __init__(self, student: Network) -> None:
        super().__init__(student)
        n_classes = student.n_classes
        self.register_buffer("confidence", torch.tensor(1 / n_classes))
        self.register_buffer("outputs", torch.full((n_classes,), 1 / n_classes))
        self.register_buffer("shares", torch.full((n_classes,), 1 / n_classes))

    @torch.no_grad()
    def update(self, probabilities: Float[Tensor, "b C"], momentum: float) -> None:
        confidence, guesses = probabilities.max(dim=1)
        shares = functional.one_hot(guesses, probabilities.shape[1]).to(probabilities.dtype).mean(dim=0)
        self.confidence.lerp_(confidence.mean(), 1 - momentum)
        self.outputs.lerp_(probabilities.mean(dim=0), 1 - momentum)
        self.shares.lerp_(shares, 1 - momentum)


@dataclass(frozen=True, eq=False)
class FreeMatch(WeakStrong):
    """CE + λ_u·mean of [max q ≥ τ(argmax q)]·CE(p(strong u), argmax q) + w_f·L_f, with τ(c) = τ·p̃(c)/max p̃.

    L_f = Σ_c A_c log B_c (the paper's −H) with A ∝ p̃/h̃ and B ∝ p̄/h̄, both of sum 1: p̄ is the mean output on those
    strong views whose guess counts, h̄ the shares of their argmax. Averages are updated before they are used, as in
    USB; τ, p̃ and h̃ begin at 1/C. Where no guess counts, L_f is 0. For a class without a guess B is 0, and log(B +
    1e-12) is taken.

    Kept between steps: moving averages of the confidence (τ), of the outputs (p̃) and of the shares of guesses (h̃);
    and the average of the weights, which is the network that is tested.
    """

    config: FreeMatchConfig

    leaves_guesses_out: ClassVar[bool] = True
    summary: ClassVar[str] = "FixMatch with thresholds that follow the network's confidence in each class"
    source: ClassVar[str] = "Wang et al., FreeMatch, 2023"

    def learner(self, network: Network) -> nn.Module:
        return FreeMatchLearner(network)

    def unlabeled_loss(self, learner: StudentAndTeacher, logits: Logits, batch: Batch) -> Float[Tensor, ""]:
        assert isinstance(learner, FreeMatchLearner)
        guesses = logits.weak.softmax(dim=1)
        learner.update(guesses, self.config.momentum)
        confidence, guess = guesses.max(dim=1)
        thresholds = learner.confidence * learner.outputs / learner.outputs.max()
        counts = (confidence >= thresholds.index_select(0, guess)).float()
        losses = functional.cross_entropy(logits.strong, guess, reduction="none")
        batch.note_used(counts)
        unlabeled = self.config.unlabeled_weight * (losses * counts).mean()
        return unlabeled + self.config.fairness * fairness(logits.strong, counts, learner.outputs, learner.shares)


def fairness(
    strong: Float[Tensor, "b C"], counts: Float[Tensor, " b"], outputs: Float[Tensor, " C"], shares: Float[Tensor, " C"]
) -> Float[Tensor, ""]:
    """L_f without a shape that depends on how many guesses count."""
    p = strong.softmax(dim=1)
    n = counts.sum().clamp(min=1)
    mean = (p * counts[:, None]).sum(dim=0) / n
    found = (functional.one_hot(p.argmax(dim=1), p.shape[1]) * counts[:, None]).sum(dim=0) / n
    wanted = functional.normalize(divide(outputs, shares), p=1, dim=0)
    actual = divide(mean, found)
    actual = actual / actual.sum().clamp(min=1e-12)
    return (wanted * torch.log(actual + 1e-12)).sum() * (counts.sum() > 0)


def divide(a: Tensor, b: Tensor) -> Tensor:
    """a/b, and 0 where b is 0."""
    return torch.where(b > 0, a / torch.where(b > 0, b, 1.0), 0.0)
