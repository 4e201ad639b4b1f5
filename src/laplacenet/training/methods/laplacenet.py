"""LaplaceNet: labels spread over a graph of the network's own features (Algorithm 2).

The network turns every image into a feature vector. A graph joins each image to its nearest neighbors among these
vectors, and the few given labels are spread along its edges to all images. The network then trains on these
pseudo-labels with one plain cross-entropy over several strong views of each image, mixed by MixUp. Before the next
epoch the graph is built anew from the features that the network has by then.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.augment import ViewParameters, shrunk_size
from laplacenet.graph import PseudoLabels, pseudo_label
from laplacenet.models import Inference, Network
from laplacenet.runtime import InputError, stream
from laplacenet.runtime.device import at_least_float32
from laplacenet.runtime.timeline import FEATURES, mark
from laplacenet.training.averages import StudentAndTeacher, take_plain_statistics
from laplacenet.training.guards import mean_cosine, require_finite
from laplacenet.training.method import Batch, Block, EpochPlan
from laplacenet.training.methods.base import NOTHING, SEMI_SUPERVISED, SUPERVISED, TARGETS, BaseMethod, MethodConfig
from laplacenet.training.objective import (
    boxes_in_pixels,
    mix,
    mixed_cross_entropy,
    mixed_soft_cross_entropy,
    mixed_weighted_cross_entropy,
    own_shares,
    sample_boxes,
    sample_mix_weights,
    sample_partners,
)
from laplacenet.training.views import ImageViews, ViewGroup, groups_of_views, views_of_all
from laplacenet.training.weighting import iscen_weights

PARTNERS, MIX_WEIGHT, BOX, WEIGHTS, SOFT_LABELS = "partners", "mix_weight", "box", "weights", "soft_labels"


@dataclass(frozen=True)
class MixUpConfig(MethodConfig):
    """`n_views` is the number of views of each image in a step.

    `mixup_alpha` is the α of MixUp's λ ~ Beta(α, α); 0 is training without MixUp. In a share `cutmix_share` of the
    steps, drawn at random, a rectangle of another image is pasted into each image instead (CutMix), and the labels are
    weighted by area.
    """

    n_views: int = 3
    mixup_alpha: float = 0.5
    cutmix_share: float = 0.0

    unit_length: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.require(1 <= self.n_views <= 1000, "n_views", "lie between 1 and 1000")
        self.require(0 <= self.mixup_alpha < float("inf"), "mixup_alpha", "not be negative or infinite")
        self.require(0 <= self.cutmix_share <= 1, "cutmix_share", "lie between 0 and 1")


@dataclass(frozen=True)
class PseudoLabelConfig(MixUpConfig):
    """`supervised_passes` over the labeled images come first; they count as steps and take at most a fifth of them.

    `class_weighting` weights each image's loss as Iscen et al. do, which LaplaceNet found harmful. With an `ema_decay`
    the features that are labeled, and the network that is tested, are those of a moving average of the weights.
    Labels are recomputed before each epoch of `epoch_passes` passes over the unlabeled images (LaplaceNet: 1).

    With `plain_statistics` label passes and tests normalize by batch statistics of unaugmented images, recomputed after
    each epoch; without, by running statistics of the views.
    """

    supervised_passes: int = 100
    class_weighting: bool = False
    ema_decay: float = 0.0
    epoch_passes: float = 1.0
    plain_statistics: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.supervised_passes >= 0, "supervised_passes", "not be negative")
        self.require(0 <= self.ema_decay < 1, "ema_decay", "lie in [0, 1)")
        self.require(0 < self.epoch_passes <= 1000, "epoch_passes", "lie above 0 and be at most 1000")


@dataclass(frozen=True)
class LaplaceNetConfig(PseudoLabelConfig):
    """The defaults are the paper's for CIFAR-100.

    Not in the paper, and off by default: CutMix, averaged weights, epochs of another length, batch statistics of
    unaugmented images, and the following.

    With `label_temperature` T > 0 pseudo-labels are soft: the graph's scores to the power 1/T, normalized to sum 1.
    With 0, as in the paper, a pseudo-label is the class with the largest score.

    In steps with unlabeled images each labeled one has `n_labeled_views` views and still counts as much as any other,
    so that a step costs less; with 0, as in the paper, it has as many views as the others.
    """

    name: str = "laplacenet"
    label_temperature: float = 0.0
    n_labeled_views: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0 <= self.label_temperature < float("inf"), "label_temperature", "not be negative or infinite")
        self.require(0 <= self.n_labeled_views <= self.n_views, "n_labeled_views", "lie between 0 and method.n_views")
        is_mixed = (self.mixup_alpha > 0 or self.cutmix_share > 0) and self.n_labeled_views > 0
        remedy = "be 0 with MixUp and CutMix; set method.mixup_alpha=0 and method.cutmix_share=0, too"
        self.require(not is_mixed, "n_labeled_views", remedy)


@dataclass(frozen=True)
class LabelReport:
    """An epoch's pseudo-labels. `mean_cosine` is that between the features; near 1 they have collapsed."""

    pseudo_labels: PseudoLabels
    mean_cosine: float


@dataclass(frozen=True, eq=False)
class MixUpTraining(BaseMethod):
    """One plain cross-entropy over several strong views of each image, under MixUp."""

    config: MixUpConfig

    def __post_init__(self) -> None:
        if self.config.cutmix_share and not isinstance(self.views, ImageViews):
            raise InputError("method.cutmix_share: only pictures have parts to paste; leave it out for vectors")

    def draw_views(
        self, n_steps: int, n_labeled: int, n_unlabeled: int, rng: np.random.Generator
    ) -> tuple[Int64[Tensor, " v"], ViewParameters | None]:
        return views_of_all(
            self.views, n_steps, n_views=self.config.n_views, n_labeled=n_labeled, n_unlabeled=n_unlabeled, rng=rng
        )

    def draw_numbers(self, plan: EpochPlan, first_step: int, n_steps: int, batch_size: int) -> dict[str, np.ndarray]:
        rng = stream(self.problem.seed, "mixup", first_step)
        partners = sample_partners(n_steps, batch_size, rng)
        weights = sample_mix_weights(n_steps, self.config.mixup_alpha, rng)
        if not self.config.cutmix_share:
            return {PARTNERS: partners, MIX_WEIGHT: weights}
        rng = stream(self.problem.seed, "cutmix", first_step)
        is_pasted = rng.random(n_steps) < self.config.cutmix_share
        boxes = sample_boxes(n_steps, rng)
        boxes[~is_pasted] = 0
        assert isinstance(self.views, ImageViews)
        size = shrunk_size(self.views.height, self.views.width, self.train.view_scale(first_step))
        boxes = boxes_in_pixels(boxes, *size)
        weights[is_pasted] = own_shares(boxes, *size)[is_pasted]
        return {PARTNERS: partners, MIX_WEIGHT: weights, BOX: boxes}

    def share(self, block: Block, own: range) -> Block | None:
        """The own rows, then their partners of each step, which other processes may own: their views are made here."""
        if len(block.sources) != self.config.n_views * block.rows.shape[1]:
            return None  # some rows have fewer views
        partners = block.draws[PARTNERS][:, own.start : own.stop]
        columns = torch.cat([torch.arange(own.start, own.stop).expand_as(partners), partners], dim=1)
        n_rows, n_steps = block.rows.shape[1], len(block)
        views = block.views
        if views is not None:
            steps, kinds = torch.arange(n_steps)[:, None, None], torch.arange(self.config.n_views)[None, :, None]
            views = views.reshape(n_steps, self.config.n_views, n_rows)[steps, kinds, columns[:, None, :]]
            views = views.reshape(n_steps, -1)
        here = torch.arange(len(own), 2 * len(own)).repeat(n_steps, 1)
        return replace(
            block,
            rows=block.rows.gather(1, columns),
            n_labeled=0,  # labeled and unlabeled rows count alike
            sources=torch.arange(2 * len(own)).repeat(self.config.n_views),
            views=views,
            draws={**block.draws, PARTNERS: here},
        )

    def loss(self, learner: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        """L_ssl (and L_sup): all views in one forward pass, batch statistics over all of them.

        There is a partner for each row; rows behind these are there to be partners only.
        """
        mixed, mix_weight = mixed_views(batch)
        logits = at_least_float32(learner(mixed.flatten(0, 1))).reshape(*mixed.shape[:2], -1)
        return self.cross_entropy(logits, batch.tables, batch.draws[PARTNERS], mix_weight)

    def cross_entropy(
        self,
        logits: Float[Tensor, "n_views b C"],
        tables: Mapping[str, Tensor],
        partners: Int64[Tensor, " b"],
        mix_weight: Float[Tensor, ""],
    ) -> Float[Tensor, ""]:
        """By what the tables say of the rows: classes or soft labels, with or without weights."""
        targets, weights, soft = tables[TARGETS], tables.get(WEIGHTS), tables.get(SOFT_LABELS)
        if soft is not None:
            soft = soft if weights is None else soft * weights[:, None]
            return mixed_soft_cross_entropy(logits, soft, partners, mix_weight)
        if weights is None:
            return mixed_cross_entropy(logits, targets, partners, mix_weight)
        return mixed_weighted_cross_entropy(logits, targets, partners, mix_weight=mix_weight, weights=weights)

    @property
    def supervised_batch_size(self) -> int:
        """Batch normalization needs two values: a label that is alone, in one view, comes twice."""
        least = 2 if self.config.n_views == 1 else 1
        return max(least, min(self.train.batch_size, len(self.problem.labeled)))


@dataclass(frozen=True, eq=False)
class PseudoLabeling(MixUpTraining):
    """First the labeled inputs alone, then epochs over all of them; before each, `label` labels every input."""

    config: PseudoLabelConfig

    def learner(self, network: Network) -> nn.Module:
        return StudentAndTeacher(network) if self.config.ema_decay else network

    def judged(self, learner: nn.Module) -> Network:
        return learner.teacher if isinstance(learner, StudentAndTeacher) else super().judged(learner)

    def loss(self, learner: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        return super().loss(learner.student if isinstance(learner, StudentAndTeacher) else learner, batch)

    def after_step(self, learner: nn.Module, batch: Batch) -> None:
        if isinstance(learner, StudentAndTeacher):
            learner.average(self.config.ema_decay)

    def after_epoch(self, learner: nn.Module, inputs: Tensor) -> None:
        if self.config.plain_statistics:
            take_plain_statistics(self.inference(learner), inputs, at_least=self.train.batch_size)

    @property
    def wanted_supervised_steps(self) -> int:
        n_labeled = len(self.problem.labeled)
        return self.config.supervised_passes * max(1, n_labeled // min(self.train.batch_size, n_labeled))

    @property
    def supervised_steps(self) -> int:
        """At most a fifth of all; with nothing left to label, every step is supervised."""
        if not len(self.problem.unlabeled):
            return self.steps
        return min(self.wanted_supervised_steps, self.steps // 5)

    def notes(self) -> list[str]:
        if self.wanted_supervised_steps <= self.supervised_steps:
            return []
        return [
            f"the supervised start is cut from {self.wanted_supervised_steps} to {self.supervised_steps} steps,"
            f" a fifth of the {self.steps} in all"
        ]

    def epoch_steps(self, n_unlabeled: int) -> int:
        return super().epoch_steps(math.ceil(self.config.epoch_passes * n_unlabeled))

    def shuffled(self, rows: Int64[np.ndarray, " n"], epoch: int) -> Int64[Tensor, " n_drawn"]:
        n_passes = math.ceil(self.config.epoch_passes)
        return torch.cat([super(PseudoLabeling, self).shuffled(rows, epoch * n_passes + i) for i in range(n_passes)])

    def plan_epoch(self, index: int, first_step: int, *, learner: nn.Module, inputs: Tensor) -> EpochPlan:
        """Lines 8 to 13 of Algorithm 2 (before them, a piece of the supervised start as long as an epoch)."""
        if first_step < self.supervised_steps:
            n_steps = min(self.epoch_steps(len(self.problem.unlabeled)), self.supervised_steps - first_step)
            tables = {TARGETS: self.problem.labels}
            if self.config.class_weighting:
                tables[WEIGHTS] = torch.ones(len(self.problem.labels))
            return EpochPlan(index, SUPERVISED, first_step, n_steps, NOTHING, tables)
        inference = self.inference(learner)
        features = inference.embed(inputs)
        mark(FEATURES)
        require_finite(features, what="features", step=first_step)
        pseudo_labels = self.label(inference, features)
        is_drawable = (self.problem.labels < 0) & ~pseudo_labels.unreachable.cpu()
        rows = torch.nonzero(is_drawable).flatten().numpy()
        n_steps = min(self.epoch_steps(len(rows)), self.steps - first_step)
        phase = SEMI_SUPERVISED if len(rows) else SUPERVISED  # no label reaches anything: none is invented
        tables, report = self.tables(pseudo_labels), LabelReport(pseudo_labels, mean_cosine(features))
        return EpochPlan(index, phase, first_step, n_steps, self.shuffled(rows, index), tables, report)

    def label(self, inference: Inference, features: Float[Tensor, "n d"]) -> PseudoLabels:
        raise NotImplementedError

    def tables(self, pseudo_labels: PseudoLabels) -> dict[str, Tensor]:
        tables = {TARGETS: pseudo_labels.labels}
        if self.config.class_weighting:
            tables[WEIGHTS] = iscen_weights(pseudo_labels, self.problem.labels, n_classes=self.n_classes)
        return tables


@dataclass(frozen=True, eq=False)
class LaplaceNet(PseudoLabeling):
    """L_ssl = 1/(b·n_a) Σ_i Σ_j l_s(f(t_j(x_i)), y_i): cross-entropy on n_a strong views of each image, under MixUp.

    y_i is the given label, or the pseudo-label argmax F_i. Before each epoch a graph over the network's embeddings
    spreads the given labels Y to every image, (I − γ𝒲)F = Y with γ = 1/(1 + µ), and F is aligned to the prior class
    shares. Training starts with a hundred passes over the labeled images alone.

    Kept between steps: the pseudo-labels, which are computed anew before each epoch. With an `ema_decay` also an
    average of the weights, from which the features are computed and which is the network that is tested.
    """

    config: LaplaceNetConfig

    divides_rows: ClassVar[bool] = True
    summary: ClassVar[str] = "graph pseudo-labels, several strong views of each image, MixUp"
    source: ClassVar[str] = "Sellars et al., LaplaceNet, 2021"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.graph.require_classes(self.n_classes)

    def notes(self) -> list[str]:
        return [*super().notes(), *self.graph.notes(len(self.problem.labels))]

    def draw_views(
        self, n_steps: int, n_labeled: int, n_unlabeled: int, rng: np.random.Generator
    ) -> tuple[Int64[Tensor, " v"], ViewParameters | None]:
        n_views, n_labeled_views, end = self.config.n_views, self.config.n_labeled_views, n_labeled + n_unlabeled
        if n_labeled_views in (0, n_views) or not n_unlabeled:
            return super().draw_views(n_steps, n_labeled, n_unlabeled, rng)
        labeled = ViewGroup(0, n_labeled, "labeled", n_labeled_views)
        return groups_of_views(self.views, n_steps, [labeled, ViewGroup(n_labeled, end, "unlabeled", n_views)], rng=rng)

    def loss(self, learner: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        """Where labeled images have fewer views: 1/b Σ_i of the mean over the views of image i, still in one pass."""
        if len(batch.views) == self.config.n_views * len(batch.rows):
            return super().loss(learner, batch)
        student = learner.student if isinstance(learner, StudentAndTeacher) else learner
        logits, n = at_least_float32(student(batch.views)), batch.n_labeled
        n_first = n * self.config.n_labeled_views

        def part(rows: slice, of_rows: Float[Tensor, "v C"]) -> Float[Tensor, ""]:
            tables = {name: table[rows] for name, table in batch.tables.items()}
            n_rows = len(tables[TARGETS])
            themselves = torch.arange(n_rows, device=logits.device)  # nothing is mixed
            by_view = of_rows.reshape(-1, n_rows, logits.shape[1])
            mean = self.cross_entropy(by_view, tables, themselves, batch.draws[MIX_WEIGHT])
            return mean * (n_rows / len(batch.rows))

        return part(slice(n), logits[:n_first]) + part(slice(n, None), logits[n_first:])

    def label(self, inference: Inference, features: Float[Tensor, "n d"]) -> PseudoLabels:
        return pseudo_label(features, self.problem.labels, self.graph, n_classes=self.n_classes, group=inference.group)

    def tables(self, pseudo_labels: PseudoLabels) -> dict[str, Tensor]:
        tables = super().tables(pseudo_labels)
        if self.config.label_temperature:
            tables[SOFT_LABELS] = soft_labels(pseudo_labels, self.problem.labels, T=self.config.label_temperature)
        return tables


def mixed_views(batch: Batch) -> tuple[Float[Tensor, "n_views b ..."], Float[Tensor, ""]]:
    """The batch's views, mixed as `MixUpTraining` draws it, and λ: how much of the own label counts in the loss."""
    partners, mix_weight = batch.draws[PARTNERS], batch.draws[MIX_WEIGHT]
    views = batch.views.reshape(-1, len(batch.rows), *batch.views.shape[1:])
    return mix(views, partners, mix_weight, batch.draws.get(BOX)), mix_weight


def soft_labels(pseudo_labels: PseudoLabels, given: Int64[Tensor, " n"], *, T: float) -> Float[Tensor, "n C"]:
    """Scores to the power 1/T, each row with sum 1; a given label is certain."""
    scores = at_least_float32(pseudo_labels.scores)
    sharpened = (scores / scores.amax(dim=1, keepdim=True)) ** (1 / T)  # the largest is 1 and cannot vanish
    known = functional.one_hot(pseudo_labels.labels, scores.shape[1]).float()
    is_given = (given >= 0).to(scores.device)
    return torch.where(is_given[:, None], known, functional.normalize(sharpened, p=1, dim=1))
