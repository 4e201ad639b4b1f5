"""Which stages a labeling has, which labels each may see, and how many steps it takes.

Stage `estimate` holds out a fifth of the given labels, which then test it. Each stage `suspects-N` holds out another
part of them from a network of its own. Stage `final` continues the first network with all labels. Beyond some epochs a
network learns nothing new, so that more time makes more networks: stages `vote-N`.
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from laplacenet.labeling.estimate import FEWEST
from laplacenet.labeling.evidence import stratified_folds, without_fold
from laplacenet.labeling.settings import LabelingSettings
from laplacenet.labeling.stages import LabelingContext, Stage, planned_config
from laplacenet.runtime import current_group, stream
from laplacenet.training import LaplaceNet, Problem, Run, TrainConfig, train

SHARES = {"estimate": 0.5, "suspects": 0.2, "final": 0.3}
"""Of the time for training: until the estimate, for all suspect folds together, and with all labels."""
FEWEST_STEPS = 20
REPORTING_S, REPORTING_S_PER_ROW, MOST_REPORTING_S, REPORTING_SHARE = 2.0, 0.004, 12.0, 0.25
"""Kept for the last labels, the map and the page; t-SNE of 2 000 rows takes most of it."""
SLACK = 1.3
"""How much longer than planned a stage may take before it is cut short: other programs may slow it down."""
WARM_UP, MEASURED = 3, 6
N_SAMPLED = 4000
LONG_ENOUGH_TO_COMPARE_S = 60.0
"""Least time limit for which several numbers of threads are measured."""


class Stopwatch:
    """The monitor of a measurement: a few steps to warm up, then a few that are timed."""

    def __init__(self) -> None:
        self.n_steps, self.began_at = 0, time.perf_counter()

    @property
    def should_stop(self) -> bool:
        return self.n_steps >= WARM_UP + MEASURED

    def advance(self, n: int) -> None:
        self.n_steps += n
        if self.n_steps <= WARM_UP:
            self.began_at = time.perf_counter()


def measure_step_s(context: LabelingContext) -> tuple[float, float]:
    """Seconds that a step takes, with its share of the labeling before each epoch, and that labeling all rows takes.

    Measured on some of the rows.
    """
    rows, given = context.rows, context.job.given
    some = stream(0, "labeling/timing").permutation(len(rows))[:N_SAMPLED]
    chosen = torch.from_numpy(np.union1d(torch.nonzero(given >= 0).flatten().numpy(), some))
    labels, settings = given[chosen], context.job.settings
    config = replace(settings.train, steps=1_000)
    problem = Problem(labels, len(context.job.class_names), context.views)
    method = LaplaceNet(problem, config, replace(settings.method, supervised_passes=0), settings.graph)
    for _ in range(2 if context.execution.device.type == "cuda" else 1):  # what a GPU compiles serves all later stages
        run = Run.of(method, context.fresh_network("timing"), rows.images[chosen], context.execution)
        watch = Stopwatch()
        label_s = [epoch.label_s for epoch in train(run, monitor=watch)]
    # an epoch is yielded when its loss has been read, which waits for the GPU
    step_s = (time.perf_counter() - watch.began_at - sum(label_s[1:])) / MEASURED
    pass_s = sum(label_s) / len(label_s)
    epoch_steps = method.epoch_steps(max(1, len(problem.unlabeled)))
    return max(step_s, 1e-4) + pass_s / epoch_steps, pass_s * len(rows) / len(chosen)


def threads_to_try(context: LabelingContext) -> list[int]:
    """Steps of a small network gain little from many threads, and where other programs compute too they lose: threads
    wait for the slowest among them."""
    most, limit_s = torch.get_num_threads(), context.job.settings.time.limit_s
    if context.execution.device.type != "cpu" or (limit_s is not None and limit_s < LONG_ENOUGH_TO_COMPARE_S):
        return [most]
    return sorted({n_threads for n_threads in (1, 2, 4, most) if n_threads <= most})


def measure_threads(context: LabelingContext, numbers: list[int]) -> tuple[int, float, float]:
    """With which of these numbers of threads a step is fastest here and now, and what `measure_step_s` says of it."""
    measured = {}
    for n_threads in current_group().by_first(lambda: numbers):
        with use_threads(n_threads):
            measured[n_threads] = measure_step_s(context)
    measured = current_group().by_first(lambda: measured)
    fastest = min(measured, key=lambda n_threads: measured[n_threads])
    return fastest, *measured[fastest]


@contextlib.contextmanager
def use_threads(n_threads: int) -> Iterator[None]:
    """Torch's number of threads inside; outside it is what it was."""
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def reporting_s(n_rows: int, limit_s: float) -> float:
    """At most a part of a short time limit: labels a few seconds late are better than none."""
    wanted_s = min(MOST_REPORTING_S, REPORTING_S + REPORTING_S_PER_ROW * n_rows)
    return max(REPORTING_S, min(wanted_s, REPORTING_SHARE * limit_s))


def steps_within(seconds: float, step_s: float) -> int:
    return max(FEWEST_STEPS, int(seconds / step_s))


ESTIMATE, SUSPECTS, FOLD, FINAL, VOTE = "estimate", "suspects", "fold", "final", "vote"
WORDS = {
    ESTIMATE: "accuracy estimate",
    SUSPECTS: "label check",
    FOLD: "held-out fold",
    FINAL: "final network",
    VOTE: "extra network",
}
"""What a stage is called where people read it; several of a kind are numbered from 1."""
FOLDS = (5, 4, 3)
"""A fifth is held out; with few labels a quarter or a third, since fewer than ten are no test."""
FINAL_LR = 0.5
"""Of the first learning rate: the network has been trained, but some labels are new."""
MOST_EPOCHS, LEAST_CAP = 16, 600
"""Beyond so many epochs, or steps where an epoch is short, accuracy on hidden labels of CIFAR-10 rose no more."""


def hidden_folds(given: Int64[Tensor, " n"], *, seed: int) -> Int64[Tensor, " n"] | None:
    """Folds of the given labels, of which fold 0 is the test; None if too few could be held out."""
    for n_folds in FOLDS:
        folds = stratified_folds(given, n_folds, seed=seed)
        if int((folds == 0).sum()) >= FEWEST:
            return folds
    return None


def kind_of(name: str) -> str:
    return name.split("-", maxsplit=1)[0]


def number_of(name: str) -> int:
    return int(name.rpartition("-")[2])


def stage_words(name: str) -> str:
    kind = kind_of(name)
    return WORDS[kind] if name == kind else f"{WORDS[kind]} {number_of(name) + (kind == FOLD)}"


@dataclass(frozen=True, eq=False)
class StagePlan:
    """`folds` are None if there are too few labels to test with: then all are used for training from the start."""

    context: LabelingContext
    folds: Int64[Tensor, " n"] | None

    @property
    def names(self) -> list[str]:
        """The stages of every labeling; votes come after them, as time allows."""
        if self.folds is None:
            return [FINAL]
        n_suspects = int(self.folds.max()) if self.context.job.settings.time.suspects else 0
        return [ESTIMATE, *(f"{SUSPECTS}-{fold}" for fold in range(1, n_suspects + 1)), FINAL]

    @property
    def most_steps(self) -> int:
        """Of one network from scratch."""
        config, n_unlabeled = self.context.job.settings.train, int((self.context.job.given < 0).sum())
        return max(LEAST_CAP, MOST_EPOCHS * n_unlabeled // config.unlabeled_batch_size)

    def weight(self, name: str) -> float:
        """A stage's share of the time, beside those of the others."""
        if kind_of(name) == SUSPECTS:
            return SHARES[SUSPECTS] / (len(self.names) - 2)
        return SHARES.get(kind_of(name), SHARES[ESTIMATE])

    def stage(self, name: str, *, seconds: float | None, step_s: float | None) -> Stage:
        """As it was begun, or else with the steps that these seconds hold; where no time is set, in proportion."""
        seen, begins_with = self.seen(name), self.begins_with(name)
        begun = planned_config(self.context, name)
        if begun is not None:
            return Stage(name, seen, TrainConfig(**begun), begins_with)
        config, share = self.context.job.settings.train, min(1.0, self.weight(name) / SHARES[ESTIMATE])
        steps = config.steps if self.folds is None else max(FEWEST_STEPS, round(config.steps * share))
        if seconds is not None and step_s is not None:
            cap = self.most_steps if begins_with is None else round(self.most_steps * share)
            steps = min(steps_within(seconds, step_s), cap)
        config = replace(config, steps=steps)
        if begins_with is not None:
            config = replace(config, lr=config.lr * FINAL_LR)
        return Stage(name, seen, config, begins_with)

    def seen(self, name: str) -> Int64[Tensor, " n"]:
        given = self.context.job.given
        if self.folds is None or kind_of(name) not in (ESTIMATE, SUSPECTS):
            return given
        return without_fold(given, self.folds, 0 if name == ESTIMATE else number_of(name))

    def begins_with(self, name: str) -> str | None:
        return ESTIMATE if name == FINAL and self.folds is not None else None


PASSES_PER_STAGE = 2
"""Labelings of all rows that a short stage makes: before its first epoch and at its end."""


def plan_steps(context: LabelingContext) -> tuple[LabelingContext, float | None]:
    """The context with its threads and steps, and what a step takes.

    A number of steps given by the user is kept, with None for their time; otherwise as many as fit into the time.
    """
    settings, limit_s = context.job.settings, context.job.settings.time.limit_s
    if settings.time.steps is not None or limit_s is None:
        steps = settings.time.steps or settings.train.steps
        settings = replace(settings, threads=settings.threads or torch.get_num_threads())
        return with_settings(context, replace(settings, train=replace(settings.train, steps=steps))), None
    numbers = [settings.threads] if settings.threads else threads_to_try(context)
    threads, step_s, pass_s = measure_threads(context, numbers)
    settings = replace(settings, threads=threads)
    context = with_settings(context, settings)
    left_s = context.started_at + limit_s - time.monotonic() - reporting_s(len(context.rows), limit_s)
    passes_s = len(full_plan(context).names) * PASSES_PER_STAGE * pass_s
    if settings.time.suspects and passes_s > left_s / 2 and not context.path("").exists():
        settings = replace(settings, time=replace(settings.time, suspects=False))  # the labels themselves come first
    steps = min(steps_within(max(0.0, left_s) * SHARES["estimate"], step_s), StagePlan(context, None).most_steps)
    settings = replace(settings, train=replace(settings.train, steps=steps))
    return with_settings(context, current_group().by_first(lambda: settings)), step_s


def full_plan(context: LabelingContext) -> StagePlan:
    job = context.job
    return StagePlan(context, hidden_folds(job.given, seed=job.settings.seed))


def with_settings(context: LabelingContext, settings: LabelingSettings) -> LabelingContext:
    return replace(context, job=replace(context.job, settings=settings))
