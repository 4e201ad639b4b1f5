"""How many steps fit into the time: one step is measured, and the time is shared out among the stages."""

import time
from dataclasses import replace

import numpy as np
import torch

from laplacenet.labeling.stages import Workshop
from laplacenet.runtime import stream
from laplacenet.training import LaplaceNet, Run, train

SHARES = {"estimate": 0.5, "suspects": 0.2, "final": 0.3}
"""Of the time for training: until the estimate, for all suspect folds together, and with all labels."""
FEWEST_STEPS = 20
REPORTING_S = 12.0
"""Kept for the last labels, the map and the page."""
SLACK = 1.3
"""How much longer than planned a stage may take before it is cut short: other programs may slow it down."""
WARM_UP, MEASURED = 3, 6
N_SAMPLED = 4000


class Stopwatch:
    """The monitor of a measurement: lets a few steps warm up, and stops after a few more."""

    def __init__(self) -> None:
        self.n_steps, self.began_at = 0, time.perf_counter()

    @property
    def should_stop(self) -> bool:
        return self.n_steps >= WARM_UP + MEASURED

    def advance(self, n: int) -> None:
        self.n_steps += n
        if self.n_steps <= WARM_UP:
            self.began_at = time.perf_counter()


def measured_step_s(workshop: Workshop) -> float:
    """Seconds a step takes with its share of the labeling before each epoch, measured on some of the rows."""
    rows, given = workshop.rows, workshop.job.given
    some = stream(0, "labeling/timing").permutation(len(rows))[:N_SAMPLED]
    chosen = torch.from_numpy(np.union1d(torch.nonzero(given >= 0).flatten().numpy(), some))
    labels, settings = given[chosen], workshop.job.settings
    config = replace(settings.train, steps=1_000, supervised_passes=0)
    method = LaplaceNet(labels, len(workshop.job.class_names), workshop.views, config, settings.graph, seed=0)
    run = Run(method, workshop.fresh_network("timing"), rows.images[chosen], workshop.views, config, workshop.execution)
    watch = Stopwatch()
    label_s = [epoch.label_s for epoch in train(run, monitor=watch)]
    # an epoch is handed over when its loss has been read, which waits for a GPU's steps
    step_s = (time.perf_counter() - watch.began_at - sum(label_s[1:])) / MEASURED
    n_unlabeled = max(1, int((labels < 0).sum()))
    epoch_steps = n_unlabeled // min(config.unlabeled_batch_size, n_unlabeled)
    return max(step_s, 1e-4) + sum(label_s) / len(label_s) / epoch_steps


def fastest_threads(workshop: Workshop) -> tuple[int, float]:
    """How many of torch's threads to use and what a step takes then.

    Steps of a small network gain little from many threads, and where other programs compute too they lose: threads wait
    for the slowest among them.
    """
    most = torch.get_num_threads()
    if workshop.execution.device.type != "cpu" or most == 1:
        return most, measured_step_s(workshop)
    step_s = {}
    for n_threads in sorted({1, 2, 4, most}):
        if n_threads <= most:
            torch.set_num_threads(n_threads)
            step_s[n_threads] = measured_step_s(workshop)
    fastest = min(step_s, key=lambda n_threads: step_s[n_threads])
    torch.set_num_threads(fastest)
    return fastest, step_s[fastest]


def steps_within(seconds: float, step_s: float) -> int:
    return max(FEWEST_STEPS, int(seconds / step_s))
