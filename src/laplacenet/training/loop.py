"""The loop: plan an epoch, take its steps, yield it to whoever judges it.

Training never sees a test label: it yields, and the caller evaluates, records and saves.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from laplacenet.graph import PseudoLabels
from laplacenet.models import Inference, Network
from laplacenet.runtime import Monitor, NullMonitor
from laplacenet.training.config import TrainConfig
from laplacenet.training.guards import DivergedError
from laplacenet.training.method import EpochPlan, Method
from laplacenet.training.step import BLOCK_STEPS, Execution, Stepper
from laplacenet.training.views import Views


@dataclass(frozen=True)
class Position:
    """Where a run stands: the epoch under way (None between epochs), the next step, and the momentum by parameter."""

    step: int
    epoch: int
    plan: EpochPlan | None
    momentum: dict[str, Tensor]


@dataclass(frozen=True)
class Epoch:
    """What one epoch did, or a piece of one: a long epoch comes in pieces, so that its receiver can save between them.

    `position` is live: save it before the next epoch is asked for.
    """

    index: int
    phase: str
    step: int
    n_steps: int
    loss: float
    lr: float
    pseudo_labels: PseudoLabels | None
    mean_cosine: float | None
    label_s: float
    elapsed_s: float
    compile_s: float
    is_complete: bool
    inference: Inference
    position: Position


@dataclass(frozen=True)
class Run:
    """What is trained, on what, and how: the pieces the loop needs."""

    method: Method
    network: Network
    inputs: Tensor
    views: Views
    config: TrainConfig
    execution: Execution


def train(run: Run, *, start: Position | None = None, monitor: Monitor | None = None) -> Iterator[Epoch]:
    """Epoch after epoch until exactly `steps` steps are taken or, in mid-epoch if need be, the monitor says stop.

    Where numbers are no longer finite the run ends with `DivergedError` in place of the epoch.
    """
    monitor = monitor or NullMonitor()
    network = prepare(run.network, run.execution)
    inference = Inference(network, run.views.plain)
    stepper = Stepper(run.method, network, run.inputs, views=run.views, config=run.config, execution=run.execution)
    position = start or Position(step=0, epoch=0, plan=None, momentum={})
    restore(stepper, position)
    started_at = time.perf_counter()
    while position.step < run.method.steps and not monitor.should_stop:
        labeling_at = time.perf_counter()
        plan = position.plan or run.method.plan_epoch(
            position.epoch, position.step, inference=inference, inputs=stepper.supply.inputs
        )
        label_s = time.perf_counter() - labeling_at
        step = take_steps(stepper, plan, position.step, Pause(monitor, run.execution.checkpoint_every_s))
        n_steps = step - position.step
        loss = mean_loss(stepper, n_steps, first_step=position.step)
        is_complete = step == plan.end_step
        position = Position(
            step=step,
            epoch=plan.index + is_complete,
            plan=None if is_complete else replace(plan, pseudo_labels=None, mean_cosine=None),  # told once
            momentum=stepper.momentum(),
        )
        yield Epoch(
            index=plan.index,
            phase=plan.phase,
            step=step,
            n_steps=n_steps,
            loss=loss,
            lr=float(stepper.optimizer.param_groups[0]["lr"]),
            pseudo_labels=plan.pseudo_labels,
            mean_cosine=plan.mean_cosine,
            label_s=label_s,
            elapsed_s=time.perf_counter() - started_at,
            compile_s=stepper.compile_s,
            is_complete=is_complete,
            inference=inference,
            position=position,
        )


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


def prepare(network: Network, execution: Execution) -> Network:
    """The network on its device, in training mode; on a GPU channels last, with convolutions chosen by trial."""
    if execution.device.type == "cuda":
        torch.backends.cudnn.benchmark = True
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network.to(execution.device).train()


def restore(stepper: Stepper, position: Position) -> None:
    with torch.no_grad():
        for name, momentum in stepper.momentum().items():
            if name in position.momentum:
                momentum.copy_(position.momentum[name])


def take_steps(stepper: Stepper, plan: EpochPlan, step: int, monitor: Monitor) -> int:
    """The epoch's steps from `step` on; gives the step that comes next.

    Blocks begin at fixed steps of the epoch, so that a resumed epoch draws what the unbroken one drew.
    """
    stepper.set_targets(plan.targets, plan.weights)
    while step < plan.end_step and not monitor.should_stop and not stepper.is_known_to_diverge():
        block_start = step - (step - plan.first_step) % BLOCK_STEPS
        n_steps = min(BLOCK_STEPS, plan.end_step - block_start)
        skipped = step - block_start
        block = stepper.method.draw(plan, block_start, n_steps).map(lambda tensor, skipped=skipped: tensor[skipped:])  # type: ignore[misc]
        for _ in stepper.run(block):
            step += 1
            monitor.advance(1)
            if monitor.should_stop or stepper.is_known_to_diverge():
                break
    return step


def mean_loss(stepper: Stepper, n_steps: int, *, first_step: int) -> float:
    """The one number read from the device in an epoch; what is not finite ends the run.

    A CPU stops at the step; a GPU, which is not waited for within an epoch, says between which steps.
    """
    loss = float(stepper.loss_sum) / max(1, n_steps)
    stepper.loss_sum.zero_()
    if not math.isfinite(loss):
        last_step = first_step + n_steps
        where = f"at step {last_step}" if stepper.is_on_host else f"between steps {first_step} and {last_step}"
        raise DivergedError(f"the loss became {loss} {where} (a lower train.lr may help)")
    return loss
