"""What a method tells the engine: how an epoch is labeled, what is drawn for its steps, the loss, what follows a step.

The loop, the step, the checkpoint and the record know nothing else of a method. `docs/add-a-method.md` writes one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from laplacenet.augment import ViewParameters
from laplacenet.models import Network
from laplacenet.training.views import Views

LR = "lr"
"""The draw that every block has: the learning rate of each step."""


@dataclass(frozen=True)
class EpochPlan:
    """One epoch: its number, its steps, the unlabeled rows in the order in which they are drawn, and its tables.

    `tables` have one entry for each of the n inputs (targets, weights, soft targets …); a step sees the entries of its
    own rows. `report` is whatever the method tells the receiver of the epoch, once; it is not saved.
    """

    index: int
    phase: str
    first_step: int
    n_steps: int
    order: Int64[Tensor, " n_drawable"]
    tables: Mapping[str, Tensor] = field(default_factory=dict)
    report: Any = None

    @property
    def end_step(self) -> int:
        return self.first_step + self.n_steps

    def draws_like(self, other: "EpochPlan") -> bool:
        """Whether the same is drawn for both: the same steps of the same epoch from the same rows in the same order."""
        drawn = (self.index, self.phase, self.first_step, self.n_steps)
        is_same = drawn == (other.index, other.phase, other.first_step, other.n_steps)
        return is_same and torch.equal(self.order, other.order)


@dataclass(frozen=True)
class Block:
    """Everything random in some consecutive steps, drawn on the host: one row a step.

    A batch has b rows, the `n_labeled` labeled ones first. View number v of a step shows the batch's row `sources[v]`;
    `views` has the parameters of each view, or is None where the inputs have no augmentation; they are scaled down by
    `scale`. `draws` are numbers or vectors for each step by name: the learning rate, MixUp partners and weights, ramps,
    seeds of noise.
    """

    rows: Int64[Tensor, "steps b"]
    n_labeled: int
    sources: Int64[Tensor, " v"]
    views: ViewParameters | None
    draws: Mapping[str, Tensor]
    scale: float = 1.0

    def __len__(self) -> int:
        return len(self.rows)

    def tensors(self) -> list[Tensor]:
        """Those with one row a step."""
        views = [] if self.views is None else [self.views.integers, self.views.factors]
        return [self.rows, *views, *self.draws.values()]

    def map(self, change: Callable[[Tensor], Tensor]) -> "Block":
        """The same block with every tensor of one row a step changed alike: moved, or cut along the steps."""
        views = self.views and ViewParameters(change(self.views.integers), change(self.views.factors))
        draws = {name: change(tensor) for name, tensor in self.draws.items()}
        return replace(self, rows=change(self.rows), views=views, draws=draws)

    def steps(self, first: int, end: int | None = None) -> "Block":
        return self.map(lambda tensor: tensor[first:end])

    def to(self, device: torch.device) -> "Block":
        return replace(self.map(lambda tensor: tensor.to(device)), sources=self.sources.to(device))

    def at(self, i: Int64[Tensor, "1"]) -> tuple[Int64[Tensor, " b"], ViewParameters | None, dict[str, Tensor]]:
        """The rows, views and draws of step i; i is a tensor, so that a replayed graph reads it anew."""

        def pick(tensor: Tensor) -> Tensor:
            return tensor.index_select(0, i)[0]

        views = self.views and ViewParameters(pick(self.views.integers), pick(self.views.factors))
        return pick(self.rows), views, {name: pick(tensor) for name, tensor in self.draws.items()}

    @property
    def shape(self) -> tuple[Any, ...]:
        """What a captured step depends on: everything but the values and the number of steps."""
        draws = tuple((name, tensor.dtype, tensor.shape[1:]) for name, tensor in self.draws.items())
        return (self.rows.shape[1], self.n_labeled, tuple(self.sources.tolist()), self.views is None, draws, self.scale)


@dataclass(frozen=True)
class Batch:
    """One step: its views, and for its rows what the tables and the draws say.

    `used_guesses` is where the shares of guesses that count are added up, step after step.
    """

    views: Float[Tensor, "v ..."]
    rows: Int64[Tensor, " b"]
    n_labeled: int
    tables: Mapping[str, Tensor]
    draws: Mapping[str, Tensor]
    used_guesses: Float[Tensor, ""] | None = None

    def note_used(self, counts: Tensor) -> None:
        """Add the share of guesses that count in the loss, or the mean of their weights."""
        if self.used_guesses is not None:
            self.used_guesses.add_(counts.detach().float().mean())


@runtime_checkable
class Method(Protocol):
    """`methods/base.py` has what most methods share."""

    @property
    def steps(self) -> int: ...

    @property
    def views(self) -> Views: ...

    def learner(self, network: Network) -> nn.Module:
        """Everything with state: the network, or a student and its teacher, or buffers beside it. Saved as a whole."""
        ...

    def judged(self, learner: nn.Module) -> Network:
        """The part of the learner that is tested, embedded and saved for use."""
        ...

    def optimizer(self, learner: nn.Module) -> torch.optim.Optimizer:
        """As made by `optimizers.py`; a parameter group's `lr_scale` multiplies the step's learning rate."""
        ...

    def plan_epoch(self, index: int, first_step: int, *, learner: nn.Module, inputs: Tensor) -> EpochPlan:
        """Label the inputs for the epoch that begins at this step."""
        ...

    def draw(self, plan: EpochPlan, first_step: int, n_steps: int) -> Block:
        """Everything random in these steps of the epoch: a pure function of the seed, the steps and the order."""
        ...

    def expected_after(self, plan: EpochPlan) -> EpochPlan | None:
        """The next epoch as far as it can be foreseen, to draw its first block early; None where it cannot be.

        Only what is drawn need be right, and only mostly: a block that does not fit is drawn again.
        """
        ...

    def loss(self, learner: nn.Module, batch: Batch) -> Float[Tensor, ""]: ...

    def after_step(self, learner: nn.Module, batch: Batch) -> None:
        """What follows the optimizer's step, without gradients: moving averages, ensembled targets."""
        ...

    def after_epoch(self, learner: nn.Module, inputs: Tensor) -> None:
        """What follows an epoch's last step, without gradients, before the network is judged and saved."""
        ...


@runtime_checkable
class DividesRows(Protocol):
    """What a method has beside that if processes can divide its batches and not only its passes.

    Then each makes the views of its own rows only, which counts where batches or pictures are large.
    """

    def share(self, block: Block, own: range) -> Block | None:
        """What a process needs of the block, if the rows `own` of every batch are its own; None divides passes instead.

        Its loss is then the mean over its own rows, and their weighted mean over the processes is the batch's loss.
        """
        ...


def leaves_guesses_out(method: Method) -> bool:
    """Whether only some guesses count in its loss. Its class says so itself: one derived from it has another loss."""
    return bool(vars(type(method)).get("leaves_guesses_out", False))


def row_divider(method: Method) -> DividesRows | None:
    """The method, if its class says `divides_rows`: one that is derived from it may have another loss."""
    return method if vars(type(method)).get("divides_rows", False) and isinstance(method, DividesRows) else None
