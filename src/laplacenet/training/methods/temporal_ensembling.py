"""Temporal ensembling: outputs should agree with the average of those of earlier epochs.

The Π-model compares two outputs of the same moment, and both are noisy. Here the output on an image is compared with an
average of the outputs that the same image got in earlier epochs. The target is steadier, and one pass a step is enough.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from laplacenet.models import Network
from laplacenet.runtime.device import at_least_float32
from laplacenet.training.method import Batch, EpochPlan
from laplacenet.training.methods.consistency import (
    CONSISTENCY,
    ConsistencyConfig,
    ConsistencyTraining,
    supervised_loss,
)

ENSEMBLED, HAS_TARGET = "ensembled", "has_target"


@dataclass(frozen=True)
class TemporalEnsemblingConfig(ConsistencyConfig):
    """`output_decay` is the paper's α. `consistency` is 30 on CIFAR-10 and 100 on CIFAR-100 in the paper."""

    name: str = "temporal-ensembling"
    consistency: float = 30.0
    ramp_up: float = 80 / 300
    output_decay: float = 0.6

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0 <= self.output_decay < 1, "output_decay", "lie in [0, 1)")


class OutputEnsemble(nn.Module):
    """Z of every input, the outputs of the epoch under way, and in how many epochs each input was seen."""

    Z: Tensor
    latest: Tensor
    is_seen: Tensor
    n_epochs: Tensor

    def __init__(self, n: int, n_classes: int) -> None:
        super().__init__()
        self.register_buffer("Z", torch.zeros(n, n_classes))
        self.register_buffer("latest", torch.zeros(n, n_classes))
        self.register_buffer("is_seen", torch.zeros(n))
        self.register_buffer("n_epochs", torch.zeros(n))

    @torch.no_grad()
    def remember(self, rows: Int64[Tensor, " b"], outputs: Float[Tensor, "b C"]) -> None:
        """The last output of an epoch counts, should a row come twice."""
        self.latest.index_copy_(0, rows, outputs)
        self.is_seen.index_fill_(0, rows, 1.0)

    @torch.no_grad()
    def end_epoch(self, decay: float) -> None:
        """Z ← α·Z + (1 − α)·z for every input that the epoch has shown."""
        self.Z.copy_(torch.where(self.is_seen[:, None] > 0, decay * self.Z + (1 - decay) * self.latest, self.Z))
        self.n_epochs += self.is_seen
        self.is_seen.zero_()

    def tables(self, decay: float) -> dict[str, Tensor]:
        """z̃ = Z/(1 − αᵗ), and a 0 for each input that has none yet."""
        has_target = (self.n_epochs > 0).float()
        divisor = torch.where(self.n_epochs > 0, 1 - decay**self.n_epochs, 1.0)
        return {ENSEMBLED: self.Z / divisor[:, None], HAS_TARGET: has_target}


class NetworkAndEnsemble(nn.Module):
    def __init__(self, network: Network, ensemble: OutputEnsemble) -> None:
        super().__init__()
        self.network, self.ensemble = network, ensemble


@dataclass(frozen=True, eq=False)
class TemporalEnsembling(ConsistencyTraining):
    """CE(z_i, y_i) on labeled images + w(t)·1/(C·b) Σ_i ‖z_i − z̃_i‖², z̃ = Z/(1 − αᵗ), Z ← α·Z + (1 − α)·z.

    One view of each image. Z is updated once an epoch, and the agreement is left out until an image has a target z̃.

    Kept between steps: for each image the average Z of its outputs, its latest output, and the number of epochs in
    which it was drawn.

    Our reading: the exponent t counts the epochs in which the image was drawn, since an epoch leaves out the images
    that do not fill its last batch.
    """

    config: TemporalEnsemblingConfig

    summary: ClassVar[str] = "agreement with the average of an image's outputs in earlier epochs"
    source: ClassVar[str] = "Laine and Aila, Temporal Ensembling for Semi-Supervised Learning, 2017"

    @property
    def n_views(self) -> int:
        return 1

    def learner(self, network: Network) -> nn.Module:
        return NetworkAndEnsemble(network, OutputEnsemble(len(self.problem.labels), self.n_classes))

    def judged(self, learner: nn.Module) -> Network:
        assert isinstance(learner, NetworkAndEnsemble)
        return learner.network

    def plan_epoch(self, index: int, first_step: int, *, learner: nn.Module, inputs: Tensor) -> EpochPlan:
        """The epoch before this one ends here: its outputs join Z."""
        assert isinstance(learner, NetworkAndEnsemble)
        plan = super().plan_epoch(index, first_step, learner=learner, inputs=inputs)
        learner.ensemble.end_epoch(self.config.output_decay)
        return replace(plan, tables={**plan.tables, **learner.ensemble.tables(self.config.output_decay)})

    def loss(self, learner: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        assert isinstance(learner, NetworkAndEnsemble)
        logits = at_least_float32(learner.network(self.noisy_views(batch)))
        outputs = logits.softmax(dim=1)
        learner.ensemble.remember(batch.rows, outputs.detach())
        return supervised_loss(logits, batch) + batch.draws[CONSISTENCY] * ensemble_agreement(outputs, batch)


def ensemble_agreement(outputs: Float[Tensor, "b C"], batch: Batch) -> Float[Tensor, ""]:
    distances = (outputs - batch.tables[ENSEMBLED]).square().mean(dim=1)
    return (batch.tables[HAS_TARGET] * distances).mean()
