"""How long a method's steps and label passes take here, and how many steps therefore fit a given time."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from laplacenet.experiments.task import Task
from laplacenet.runtime.device import convolution_trials
from laplacenet.training import Execution, Run
from laplacenet.training.loop import finish_epoch, prepare
from laplacenet.training.method import Block
from laplacenet.training.methods import BaseMethod
from laplacenet.training.methods.epoch_labels import EpochLabels
from laplacenet.training.methods.laplacenet import PseudoLabeling
from laplacenet.training.step import BLOCK_STEPS, Stepper

WARM_UP_STEPS = 3
MEASURED_S = 1.0  # as long as steps are timed, if an epoch has as many
MOST_BLOCKS = 15  # about an epoch of CIFAR


@dataclass(frozen=True)
class PhaseTimes:
    """Seconds of an epoch's label pass, of a step, and of capturing it; and how many steps an epoch has.

    `small_step_s` and `small_capture_s` are those of a step that scales its pictures down.
    """

    label_s: float
    step_s: float
    capture_s: float
    epoch_steps: int
    small_step_s: float = 0.0
    small_capture_s: float = 0.0

    def seconds(self, n_steps: int, *, n_small: int = 0) -> float:
        """Of this many steps, some of them with small pictures, in as many epochs as they need."""
        n_whole = n_steps - n_small
        whole_s = n_whole * self.step_s + (n_whole > 0) * self.capture_s
        small_s = n_small * self.small_step_s + (n_small > 0) * self.small_capture_s
        return whole_s + small_s + -(-n_steps // self.epoch_steps) * self.label_s


@dataclass(frozen=True)
class StepTimes:
    """A method's phases: `first` for this share of all steps and at most `most_first_steps`, `main` from then on.

    A method of one phase has no `first`. The first `small_share` of all steps, in whatever phase, have small pictures.
    """

    main: PhaseTimes
    first: PhaseTimes | None = None
    first_share: float = 0.0
    most_first_steps: int = 0
    small_share: float = 0.0

    def seconds(self, n_steps: int) -> float:
        n_first = 0 if self.first is None else min(self.most_first_steps, int(self.first_share * n_steps))
        n_small = min(n_steps, math.ceil(self.small_share * n_steps))
        main_s = self.main.seconds(n_steps - n_first, n_small=max(0, n_small - n_first))
        return main_s + (0.0 if self.first is None else self.first.seconds(n_first, n_small=min(n_small, n_first)))

    def steps_within(self, limit_s: float) -> int:
        """The largest number of steps that fits into the time, by bisection; at least one."""
        low, high = 1, 2
        while self.seconds(high) <= limit_s and high < 10**9:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.seconds(middle) <= limit_s else (low, middle)
        return low


def measure_step_times(task: Task, execution: Execution) -> StepTimes:
    """Time a fresh network's first steps in each phase; nothing of it is kept.

    The task must have more steps than a first phase takes, else its main one is not seen. A GPU chooses its
    convolutions once in a process, at the first capture; what is measured is a later one, as those of the runs will be.
    """
    share = task.experiment.train.small_share
    times = _measured(_with_small_share(task, 0.0), execution)
    if share == 0:
        return times
    small = _measured(_with_small_share(task, 1.0), execution)
    first = None if times.first is None or small.first is None else _joined(times.first, small.first)
    return replace(times, main=_joined(times.main, small.main), first=first, small_share=share)


def _with_small_share(task: Task, share: float) -> Task:
    train = replace(task.experiment.train, small_share=share)
    return replace(task, experiment=replace(task.experiment, train=train))


def _joined(whole: PhaseTimes, small: PhaseTimes) -> PhaseTimes:
    return replace(whole, small_step_s=small.step_s, small_capture_s=small.capture_s)


def _measured(task: Task, execution: Execution) -> StepTimes:
    """Where all pictures are scaled alike."""
    method = task.method
    run = Run.of(method, task.network(), task.inputs, execution)
    n_first, share, most = first_phase(method)
    with convolution_trials(execution.device.type == "cuda"):
        learner = prepare(run.learner, execution)
        steppers = [Stepper(method, learner, run.inputs, execution=execution) for _ in range(1 + execution.captures)]
        try:
            if not 0 < n_first < method.steps:
                return StepTimes(main=_times(steppers, method, 0))
            first = _times(steppers, method, 0)
            return StepTimes(_times(steppers, method, n_first), first, share, most)
        finally:
            for stepper in steppers:
                stepper.release()


def first_phase(method: BaseMethod) -> tuple[int, float, int]:
    """The steps of the first phase; the share of all that they are at most; and how many they are at most."""
    if isinstance(method, PseudoLabeling):
        return method.supervised_steps, 0.2, method.wanted_supervised_steps
    if isinstance(method, EpochLabels):
        return method.first_stage_steps, method.config.first_stage, method.first_stage_steps * 10**6
    return 0, 0.0, 0


def _times(steppers: Sequence[Stepper], method: BaseMethod, first_step: int) -> PhaseTimes:
    """Of the epoch that begins at this step, by the last of the steppers; the others warm up.

    The label pass is made twice: the first one warms up.
    """
    stepper, label_s = steppers[-1], 0.0
    for _ in range(2):
        started_at = time.perf_counter()
        finish_epoch(stepper)
        plan = method.plan_epoch(0, first_step, learner=stepper.learner, inputs=stepper.supply.inputs)
        _wait(stepper.device)
        label_s = time.perf_counter() - started_at
    compiled_s, n_steps = stepper.compile_s, min(plan.n_steps, BLOCK_STEPS)
    for one in steppers:
        one.begin(plan)
        for _ in one.run(method.draw(plan, first_step, min(n_steps, WARM_UP_STEPS))):
            pass
    _wait(stepper.device)
    is_ahead = not stepper.is_on_host and method.expected_after(plan) is not None
    step_s = _step_s(stepper, lambda: method.draw(plan, first_step, n_steps), is_ahead=is_ahead)
    return PhaseTimes(label_s, step_s, stepper.compile_s - compiled_s, max(1, plan.n_steps))


def _step_s(stepper: Stepper, draw: Callable[[], Block], *, is_ahead: bool) -> float:
    """The mean time of a step and of its share in drawing a block; a CPU need not finish the block.

    `is_ahead` says that runs draw an epoch's first block while a GPU is still busy with the epoch before.
    """
    started_at, n_done, n_blocks, unused_s = time.perf_counter(), 0, 0, 0.0
    while n_blocks == 0 or (time.perf_counter() - started_at < MEASURED_S and n_blocks < MOST_BLOCKS):
        drawn_at, n_before = time.perf_counter(), n_done
        block = draw()
        draw_s = time.perf_counter() - drawn_at
        for _ in stepper.run(block):
            n_done += 1
            if stepper.is_on_host and time.perf_counter() - started_at >= MEASURED_S:
                break
        unused_s += draw_s * (1 if is_ahead and n_blocks == 0 else 1 - (n_done - n_before) / len(block))
        n_blocks += 1
    _wait(stepper.device)
    return (time.perf_counter() - started_at - unused_s) / n_done


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
