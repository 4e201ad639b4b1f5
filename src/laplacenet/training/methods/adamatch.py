"""AdaMatch: a threshold relative to the confidence on labeled images, and guesses aligned to their classes.

FixMatch's threshold, measured against how confident the network is on labeled images in the same step: it is low early
in training and rises by itself. Guesses are first rescaled so that their classes have, on average, the shares that the
outputs on labeled images have.
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
from laplacenet.training.methods.fixmatch import FixMatchConfig
from laplacenet.training.methods.weak_strong import Logits, WeakStrong


@dataclass(frozen=True)
class AdaMatchConfig(FixMatchConfig):
    """`threshold` is τ, relative to the mean confidence on labeled images; `momentum` is that of both expectations.

    The preset `original` has USB's settings. The authors' own are τ = 0.9, three unlabeled images for each labeled one,
    weight decay 10⁻³ and 2^17 steps.
    """

    name: str = "adamatch"
    momentum: float = 0.999

    threshold_is_fixed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0 <= self.momentum < 1, "momentum", "lie in [0, 1)")


class AdaMatchLearner(StudentAndTeacher):
    """Averages of the outputs on labeled and on unlabeled images."""

    labeled_outputs: Tensor
    outputs: Tensor

    def __init__(self, student: Network) -> None:
        super().__init__(student)
        for name in ("labeled_outputs", "outputs"):
            self.register_buffer(name, torch.full((student.n_classes,), 1 / student.n_classes))


@dataclass(frozen=True, eq=False)
class AdaMatch(WeakStrong):
    """CE + λ_u·mean of [max q̃ ≥ c_τ]·CE(p(strong u), argmax q̃), c_τ = τ·mean of max p(x) over labeled images.

    q̃ ∝ q·E[p(x)]/E[p(u)].

    Kept between steps: moving averages of the outputs on labeled and on unlabeled images; and the average of the
    weights, which is the network that is tested.

    Our reading: where USB differs from the authors' code, we follow USB. E[p(u)] is a moving average from the first
    batch on, not the mean of the last 128 batches; labeled images are seen in weak views only, logits are not
    interpolated at random, and λ_u is constant, where the authors multiply it by ½ − cos(min(π, 2πt/T))/2 at step t of
    T. Strong views are RandAugment's, not CTAugment's.
    """

    config: AdaMatchConfig

    leaves_guesses_out: ClassVar[bool] = True
    summary: ClassVar[str] = "FixMatch with a relative threshold and guesses aligned to labeled outputs"
    source: ClassVar[str] = "Berthelot et al., AdaMatch, 2022"

    def learner(self, network: Network) -> nn.Module:
        return AdaMatchLearner(network)

    def unlabeled_loss(self, learner: StudentAndTeacher, logits: Logits, batch: Batch) -> Float[Tensor, ""]:
        assert isinstance(learner, AdaMatchLearner)
        labeled, guesses = logits.labeled.detach().softmax(dim=1), logits.weak.softmax(dim=1)
        momentum = self.config.momentum
        learner.labeled_outputs.lerp_(labeled.mean(dim=0), 1 - momentum)
        move_average(learner.outputs, guesses.mean(dim=0), momentum, learner.n_updates)
        confidence, guess = align(guesses, learner.labeled_outputs, learner.outputs).max(dim=1)
        threshold = self.config.threshold * labeled.amax(dim=1).mean()
        losses = functional.cross_entropy(logits.strong, guess, reduction="none")
        counts = confidence >= threshold
        batch.note_used(counts)
        return self.config.unlabeled_weight * (losses * counts).mean()
