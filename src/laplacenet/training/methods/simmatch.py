"""SimMatch: guesses and similarities to labeled images correct each other.

An unlabeled image gets a guess, and also its similarities to all labeled images. The two correct each other: a class
gains where similar labeled images have it, and a similarity gains where the guess agrees with that image's label. The
strong view of the image is trained to match both.
"""

import copy
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.models import Network, still_statistics
from laplacenet.runtime import stream_seed
from laplacenet.runtime.decoding import later_setting
from laplacenet.runtime.device import at_least_float32
from laplacenet.training.averages import Statistics, StudentAndTeacher
from laplacenet.training.method import Batch, EpochPlan
from laplacenet.training.methods.alignment import align, move_average
from laplacenet.training.methods.base import TARGETS
from laplacenet.training.methods.fixmatch import FixMatchConfig
from laplacenet.training.methods.weak_strong import WeakStrong, soft_cross_entropy

BANK_COUNTS = "bank_counts"
TEACHERS = STUDENT, AVERAGE = ("student", "average")


@dataclass(frozen=True)
class SimMatchConfig(FixMatchConfig):
    """`temperature` is that of similarities; a guess has the share `smoothing` in its target, similar images the rest.

    `instance_weight` is the paper's λ_in, `n_projected` the size of the compared vectors, and `momentum` that of the
    average of the outputs, by which guesses are aligned. `teacher` is the network that makes the targets: the `student`
    itself, or the `average` of its weights. `bank_momentum` is the share that a labeled image's former vector keeps
    when the image is drawn again. USB uses the student and 0.7 on CIFAR, the authors' code the average and 0 on
    ImageNet.
    """

    name: str = "simmatch"
    instance_weight: float = 1.0
    temperature: float = 0.1
    smoothing: float = 0.9
    momentum: float = 0.999
    n_projected: int = 128
    teacher: str = later_setting(STUDENT, before=AVERAGE)
    bank_momentum: float = later_setting(0.7, before=0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0 <= self.instance_weight < float("inf"), "instance_weight", "not be negative or infinite")
        self.require(0 < self.temperature < float("inf"), "temperature", "be positive and finite")
        self.require(0 <= self.smoothing <= 1, "smoothing", "lie between 0 and 1")
        self.require(0 <= self.momentum < 1, "momentum", "lie in [0, 1)")
        self.require(1 <= self.n_projected <= 10**6, "n_projected", "lie between 1 and 1000000")
        self.require(self.teacher in TEACHERS, "teacher", f"be {' or '.join(TEACHERS)}")
        self.require(0 <= self.bank_momentum < 1, "bank_momentum", "lie in [0, 1)")


class Projection(nn.Sequential):
    """From embeddings to unit vectors that are compared."""

    def __init__(self, n: int, n_projected: int, *, seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            super().__init__(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n_projected))

    def forward(self, z: Float[Tensor, "b d"]) -> Float[Tensor, "b k"]:
        return functional.normalize(super().forward(z), dim=1)  # type: ignore[no-untyped-call]


class SimMatchLearner(StudentAndTeacher):
    """Both networks with a projection each, a bank of the labeled images' vectors, and the average to be aligned."""

    bank: Tensor
    bank_labels: Tensor
    place: Tensor
    outputs: Tensor

    def __init__(self, student: Network, labels: Int64[Tensor, " n"], n_projected: int, *, seed: int) -> None:
        super().__init__(student)
        self.projection = Projection(student.embedding_size, n_projected, seed=seed)
        self.mean_projection = copy.deepcopy(self.projection).requires_grad_(False)
        n_labeled = int((labels >= 0).sum())
        vectors = torch.randn(n_labeled, n_projected, generator=torch.Generator().manual_seed(seed))
        self.register_buffer("bank", functional.normalize(vectors, dim=1))
        self.register_buffer("bank_labels", labels[labels >= 0].clone())
        self.register_buffer("place", (labels >= 0).long().cumsum(0) - 1)
        self.register_buffer("outputs", torch.full((student.n_classes,), 1 / student.n_classes))

    @torch.no_grad()
    def average(self, decay: float, *, statistics: Statistics = "average") -> None:
        share = 1 - (self.n_updates / (self.n_updates + 1)).clamp(max=decay)
        pairs = zip(self.mean_projection.parameters(), self.projection.parameters(), strict=True)
        for mean, value in pairs:
            mean.lerp_(value, share)
        super().average(decay, statistics=statistics)

    @torch.no_grad()
    def remember(self, rows: Int64[Tensor, " b"], vectors: Float[Tensor, "b k"], momentum: Tensor | float) -> None:
        """Move the vectors of these labeled rows toward new ones; of a row that comes twice, toward their mean."""
        places = self.place.index_select(0, rows)
        sums = torch.zeros_like(self.bank).index_add_(0, places, vectors)
        is_new = torch.zeros(len(self.bank), device=rows.device).index_fill_(0, places, 1.0) > 0
        moved = momentum * self.bank + (1 - momentum) * functional.normalize(sums, dim=1)
        self.bank.copy_(torch.where(is_new[:, None], functional.normalize(moved, dim=1), self.bank))


@dataclass(frozen=True, eq=False)
class SimMatch(WeakStrong):
    """CE + λ_u·mean of [max q ≥ τ]·H(q, p(strong u)) + λ_in·mean of H(s, s(strong u)).

    The teacher sees the weak views: p^w are its aligned guesses, s^w_i ∝ exp(z·z_i/t) its similarities to the bank's
    labeled images i. s ∝ s^w_i·p^w(y_i) and q = α·p^w + (1 − α)·Σ_{i: y_i = c} s^w_i. The student's own similarities on
    strong views follow s. The teacher is the student itself, without gradient, as in USB's runs on CIFAR; in the
    authors' code for ImageNet it is the average of the weights (`teacher`). When a labeled image is drawn, its vector
    z_i in the bank becomes β·z_i + (1 − β)·z, scaled to length 1 (β is `bank_momentum`). As in the authors' code the
    first epoch has no instance loss and q = p^w, since the bank begins at random; here that lasts longer if the bank
    does not hold every labeled image by then.

    Kept between steps: the bank, which has a vector of each labeled image; the layers that make these vectors, and
    their average; a moving average of the outputs; and the average of the weights, which is the network that is tested.

    Our reading: guesses are aligned to the uniform distribution by a moving average (the paper keeps a queue of 256
    batch means, USB one of 32 on CIFAR); until the bank counts, β is 0, so that nothing of its random beginning
    stays; a vector is scaled by its own length (USB's code divides each of its numbers by a norm over the batch). The
    student's pass has the weak views too, as in USB. Where the average of the weights is the teacher, it normalizes
    weak views by their own batch (with the option EMAN of the authors' code, by averaged statistics), and its running
    statistics are averages of the student's.
    """

    config: SimMatchConfig

    leaves_guesses_out: ClassVar[bool] = True
    summary: ClassVar[str] = "guesses and similarities to labeled images that correct each other"
    source: ClassVar[str] = "Zheng et al., SimMatch, 2022"

    def learner(self, network: Network) -> nn.Module:
        seed = stream_seed(self.problem.seed, "projection")
        return SimMatchLearner(network, self.problem.labels, self.config.n_projected, seed=seed)

    def draw_numbers(self, plan: EpochPlan, first_step: int, n_steps: int, batch_size: int) -> dict[str, np.ndarray]:
        """Whether the bank counts in a step."""
        n_filling = -(-len(self.problem.labeled) // self.train.labeled_batch_size)
        n_first = max(n_filling, self.epoch_steps(len(self.problem.unlabeled)))
        counts = np.arange(first_step, first_step + n_steps) >= n_first
        return {BANK_COUNTS: counts.astype(np.float32)}

    def loss(self, learner: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        assert isinstance(learner, SimMatchLearner)
        z = learner.student.embed(batch.views)
        weak_z = z[: len(batch.rows)].detach()
        if self.config.teacher == AVERAGE:
            with torch.no_grad(), still_statistics(learner.teacher):
                weak_z = learner.teacher.embed(batch.views[: len(batch.rows)])
        with torch.autocast(z.device.type, enabled=False):  # fp32 from the embeddings on
            return self.loss_of_embeddings(learner, batch, at_least_float32(z), at_least_float32(weak_z))

    def loss_of_embeddings(
        self, learner: SimMatchLearner, batch: Batch, z: Float[Tensor, "v d"], weak_z: Float[Tensor, "b d"]
    ) -> Float[Tensor, ""]:
        """`weak_z` are the teacher's embeddings of weak views, `z` the student's of all."""
        n_labeled, n_weak = batch.n_labeled, len(batch.rows)
        logits = learner.student.head(z)
        supervised = functional.cross_entropy(logits[:n_labeled], batch.tables[TARGETS][:n_labeled])
        if n_labeled == n_weak:
            return supervised
        bank_counts = batch.draws[BANK_COUNTS]
        target, similar = self.targets(learner, weak_z[n_labeled:], bank_counts)
        counts = target.amax(dim=1) >= self.config.threshold
        batch.note_used(counts)
        unlabeled = (soft_cross_entropy(logits[n_weak:], target) * counts).mean()
        bank = learner.bank.clone()  # the vectors of this batch come in after it
        similarities = learner.projection(z[n_weak:]) @ bank.T / self.config.temperature
        instances = soft_cross_entropy(similarities, similar).mean()
        _, projection = self.teacher_layers(learner)
        vectors = projection(weak_z[:n_labeled]).detach()
        learner.remember(batch.rows[:n_labeled], vectors, self.config.bank_momentum * bank_counts)
        instance_weight = self.config.instance_weight * bank_counts
        return supervised + self.config.unlabeled_weight * unlabeled + instance_weight * instances

    def teacher_layers(self, learner: SimMatchLearner) -> tuple[nn.Module, nn.Module]:
        """The teacher's head and projection."""
        if self.config.teacher == AVERAGE:
            return learner.teacher.head, learner.mean_projection
        return learner.student.head, learner.projection

    @torch.no_grad()
    def targets(
        self, learner: SimMatchLearner, weak_z: Float[Tensor, "b_u d"], bank_counts: Float[Tensor, ""]
    ) -> tuple[Float[Tensor, "b_u C"], Float[Tensor, "b_u m"]]:
        """q and s of unlabeled images, by the teacher on weak views."""
        head, projection = self.teacher_layers(learner)
        guesses = head(weak_z).softmax(dim=1)
        move_average(learner.outputs, guesses.mean(dim=0), self.config.momentum, learner.n_updates)
        guesses = align(guesses, torch.full_like(learner.outputs, 1 / self.n_classes), learner.outputs)
        similar = (projection(weak_z) @ learner.bank.T / self.config.temperature).softmax(dim=1)
        by_class = similar @ functional.one_hot(learner.bank_labels, self.n_classes).to(similar.dtype)
        corrected = functional.normalize(similar * guesses.index_select(1, learner.bank_labels), p=1, dim=1)
        return torch.lerp(guesses, by_class, (1 - self.config.smoothing) * bank_counts), corrected
