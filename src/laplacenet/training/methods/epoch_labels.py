"""Two stages: first the given labels, then epochs before each of which every input gets a label and a weight."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from laplacenet.graph import Neighbors, PseudoLabels
from laplacenet.graph.pseudo_labels import search_neighbors, unit_rows
from laplacenet.models import Inference, Network
from laplacenet.runtime import current_group
from laplacenet.training.guards import mean_cosine, require_finite
from laplacenet.training.method import LR, EpochPlan
from laplacenet.training.methods.base import NOTHING, SEMI_SUPERVISED, SUPERVISED, TARGETS
from laplacenet.training.methods.consistency import WEIGHTS, ViewTraining
from laplacenet.training.methods.laplacenet import LabelReport
from laplacenet.training.schedule import learning_rates


@dataclass(frozen=True, eq=False)
class EpochLabels(ViewTraining):
    """A subclass says how inputs are labeled and weighted; its settings have `first_stage`, a share of all steps."""

    config: Any

    @property
    def first_stage_steps(self) -> int:
        """With nothing left to label, every step belongs to the first stage."""
        return round(self.config.first_stage * self.steps) if len(self.problem.unlabeled) else self.steps

    def label(self, inference: Inference, features: Float[Tensor, "n d"]) -> PseudoLabels:
        raise NotImplementedError

    def weights(self, pseudo_labels: PseudoLabels, features: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """Of each input's loss; a given label has weight 1."""
        raise NotImplementedError

    def labeling_network(self, learner: nn.Module) -> Network:
        return self.judged(learner)

    def plan_epoch(self, index: int, first_step: int, *, learner: nn.Module, inputs: Tensor) -> EpochPlan:
        if first_step < self.first_stage_steps:
            return self.plan_first_stage(index, first_step)
        inference = Inference(self.labeling_network(learner), self.views.plain, group=current_group())
        features = inference.embed(inputs)
        require_finite(features, what="features", step=first_step)
        pseudo_labels = self.label(inference, features)
        rows = torch.nonzero((self.problem.labels < 0) & ~pseudo_labels.unreachable.cpu()).flatten().numpy()
        tables = {TARGETS: pseudo_labels.labels, WEIGHTS: self.weights(pseudo_labels, features)}
        return EpochPlan(
            index,
            SEMI_SUPERVISED if len(rows) else SUPERVISED,
            first_step,
            min(self.epoch_steps(len(rows)), self.steps - first_step),
            self.shuffled(rows, index),
            tables,
            LabelReport(pseudo_labels, mean_cosine(features)),
        )

    def plan_first_stage(self, index: int, first_step: int) -> EpochPlan:
        """Labeled inputs alone."""
        n_steps = min(self.epoch_steps(len(self.problem.unlabeled)), self.first_stage_steps - first_step)
        tables = {TARGETS: self.problem.labels, WEIGHTS: (self.problem.labels >= 0).float()}
        return EpochPlan(index, SUPERVISED, first_step, n_steps, NOTHING, tables)

    def restarted_rates(self, plan: EpochPlan, first_step: int, n_steps: int) -> dict[str, np.ndarray]:
        """Each stage has a learning rate schedule of its own."""
        start = self.stage_start(plan)
        end = self.first_stage_steps if plan.first_step < self.first_stage_steps else self.steps
        return {LR: learning_rates(replace(self.train, steps=end - start), first_step - start, n_steps)}

    def stage_start(self, plan: EpochPlan) -> int:
        """The first step of the stage to which the epoch belongs."""
        return 0 if plan.first_step < self.first_stage_steps else self.first_stage_steps

    def neighbors(self, features: Float[Tensor, "n d"], *, k: int | None = None) -> Neighbors:
        """The k nearest by cosine, by default as many as the graph has."""
        return search_neighbors(unit_rows(features), replace(self.graph, k=k or self.graph.k), current_group())

    def is_given(self, like: Tensor) -> Tensor:
        return self.problem.labels.to(like.device) >= 0
