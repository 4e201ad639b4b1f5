"""What a semi-supervised method tells the loop: who is labeled how this epoch, what is drawn, and the loss.

The loop, the step and the checkpoint know nothing else of a method, so that others can share them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor

from laplacenet.augment import ViewParameters
from laplacenet.graph import PseudoLabels
from laplacenet.models import Inference, Network


@dataclass(frozen=True)
class EpochPlan:
    """One epoch: its number, its steps, the label each image has in it, and which images may be drawn unlabeled.

    `weights` are those of the images in the loss: in every epoch of a run or, where all count alike, in none.
    `mean_cosine` is that between the features that were labeled; near 1 they have collapsed.
    """

    index: int
    phase: str
    first_step: int
    n_steps: int
    targets: Int64[Tensor, " n"]
    is_candidate: Bool[Tensor, " n"]
    pseudo_labels: PseudoLabels | None = None
    weights: Float[Tensor, " n"] | None = None
    mean_cosine: float | None = None

    @property
    def end_step(self) -> int:
        return self.first_step + self.n_steps


@dataclass(frozen=True)
class Block:
    """Everything random in a run of consecutive steps, drawn on the host: one row a step.

    `views` are the parameters of n_views · b views, view after view; None where the inputs have no augmentation.
    """

    rows: Int64[Tensor, "steps b"]
    views: ViewParameters | None
    partners: Int64[Tensor, "steps b"]
    mix_weights: Float32[Tensor, " steps"]
    learning_rates: Float32[Tensor, " steps"]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def batch_size(self) -> int:
        return self.rows.shape[1]

    def tensors(self) -> list[Tensor]:
        views = [] if self.views is None else [self.views.integers, self.views.factors]
        return [self.rows, self.partners, self.mix_weights, self.learning_rates, *views]

    def map(self, change: Callable[[Tensor], Tensor]) -> "Block":
        """The same block with every tensor changed alike: moved, or cut along the steps."""
        views = self.views and ViewParameters(change(self.views.integers), change(self.views.factors))
        rows, partners = change(self.rows), change(self.partners)
        return Block(rows, views, partners, change(self.mix_weights), change(self.learning_rates))

    def at(self, i: Int64[Tensor, "1"]) -> "StepDraws":
        """Step i of the block; i is a tensor, so that a replayed graph reads it anew."""
        step = [tensor.index_select(0, i)[0] for tensor in self.tensors()]
        rows, partners, mix_weight, learning_rate, *views = step
        return StepDraws(rows, ViewParameters(*views) if views else None, partners, mix_weight, learning_rate)


@dataclass(frozen=True)
class StepDraws:
    """One step's row of a block."""

    rows: Int64[Tensor, " b"]
    views: ViewParameters | None
    partners: Int64[Tensor, " b"]
    mix_weight: Float32[Tensor, ""]
    learning_rate: Float32[Tensor, ""]

    @property
    def n_views(self) -> int:
        """An input without augmentation has one view."""
        return 1 if self.views is None else len(self.views) // len(self.rows)


@dataclass(frozen=True)
class Batch:
    """One step's views, what they are to be, whom they mix with, and (where not alike) how much they count."""

    views: Float[Tensor, "n_views_b ..."]
    targets: Int64[Tensor, " b"]
    partners: Int64[Tensor, " b"]
    mix_weight: Float[Tensor, ""]
    weights: Float[Tensor, " b"] | None = None


@runtime_checkable
class Method(Protocol):
    """LaplaceNet is one; pseudo-labels with MixUp, Mean Teacher and FixMatch would be others."""

    @property
    def steps(self) -> int: ...

    def plan_epoch(self, index: int, first_step: int, *, inference: Inference, inputs: Tensor) -> EpochPlan:
        """Label the inputs for the epoch that begins at this step."""
        ...

    def draw(self, plan: EpochPlan, first_step: int, n_steps: int) -> Block:
        """Everything random in these steps of the epoch: a pure function of the seed and the steps."""
        ...

    def loss(self, network: Network, batch: Batch) -> Float[Tensor, ""]: ...
