"""Adapt settings that papers give for long runs on CIFAR to shorter runs and smaller images.

Only the length of the run and the size of its inputs decide, no label does.
"""

import math
from collections.abc import Sequence
from dataclasses import fields, replace

from laplacenet.experiments.task import Task

AVERAGES = ("ema_decay", "momentum")
STEPS_PER_HORIZON = 50
"""A moving average with decay d looks back over 1/(1 − d) steps. No paper here lets that be more than a fiftieth of its
run: UDA's 0.9999 with 500 000 steps is the longest, Mean Teacher's 0.999 with 150 000 is a third of it."""
CIFAR_INPUTS = 3 * 32 * 32
MIXMATCH_RAMP_STEPS, LONGEST_RAMP = 16_384, 80 / 300
"""MixMatch's unlabeled loss rises over as many steps as its authors', not over their share of 2^20: with a weight of
150 after 200 steps the network gives one answer for all images. The longest ramp of the other papers bounds it."""


def fit_method(task: Task, settings: Sequence[str] = ()) -> Task:
    """The task with its method's settings fitted to it; what `settings` (`method.field=value`) name stays as it is.

    Moving averages look back over a fiftieth of the steps at most: a short run would otherwise be judged by the weights
    of its beginning. VAT's perturbation is as large for each number of an input as it is on CIFAR. MixMatch's weight of
    unlabeled images rises as slowly as in its authors' runs, or over 80/300 of a run that is too short for that.
    """
    method, steps = task.experiment.method, task.experiment.train.steps
    named = {text.partition("=")[0].strip() for text in settings}
    free = {field.name for field in fields(method) if f"method.{field.name}" not in named}
    most = max(0.0, 1 - STEPS_PER_HORIZON / steps)
    changes = {name: min(getattr(method, name), most) for name in AVERAGES if name in free}
    if method.name == "vat" and "radius" in free:
        n_inputs = task.inputs.shape[1:].numel()
        changes["radius"] = getattr(method, "radius") * math.sqrt(n_inputs / CIFAR_INPUTS)  # noqa: B009
    if method.name == "mixmatch" and "ramp_up" in free:
        changes["ramp_up"] = max(getattr(method, "ramp_up"), min(LONGEST_RAMP, MIXMATCH_RAMP_STEPS / steps))  # noqa: B009
    return replace(task, experiment=replace(task.experiment, method=replace(method, **changes)))
