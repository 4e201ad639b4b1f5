"""LaplaceNet with pseudo-labels from two networks: the one that is trained, and a frozen pretrained one beside it."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from laplacenet.graph import PseudoLabels
from laplacenet.graph.guided import GuidedConfig, guided_labels
from laplacenet.graph.pseudo_labels import unit_rows
from laplacenet.models import Inference
from laplacenet.training import LaplaceNet

NOTHING = torch.empty(0, 0)


@dataclass(frozen=True, eq=False)
class JoinedLaplaceNet(LaplaceNet):
    """Before each epoch classifier and graph label every picture by both networks' vectors, as for frozen ones alone.

    `frozen` are rows of length 1. The graph over the trained network's vectors alone begins with worse labels than the
    frozen features have already.
    """

    divides_rows: ClassVar[bool] = True

    frozen: Float[Tensor, "n d"] = field(default_factory=lambda: NOTHING)
    guided: GuidedConfig = field(default_factory=lambda: GuidedConfig(n_folds=0))

    def label(self, inference: Inference, features: Float[Tensor, "n d"]) -> PseudoLabels:
        joined = torch.cat([self.frozen.to(features), unit_rows(features)], dim=1)
        found = guided_labels(joined, self.problem.labels, n_classes=self.n_classes, config=self.guided)
        return PseudoLabels(
            labels=found.labels,
            scores=found.scores,
            unreachable=torch.zeros(len(joined), dtype=torch.bool, device=joined.device),
            n_iterations=found.n_iterations,
            is_converged=found.is_converged,
            recall=None,
        )
