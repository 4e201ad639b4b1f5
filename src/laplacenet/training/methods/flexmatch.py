"""FlexMatch: a threshold for each class, lower where the network has learned less.

With FixMatch's fixed threshold, classes that are hard to learn seldom count. FlexMatch counts how many images have been
guessed to be of each class, and lowers the threshold for classes with few.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.models import Network
from laplacenet.training.averages import StudentAndTeacher
from laplacenet.training.method import Batch
from laplacenet.training.methods.fixmatch import FixMatchConfig
from laplacenet.training.methods.weak_strong import Logits, WeakStrong

UNUSED = 0
"""The entry of an image without a confident guess so far; class c has the entry c + 1."""


@dataclass(frozen=True)
class FlexMatchConfig(FixMatchConfig):
    """FixMatch's settings; `threshold` is τ, which applies as it is to the class that is learned best."""

    name: str = "flexmatch"


class FlexMatchLearner(StudentAndTeacher):
    """The latest confident guess for each of the n images; labeled ones are not counted."""

    latest: Tensor
    is_unlabeled: Tensor

    def __init__(self, student: Network, labels: Int64[Tensor, " n"]) -> None:
        super().__init__(student)
        self.register_buffer("latest", torch.full(labels.shape, UNUSED))
        self.register_buffer("is_unlabeled", (labels < 0).float())

    def progress(self) -> Float[Tensor, " C"]:
        """β(c) = σ(c) / max(max σ, n_u − Σσ), σ(c) being how many images are taken for c."""
        counts = self.is_unlabeled.new_zeros(self.student.n_classes + 1)
        counts.index_add_(0, self.latest, self.is_unlabeled)
        return counts[1:] / counts.max().clamp(min=1)

    @torch.no_grad()
    def note(self, rows: Int64[Tensor, " b"], guess: Int64[Tensor, " b"], is_confident: Tensor) -> None:
        before = self.latest.index_select(0, rows)
        self.latest.index_copy_(0, rows, torch.where(is_confident, guess + 1, before))


@dataclass(frozen=True, eq=False)
class FlexMatch(WeakStrong):
    """FixMatch with [max q ≥ T(c)], c = argmax q and T(c) = τ·β(c)/(2 − β(c)).

    β(c) = σ(c)/max(max σ, number of images without a confident guess), where σ(c) counts the unlabeled images whose
    latest guess with max q ≥ τ was c; the second term is the paper's warm-up. As in TorchSSL, a batch is masked by the
    thresholds of the step before, and then its guesses are counted.

    Kept between steps: the latest confident guess for each unlabeled image, and the average of the weights, which is
    the network that is tested.

    Our reading: labeled images are neither drawn as unlabeled ones nor counted; in TorchSSL they are both.
    """

    config: FlexMatchConfig

    leaves_guesses_out: ClassVar[bool] = True
    summary: ClassVar[str] = "FixMatch with lower thresholds for classes that are learned less well"
    source: ClassVar[str] = "Zhang et al., FlexMatch, 2021"

    def learner(self, network: Network) -> nn.Module:
        return FlexMatchLearner(network, self.problem.labels)

    def unlabeled_loss(self, learner: StudentAndTeacher, logits: Logits, batch: Batch) -> Float[Tensor, ""]:
        assert isinstance(learner, FlexMatchLearner)
        confidence, guess = logits.weak.softmax(dim=1).max(dim=1)
        beta = learner.progress().index_select(0, guess)
        counts = confidence >= self.config.threshold * beta / (2 - beta)
        learner.note(batch.rows[batch.n_labeled :], guess, confidence >= self.config.threshold)
        losses = functional.cross_entropy(logits.strong, guess, reduction="none")
        batch.note_used(counts)
        return self.config.unlabeled_weight * (losses * counts).mean()
