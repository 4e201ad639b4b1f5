"""The step of each network, everything included, beside the bare step of the same network."""

import statistics

import torch

from laplacenet.experiments.benchmark.bare_step import BareStep
from laplacenet.experiments.benchmark.clock import intervals_ms, peak_bytes, rounds
from laplacenet.experiments.benchmark.our_steps import OurSteps
from laplacenet.experiments.benchmark.rows import StepRow
from laplacenet.experiments.benchmark.settings import BenchSettings, StepCase
from laplacenet.experiments.benchmark.synthetic import random_images
from laplacenet.training import Execution

SIDE = 32


def measure_step(case: StepCase, settings: BenchSettings, execution: Execution) -> StepRow:
    """Rounds of ours and of bare steps in turns, so that whatever else the machine does meets both."""
    torch.compiler.reset()  # the compiler gives up on a function after a few networks
    device, n_steps, n_rounds = execution.device, settings.steps_a_round, settings.step_rounds
    ours = OurSteps(case, random_images(settings.n_images, SIDE), execution)
    intervals_ms(ours.round(0, n_steps), device)
    peak = peak_bytes(device)  # before the bare step's own memory
    bare = BareStep(case, execution, side=SIDE)
    step_ms: list[float] = []
    bare_ms: list[float] = []
    for index in rounds(n_rounds, settings.budget_s):
        ours_now = intervals_ms(ours.round(index, n_steps), device)
        bare_now = intervals_ms(bare.round(n_steps), device)
        if index:
            step_ms, bare_ms = step_ms + ours_now, bare_ms + bare_now
    n_whole_rounds = n_rounds if device.type == "cuda" else 2  # on a CPU nothing overlaps: few steps tell
    return StepRow(
        model=case.model,
        batch_size=case.batch_size,
        n_views=case.n_views,
        step_ms=statistics.median(step_ms),
        bare_ms=statistics.median(bare_ms),
        whole_ms=ours.whole_ms(n_whole_rounds, n_steps),
        draw_ms=1000 * statistics.median(ours.draw_s),
        n_steps=len(step_ms),
        n_whole_steps=n_whole_rounds * n_steps,
        compile_s=ours.stepper.compile_s,
        peak_bytes=peak,
    )
