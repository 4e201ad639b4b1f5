"""The loop: plan an epoch, take its steps, yield it to the caller, who evaluates it.

Training never sees a test label: it yields, and the caller evaluates, records and saves.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from laplacenet.models import Inference, Network
from laplacenet.runtime import Group, Monitor, NullMonitor
from laplacenet.runtime.device import convolution_trials
from laplacenet.runtime.timeline import AFTER_EPOCH, EPOCH, STEPS, mark
from laplacenet.training.guards import DivergedError
from laplacenet.training.method import EpochPlan, Method, leaves_guesses_out
from laplacenet.training.step import BLOCK_STEPS, Execution, Stepper, Sums

Learner = TypeVar("Learner", bound=nn.Module)


@dataclass(frozen=True)
class Position:
    """The position of a run: the next step, its epoch with the plan (None between epochs), the optimizer's state.

    `sums` are those of the epoch's steps so far.
    """

    step: int = 0
    epoch: int = 0
    plan: EpochPlan | None = None
    optimizer: dict[str, Tensor] = field(default_factory=dict)
    sums: Sums = field(default_factory=Sums)


@dataclass(frozen=True)
class Epoch:
    """What one epoch did, or a piece of one: a long epoch comes in pieces, so that its receiver can save between them.

    `n_steps` are those of the piece, but `loss` is the mean since the epoch began, and so is `used_guesses`, the share
    of guesses that counted in the loss, of methods that leave some out: however an epoch was cut, its last piece has
    the same. `report` is what the method says of the epoch's labels, with its first piece. `position` is live: save it
    before the next epoch is asked for.
    """

    index: int
    phase: str
    step: int
    n_steps: int
    loss: float
    used_guesses: float | None
    lr: float
    report: Any
    label_s: float
    elapsed_s: float
    compile_s: float
    is_complete: bool
    inference: Inference
    position: Position


@dataclass(frozen=True)
class Run:
    """What is trained, on what, and where. The learner is `method.learner(network)`: everything that has state."""

    method: Method
    learner: nn.Module
    inputs: Tensor
    execution: Execution

    @classmethod
    def of(cls, method: Method, network: Network, inputs: Tensor, execution: Execution) -> "Run":
        """The method's run from this network on."""
        return cls(method, method.learner(network), inputs, execution)

    @property
    def network(self) -> Network:
        """The one that is judged."""
        return self.method.judged(self.learner)

    @property
    def inference(self) -> Inference:
        return Inference(self.network, self.method.views.plain)


def train(run: Run, *, start: Position | None = None, monitor: Monitor | None = None) -> Iterator[Epoch]:
    """Epoch after epoch until exactly `steps` steps are taken or, in mid-epoch if need be, the monitor says stop.

    Where numbers are no longer finite the run ends with `DivergedError` in place of the epoch.
    """
    with convolution_trials(run.execution.device.type == "cuda"):
        learner = prepare(run.learner, run.execution)
        stepper = Stepper(run.method, learner, run.inputs, execution=run.execution)
        try:
            yield from _epochs(run, stepper, start or Position(), monitor or NullMonitor())
        finally:
            stepper.release()


def _epochs(run: Run, stepper: Stepper, position: Position, monitor: Monitor) -> Iterator[Epoch]:
    learner = stepper.learner
    restore(stepper, position)
    group, inference, started_at = stepper.group, run.inference, time.perf_counter()
    group.broadcast([*learner.parameters(), *learner.buffers(), *stepper.optimizer_state().values()])
    mark("moving to the device")
    while position.step < run.method.steps and not group.agree(monitor.should_stop):
        mark(EPOCH)
        labeling_at = time.perf_counter()
        plan = position.plan or run.method.plan_epoch(
            position.epoch, position.step, learner=learner, inputs=stepper.supply.inputs
        )
        plan = plan_of_first(plan, group)
        label_s = time.perf_counter() - labeling_at
        mark("other labeling")
        stepper.put_sums(position.sums)
        step = take_steps(stepper, plan, position.step, Pause(monitor, run.execution.checkpoint_every_s))
        n_steps, is_complete = step - position.step, step == plan.end_step
        if is_complete:
            stepper.draw_ahead(run.method.expected_after(plan))
        sums, loss, used_guesses = sums_and_means(stepper, position, n_steps)
        mark(STEPS)
        if is_complete:
            label_s += finish_epoch(stepper)
        position = Position(
            step=step,
            epoch=plan.index + is_complete,
            plan=None if is_complete else replace(plan, report=None),
            optimizer=stepper.optimizer_state(),
            sums=Sums() if is_complete else sums,
        )
        yield Epoch(
            index=plan.index,
            phase=plan.phase,
            step=step,
            n_steps=n_steps,
            loss=loss,
            used_guesses=used_guesses if leaves_guesses_out(run.method) and len(plan.order) else None,
            lr=float(stepper.optimizer.param_groups[0]["lr"]),
            report=plan.report,
            label_s=label_s,
            elapsed_s=time.perf_counter() - started_at,
            compile_s=stepper.compile_s,
            is_complete=is_complete,
            inference=inference,
            position=position,
        )


def finish_epoch(stepper: Stepper) -> float:
    """What the method does after an epoch's last step; the seconds that it took."""
    started_at = time.perf_counter()
    with torch.no_grad():
        stepper.method.after_epoch(stepper.learner, stepper.supply.inputs)
    mark(AFTER_EPOCH)
    return time.perf_counter() - started_at


def plan_of_first(plan: EpochPlan, group: Group) -> EpochPlan:
    """Labels that differ in a single row would part the processes: all have the first one's; its report stays there."""
    if not group.reduces:
        return plan
    tables = {name: table.cpu() for name, table in plan.tables.items()}
    told = group.by_first(lambda: replace(plan, tables=tables, report=None))
    return plan if group.is_first else told


class Pause:
    """The monitor of a piece of an epoch: it ends when the run is to stop or when it is time to save."""

    def __init__(self, monitor: Monitor, after_s: float) -> None:
        self.monitor = monitor
        self.ends_at = time.perf_counter() + after_s
        self.is_over = False

    @property
    def should_stop(self) -> bool:
        return self.is_over or self.monitor.should_stop

    def advance(self, n: int) -> None:
        """Looks at the clock after a step and not before: a piece is never empty for want of time."""
        self.monitor.advance(n)
        self.is_over = time.perf_counter() >= self.ends_at


def prepare(learner: Learner, execution: Execution) -> Learner:
    """The learner on its device, in training mode; on a GPU channels last."""
    if execution.device.type == "cuda":
        learner = learner.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return learner.to(execution.device).train()


def restore(stepper: Stepper, position: Position) -> None:
    with torch.no_grad():
        for name, tensor in stepper.optimizer_state().items():
            if name in position.optimizer:
                tensor.copy_(position.optimizer[name])


def take_steps(stepper: Stepper, plan: EpochPlan, step: int, monitor: Monitor) -> int:
    """The epoch's steps from `step` on; gives the step that comes next.

    Blocks begin at fixed steps of the epoch, so that a resumed epoch draws what the unbroken one drew. Several
    processes stop at the same step: they ask one another between blocks, or on a CPU after each step.
    """
    group = stepper.group

    def is_over() -> bool:
        return group.agree(monitor.should_stop or stepper.is_known_to_diverge())

    stepper.begin(plan)
    while step < plan.end_step and not is_over():
        block_start = step - (step - plan.first_step) % BLOCK_STEPS
        n_steps = min(BLOCK_STEPS, plan.end_step - block_start)
        block = stepper.draw(plan, block_start, n_steps).steps(step - block_start)
        for _ in stepper.run(block):
            step += 1
            monitor.advance(1)
            if (stepper.is_on_host or not group.reduces) and is_over():
                break
    return step


def sums_and_means(stepper: Stepper, start: Position, n_steps: int) -> tuple[Sums, float, float]:
    """The sums `n_steps` after `start`, the mean loss, and the share of guesses that counted in it.

    A loss that is not finite ends the run. A CPU stops at the step; a GPU, which is not waited for within an epoch,
    says between which steps.
    """
    stepper.wait()
    sums, loss, used_guesses = stepper.read_sums(start.sums.n_steps + n_steps)
    if not math.isfinite(loss):
        last_step = start.step + n_steps
        where = f"at step {last_step}" if stepper.is_on_host else f"between steps {start.step} and {last_step}"
        raise DivergedError(f"the loss became {loss} {where} (a lower train.lr may help)")
    return sums, loss, used_guesses
