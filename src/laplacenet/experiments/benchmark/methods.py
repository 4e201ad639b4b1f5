"""Every method's step beside its own bare passes, and FixMatch beside a plain PyTorch loop."""

import os
import statistics
from itertools import islice

import torch

from laplacenet.experiments.benchmark.clock import intervals_ms, peak_bytes, rounds, time_work
from laplacenet.experiments.benchmark.method_steps import SIDE, BarePasses, MethodCase, MethodSteps, Pass
from laplacenet.experiments.benchmark.plain_fixmatch import plain_steps
from laplacenet.experiments.benchmark.rows import LoopRow, MethodRow
from laplacenet.experiments.benchmark.settings import BenchSettings
from laplacenet.experiments.benchmark.synthetic import random_images
from laplacenet.runtime.device import convolution_trials
from laplacenet.training import Execution

PLAIN_WARM_UP = 5


def measure_method(case: MethodCase, settings: BenchSettings, execution: Execution) -> MethodRow:
    """Rounds of the method's steps and of its bare passes in turns, so that whatever the machine does meets both."""
    torch.compiler.reset()
    device, n_steps = execution.device, settings.method_steps
    with convolution_trials(device.type == "cuda"):
        ours = MethodSteps(case, settings.method_images, execution)
        intervals_ms(ours.round(n_steps), device)
        peak = peak_bytes(device)  # before the bare passes' own memory
        bare = BarePasses(case, ours.passes, execution)
        step_ms: list[float] = []
        bare_ms: list[float] = []
        for index in rounds(settings.method_rounds, settings.method_budget_s):
            ours_now = intervals_ms(ours.round(n_steps), device)
            bare_now = intervals_ms(bare.round(len(ours_now)), device)
            if index:
                step_ms, bare_ms = step_ms + ours_now, bare_ms + bare_now
        whole_ms = ours.whole_ms(2, n_steps)
    return MethodRow(
        method=case.method,
        model=case.model,
        batch_size=case.batch_size,
        labeled_batch_size=case.labeled_batch_size,
        passes=describe(ours.passes),
        step_ms=statistics.median(step_ms),
        bare_ms=statistics.median(bare_ms),
        whole_ms=whole_ms,
        n_steps=len(step_ms),
        capture_s=ours.stepper.compile_s,
        peak_bytes=peak,
    )


def describe(passes: list[Pass]) -> str:
    """Such as `100 + 100 images trained, 100 forward only`."""
    kinds = {
        "trained": [one.n_images for one in passes if one.trains],
        "to the input": [one.n_images for one in passes if one.of_input],
        "forward only": [one.n_images for one in passes if not (one.trains or one.of_input)],
    }
    return ", ".join(f"{' + '.join(map(str, sizes))} {kind}" for kind, sizes in kinds.items() if sizes)


def measure_loop(case: MethodCase, settings: BenchSettings, execution: Execution) -> LoopRow:
    """The plain loop first: its workers are gone when ours is measured."""
    device, n_workers = execution.device, settings.loop_workers
    n_workers = os.cpu_count() or 1 if n_workers is None else n_workers
    images = random_images(settings.method_images, SIDE)
    labels = torch.arange(len(images)) % case.n_classes
    steps = plain_steps(
        images,
        labels,
        sizes=(case.labeled_batch_size, case.n_unlabeled),
        n_classes=case.n_classes,
        device=device,
        n_workers=n_workers,
    )
    for _ in islice(steps, PLAIN_WARM_UP):
        pass
    n_plain = settings.loop_steps
    plain_s = time_work(lambda: [*islice(steps, n_plain)], device)[1]
    steps.close()
    with convolution_trials(device.type == "cuda"):
        ours = MethodSteps(case, settings.method_images, execution)
        intervals_ms(ours.round(settings.method_steps), device)
        whole_ms = ours.whole_ms(settings.loop_rounds, settings.method_steps)
    return LoopRow(
        method=case.method,
        model=case.model,
        labeled_batch_size=case.labeled_batch_size,
        unlabeled_batch_size=case.n_unlabeled,
        ours_per_s=1000 / whole_ms,
        plain_per_s=n_plain / plain_s,
        n_workers=n_workers,
        n_plain_steps=n_plain,
    )
