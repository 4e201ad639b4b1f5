"""What most methods share: labeled rows from endless reshuffles, unlabeled rows once an epoch, one optimizer.

A method overrides what it does differently. The defaults make the network itself the learner and take the
optimizer's step along the schedule. Labeled images are never drawn as unlabeled ones too, as they are in some authors'
code.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor, nn

from laplacenet.augment import ViewParameters
from laplacenet.graph import GraphConfig
from laplacenet.models import Inference, Network
from laplacenet.runtime import InputError, current_group, stream
from laplacenet.runtime.wording import counted
from laplacenet.training.batches import composite_rows, epoch_rows, reshuffled_rows
from laplacenet.training.config import TrainConfig
from laplacenet.training.method import LR, Batch, Block, EpochPlan
from laplacenet.training.optimizers import make_optimizer
from laplacenet.training.schedule import learning_rates
from laplacenet.training.views import Views

SUPERVISED, SEMI_SUPERVISED = "supervised", "semi-supervised"
TARGETS = "targets"
NOTHING = torch.empty(0, dtype=torch.int64)
"""The order of an epoch that draws no unlabeled row."""


@dataclass(frozen=True)
class MethodConfig:
    """A method's own settings; `name` is the method's, and a subclass for each method fixes it."""

    name: str = ""

    unit_length: ClassVar[bool] = False
    """Whether the 13-CNN's embedding is ℓ2-normalized under this method, as in LaplaceNet's paper and Iscen et al.'s.
    With that layer weight decay bounds the probabilities, and a threshold of 0.95 may be out of reach."""
    threshold_is_fixed: ClassVar[bool] = False
    """Whether only guesses of at least the probability `threshold` count, rather than one relative to the network's."""

    def require(self, is_right: bool, field_name: str, accepted: str) -> None:
        if not is_right:
            raise InputError(f"method.{field_name} = {getattr(self, field_name)}; it must {accepted}")


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be learned. `labels` are the given ones, −1 where hidden; nothing else of labels reaches training."""

    labels: Int64[Tensor, " n"]
    n_classes: int
    views: Views
    seed: int = 0

    def __post_init__(self) -> None:
        if not bool((self.labels >= 0).any()):
            raise InputError("no labels: every label is -1; give at least one labeled input")

    @cached_property
    def labeled(self) -> Int64[np.ndarray, " n_labeled"]:
        return torch.nonzero(self.labels >= 0).flatten().numpy()

    @cached_property
    def unlabeled(self) -> Int64[np.ndarray, " n_unlabeled"]:
        return torch.nonzero(self.labels < 0).flatten().numpy()


@dataclass(frozen=True, eq=False)
class BaseMethod:
    """A method on a problem. Subclasses write `loss`, `draw_views` and whatever else differs."""

    problem: Problem
    train: TrainConfig
    config: Any
    graph: GraphConfig = field(default_factory=GraphConfig)

    divides_rows: ClassVar[bool] = False
    """Whether processes divide its batches (`share`). It is not inherited: every class that can says so itself."""
    leaves_guesses_out: ClassVar[bool] = False
    """Whether only some guesses count in its loss, such as confident ones; it then tells `Batch.note_used` which. Like
    `divides_rows` it is not inherited."""
    summary: ClassVar[str] = ""
    source: ClassVar[str] = ""

    @property
    def steps(self) -> int:
        return self.train.steps

    @property
    def views(self) -> Views:
        return self.problem.views

    @property
    def n_classes(self) -> int:
        return self.problem.n_classes

    def notes(self) -> list[str]:
        """What a person should know before the first step."""
        return []

    def learner(self, network: Network) -> nn.Module:
        return network

    def judged(self, learner: nn.Module) -> Network:
        assert isinstance(learner, Network)
        return learner

    def optimizer(self, learner: nn.Module) -> torch.optim.Optimizer:
        return make_optimizer(learner, self.train)

    def inference(self, learner: nn.Module) -> Inference:
        """Of all inputs for the next epoch; several processes embed a part each."""
        return Inference(self.judged(learner), self.views.plain, group=current_group())

    def plan_epoch(self, index: int, first_step: int, *, learner: nn.Module, inputs: Tensor) -> EpochPlan:
        """One pass over the unlabeled rows, with the given labels as the only targets."""
        phase = SEMI_SUPERVISED if len(self.problem.unlabeled) else SUPERVISED
        n_steps = min(self.epoch_steps(len(self.problem.unlabeled)), self.steps - first_step)
        tables = {TARGETS: self.problem.labels}
        return EpochPlan(index, phase, first_step, n_steps, self.shuffled(self.problem.unlabeled, index), tables)

    def expected_after(self, plan: EpochPlan) -> EpochPlan | None:
        """The same rows in the next epoch's order: labels reach what they have reached, mostly everything."""
        first_step = plan.end_step
        if plan.phase != SEMI_SUPERVISED or first_step >= self.steps:
            return None
        rows = np.unique(plan.order.numpy())
        order = self.shuffled(rows, plan.index + 1)
        n_steps = min(self.epoch_steps(len(rows)), self.steps - first_step)
        return EpochPlan(plan.index + 1, plan.phase, first_step, n_steps, order)

    def draw(self, plan: EpochPlan, first_step: int, n_steps: int) -> Block:
        labeled, unlabeled = self.draw_rows(plan, first_step, n_steps)
        n_labeled, n_unlabeled = labeled.shape[1], unlabeled.shape[1]
        rng = stream(self.problem.seed, "views", first_step)
        sources, views = self.draw_views(n_steps, n_labeled, n_unlabeled, rng)
        numbers = self.draw_numbers(plan, first_step, n_steps, n_labeled + n_unlabeled)
        require_rows(numbers, n_steps)
        draws = {LR: learning_rates(self.train, first_step, n_steps), **numbers}
        return Block(
            rows=torch.from_numpy(composite_rows(labeled, unlabeled)),
            n_labeled=n_labeled,
            sources=sources,
            views=views,
            draws={name: torch.from_numpy(numbers) for name, numbers in draws.items()},
            scale=self.train.view_scale(first_step),
        )

    def draw_views(
        self, n_steps: int, n_labeled: int, n_unlabeled: int, rng: np.random.Generator
    ) -> tuple[Int64[Tensor, " v"], ViewParameters | None]:
        """Which views a batch has; `views_of_all` and `groups_of_views` make them."""
        raise NotImplementedError

    def draw_numbers(
        self, plan: EpochPlan, first_step: int, n_steps: int, batch_size: int
    ) -> dict[str, Float32[np.ndarray, "steps ..."] | Int64[np.ndarray, "steps ..."]]:
        """Whatever else the loss needs for each step: ramps, MixUp partners and weights, seeds."""
        return {}

    def loss(self, learner: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        raise NotImplementedError

    def after_step(self, learner: nn.Module, batch: Batch) -> None:
        return None

    def after_epoch(self, learner: nn.Module, inputs: Tensor) -> None:
        return None

    def epoch_steps(self, n_unlabeled: int) -> int:
        """⌊n_u/b_u⌋, but never an epoch of no steps.

        Where nothing can be drawn it is as long as an epoch over all that is unlabeled, or else labeled: a label pass
        or a test after every single step would take far longer than the steps.
        """
        n = n_unlabeled or len(self.problem.unlabeled) or len(self.problem.labeled)
        return max(1, n // self.train.unlabeled_batch_size)

    def shuffled(self, rows: Int64[np.ndarray, " n"], epoch: int) -> Int64[Tensor, " n"]:
        return torch.from_numpy(epoch_rows(rows, seed=self.problem.seed, epoch=epoch))

    def draw_rows(
        self, plan: EpochPlan, first_step: int, n_steps: int
    ) -> tuple[Int64[np.ndarray, "steps b_l"], Int64[np.ndarray, "steps b_u"]]:
        if plan.phase == SUPERVISED:
            labeled = self._labeled_rows(SUPERVISED, self.supervised_batch_size, first_step, n_steps)
            return labeled, np.empty((n_steps, 0), dtype=np.int64)
        labeled = self._labeled_rows("labeled", self.train.labeled_batch_size, first_step, n_steps)
        size = min(self.train.unlabeled_batch_size, len(plan.order))
        start = (first_step - plan.first_step) * size
        return labeled, plan.order[start : start + n_steps * size].numpy().reshape(n_steps, size)

    @property
    def supervised_batch_size(self) -> int:
        """Batch normalization needs two values: a label that is alone comes twice."""
        return max(2, min(self.train.batch_size, len(self.problem.labeled)))

    def _labeled_rows(self, name: str, size: int, first_step: int, n_steps: int) -> Int64[np.ndarray, "steps b_l"]:
        rows = reshuffled_rows(
            self.problem.labeled, first_step * size, n_steps * size, seed=self.problem.seed, name=name
        )
        return rows.reshape(n_steps, size)


def require_rows(numbers: Any, n_steps: int) -> None:
    """Refuse what `draw_numbers` of one's own method may give by mistake; torch would not name the array."""
    if not isinstance(numbers, Mapping):
        raise InputError(f"draw_numbers returned {type(numbers).__name__}; it must return a dict of arrays")
    for name, rows in numbers.items():
        if not isinstance(rows, np.ndarray) or rows.ndim == 0:
            raise InputError(f"draw_numbers: {name} must be an array with one row per step, not {type(rows).__name__}")
        if len(rows) != n_steps:
            raise InputError(f"draw_numbers: {name} has {counted(len(rows), 'row')}, not {n_steps}, one for each step")
