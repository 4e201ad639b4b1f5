"""LaplaceNet: Algorithm 2, as a method for the loop."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from laplacenet.graph import GraphConfig, PseudoLabels, pseudo_label
from laplacenet.models import Inference, Network
from laplacenet.runtime import InputError, stream
from laplacenet.training.batches import composite_rows, epoch_rows, reshuffled_rows
from laplacenet.training.config import TrainConfig
from laplacenet.training.guards import mean_cosine, require_finite
from laplacenet.training.method import Batch, Block, EpochPlan
from laplacenet.training.objective import (
    mix,
    mixed_cross_entropy,
    mixed_weighted_cross_entropy,
    sample_mix_weights,
    sample_partners,
)
from laplacenet.training.schedule import learning_rates, supervised_steps
from laplacenet.training.views import Views
from laplacenet.training.weighting import iscen_weights


@dataclass(frozen=True)
class LaplaceNet:
    """First the labeled inputs alone, then epochs over all of them with labels from the graph (or another source).

    `labels` are the given ones, −1 where hidden; nothing else about labels ever reaches training.
    """

    labels: Int64[Tensor, " n"]
    n_classes: int
    views: Views
    config: TrainConfig
    graph: GraphConfig
    seed: int

    def __post_init__(self) -> None:
        if not bool((self.labels >= 0).any()):
            raise InputError("no labels: every label is -1; give at least one labeled input")

    @property
    def steps(self) -> int:
        return self.config.steps

    @property
    def labeled(self) -> Int64[np.ndarray, " n_labeled"]:
        return torch.nonzero(self.labels >= 0).flatten().numpy()

    @property
    def unlabeled(self) -> Int64[np.ndarray, " n_unlabeled"]:
        return torch.nonzero(self.labels < 0).flatten().numpy()

    @property
    def supervised_steps(self) -> int:
        """With nothing left to label, every step is supervised."""
        return supervised_steps(self.config, len(self.labeled)) if len(self.unlabeled) else self.config.steps

    def plan_epoch(self, index: int, first_step: int, *, inference: Inference, inputs: Tensor) -> EpochPlan:
        """Lines 8 to 13 of Algorithm 2 (before them, a piece of the supervised start as long as an epoch)."""
        if first_step < self.supervised_steps:
            n_steps = min(self._epoch_steps(len(self.unlabeled)), self.supervised_steps - first_step)
            weights = torch.ones(len(self.labels)) if self.config.class_weighting else None
            return EpochPlan(
                index, "supervised", first_step, n_steps, self.labels, is_candidate=self.labels < 0, weights=weights
            )
        features = inference.embed(inputs)
        require_finite(features, what="features", step=first_step)
        pseudo_labels = self._label(inference.network, features)
        is_candidate = (self.labels < 0) & ~pseudo_labels.unreachable.cpu()
        n_candidates = int(is_candidate.sum())
        n_steps = min(self._epoch_steps(n_candidates), self.steps - first_step)
        phase = "semi-supervised" if n_candidates else "supervised"  # no label reaches anything: none is invented
        return EpochPlan(
            index,
            phase,
            first_step,
            n_steps,
            pseudo_labels.labels,
            is_candidate,
            pseudo_labels,
            weights=self._weights(pseudo_labels),
            mean_cosine=mean_cosine(features),
        )

    def draw(self, plan: EpochPlan, first_step: int, n_steps: int) -> Block:
        labeled, unlabeled = self._rows(plan, first_step, n_steps)
        batch = labeled.shape[1] + unlabeled.shape[1]
        shape = (n_steps, self.config.n_views)
        views = self.views.sample(
            shape,
            n_labeled=labeled.shape[1],
            n_unlabeled=unlabeled.shape[1],
            rng=stream(self.seed, "views", first_step),
        )
        mixup = stream(self.seed, "mixup", first_step)
        return Block(
            rows=torch.from_numpy(composite_rows(labeled, unlabeled)),
            views=views,
            partners=torch.from_numpy(sample_partners(n_steps, batch, mixup)),
            mix_weights=torch.from_numpy(sample_mix_weights(n_steps, self.config.mixup_alpha, mixup)),
            learning_rates=torch.from_numpy(learning_rates(self.config, first_step, n_steps)),
        )

    def loss(self, network: Network, batch: Batch) -> Float[Tensor, ""]:
        """L_ssl (and L_sup) under MixUp: all views in one forward pass, batch statistics over all of them."""
        views = batch.views.reshape(-1, len(batch.targets), *batch.views.shape[1:])
        mixed = mix(views, batch.partners, batch.mix_weight)
        logits = network(mixed.flatten(0, 1)).float().reshape(*mixed.shape[:2], -1)
        if batch.weights is None:
            return mixed_cross_entropy(logits, batch.targets, batch.partners, batch.mix_weight)
        return mixed_weighted_cross_entropy(
            logits, batch.targets, batch.partners, weight=batch.mix_weight, weights=batch.weights
        )

    def _label(self, network: Network, features: Float[Tensor, "n d"]) -> PseudoLabels:
        if self.config.label_source == "graph":
            return pseudo_label(features, self.labels, self.graph, n_classes=self.n_classes)
        return network_labels(network, features, self.labels)

    def _weights(self, pseudo_labels: PseudoLabels) -> Float[Tensor, " n"] | None:
        if not self.config.class_weighting:
            return None
        return iscen_weights(pseudo_labels, self.labels, n_classes=self.n_classes)

    def _epoch_steps(self, n_candidates: int) -> int:
        """⌊n_u/b_u⌋, but never an epoch of no steps.

        Without candidates it is as long as one over all that is unlabeled, or else labeled: a label pass or a test
        after every single step would take far longer than the steps.
        """
        n = n_candidates or len(self.unlabeled) or len(self.labeled)
        return max(1, n // self.config.unlabeled_batch_size)

    def _rows(
        self, plan: EpochPlan, first_step: int, n_steps: int
    ) -> tuple[Int64[np.ndarray, "steps b_l"], Int64[np.ndarray, "steps b_u"]]:
        if plan.phase == "supervised":
            # batch normalization needs two values: a label that is alone, in one view, comes twice
            least = 2 if self.config.n_views == 1 else 1
            size = max(least, min(self.config.batch_size, len(self.labeled)))
            rows = reshuffled_rows(self.labeled, first_step * size, n_steps * size, seed=self.seed, name="supervised")
            return rows.reshape(n_steps, size), np.empty((n_steps, 0), dtype=np.int64)
        size = self.config.labeled_batch_size
        rows = reshuffled_rows(self.labeled, first_step * size, n_steps * size, seed=self.seed, name="labeled")
        candidates = torch.nonzero(plan.is_candidate).flatten().numpy()
        unlabeled_size = min(self.config.unlabeled_batch_size, len(candidates))
        start = (first_step - plan.first_step) * unlabeled_size
        shuffled = epoch_rows(candidates, seed=self.seed, epoch=plan.index)
        chosen = shuffled[start : start + n_steps * unlabeled_size]
        return rows.reshape(n_steps, size), chosen.reshape(n_steps, unlabeled_size)


@torch.no_grad()
def network_labels(network: Network, features: Float[Tensor, "n d"], labels: Int64[Tensor, " n"]) -> PseudoLabels:
    """The paper's comparison: ŷ_i = argmax f(x_i), without a graph; given labels are kept."""
    scores = network.head(features).softmax(dim=1)
    given = labels.to(scores.device)
    return PseudoLabels(
        labels=torch.where(given >= 0, given, scores.argmax(dim=1)),
        scores=scores,
        unreachable=torch.zeros(len(labels), dtype=torch.bool, device=scores.device),
        n_iterations=0,
        is_converged=True,
        recall=None,
    )
