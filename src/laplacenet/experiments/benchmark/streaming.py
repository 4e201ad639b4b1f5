"""The step with a data set that does not fit on the device, beside one that does: neither should wait for the host."""

import dataclasses
import statistics

import torch

from laplacenet.experiments.benchmark.clock import intervals_ms
from laplacenet.experiments.benchmark.our_steps import OurSteps
from laplacenet.experiments.benchmark.rows import StreamRow
from laplacenet.experiments.benchmark.settings import BenchSettings, StepCase
from laplacenet.experiments.benchmark.synthetic import random_images
from laplacenet.runtime import InputError
from laplacenet.training import Execution

SIDE = 32


def measure_streaming(case: StepCase, settings: BenchSettings, execution: Execution) -> StreamRow:
    if execution.device.type != "cuda":
        raise InputError("streaming concerns GPUs: on a CPU the images are where the step is")
    torch.compiler.reset()
    device, n_steps, n_rounds = execution.device, settings.steps_a_round, settings.step_rounds
    images = random_images(settings.n_images, SIDE)
    resident = OurSteps(case, images, execution)
    streamed = OurSteps(case, images, dataclasses.replace(execution, resident_bytes=0))
    medians: dict[str, list[float]] = {"resident": [], "streamed": []}
    for index in range(n_rounds + 1):
        for name, steps in (("resident", resident), ("streamed", streamed)):
            now = intervals_ms(steps.round(index, n_steps), device)
            medians[name] += now if index else []
    return StreamRow(
        model=case.model,
        batch_size=case.batch_size,
        n_views=case.n_views,
        resident_ms=statistics.median(medians["resident"]),
        streamed_ms=statistics.median(medians["streamed"]),
        resident_whole_ms=resident.whole_ms(n_rounds, n_steps),
        streamed_whole_ms=streamed.whole_ms(n_rounds, n_steps),
        n_steps=n_rounds * n_steps,
    )
