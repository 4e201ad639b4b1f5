"""FixMatch: confident guesses on weak views are the targets of strong ones.

The network looks at a weak view of an unlabeled image, which is only flipped and shifted. If one class has a
probability of at least 0.95, this class is the label of a strong view of the same image; if not, the image is left out
of the step. Labels are hard, nothing is sharpened, and no weight has to rise.
"""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from laplacenet.training.averages import StudentAndTeacher
from laplacenet.training.method import Batch
from laplacenet.training.methods.weak_strong import Logits, WeakStrong, WeakStrongConfig


@dataclass(frozen=True)
class FixMatchConfig(WeakStrongConfig):
    """`threshold` is τ: a guess counts if its probability is at least that."""

    name: str = "fixmatch"
    threshold: float = 0.95

    threshold_is_fixed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0 <= self.threshold <= 1, "threshold", "lie between 0 and 1")


@dataclass(frozen=True, eq=False)
class FixMatch(WeakStrong):
    """CE(f(weak x), y) on labeled images + λ·mean of [max q ≥ τ]·CE(f(strong u), argmax q), q = p(weak u).

    The mean is over all unlabeled images of the batch, also those that do not count. Labeled images and both views
    share one forward pass.

    Kept between steps: the average of the weights, which is the network that is tested.
    """

    config: FixMatchConfig

    leaves_guesses_out: ClassVar[bool] = True
    summary: ClassVar[str] = "confident guesses on weak views train the strong ones"
    source: ClassVar[str] = "Sohn et al., FixMatch, 2020"

    def unlabeled_loss(self, learner: StudentAndTeacher, logits: Logits, batch: Batch) -> Float[Tensor, ""]:
        confidence, guess = logits.weak.softmax(dim=1).max(dim=1)
        losses = functional.cross_entropy(logits.strong, guess, reduction="none")
        counts = confidence >= self.config.threshold
        batch.note_used(counts)
        return self.config.unlabeled_weight * (losses * counts).mean()
