"""Methods side by side on the same data, labels and network: equal minutes or equal steps, the same tuning for each.

A comparison is a list of runs in one folder. What to run next follows from what is recorded there, so the same command
goes on where it stopped.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch

from laplacenet.data import Dataset, ImageSet
from laplacenet.experiments.experiment import Experiment, with_method
from laplacenet.experiments.notation import override, to_json
from laplacenet.experiments.presets import with_method_preset
from laplacenet.experiments.run import read_experiment, resume_run, start_run
from laplacenet.experiments.run_records import FINAL, EpochRecord, Outcome, read_epochs, read_outcome
from laplacenet.experiments.step_times import PhaseTimes, StepTimes, measure_step_times
from laplacenet.experiments.task import Task, prepare
from laplacenet.runtime import InputError, Monitor, RunFolder, read_sealed, stream, write_sealed
from laplacenet.runtime.decoding import decode
from laplacenet.runtime.run_folder import EXPERIMENT
from laplacenet.training import Execution, method_class
from laplacenet.training.guards import DivergedError

STATE = "comparison.json"
MEASURED_WITH_STEPS = 10**6  # as if for a long run: its supervised start is then not cut


@dataclass(frozen=True)
class Tuning:
    """Each method's learning rate among `rates`, by runs of `for_s` that are judged on `held_out` of the labels."""

    for_s: float
    rates: tuple[float, ...]
    held_out: int

    def __post_init__(self) -> None:
        if not self.rates or not all(0 < rate < float("inf") for rate in self.rates):
            raise InputError("--rates: give learning rates above 0, such as 0.01,0.03,0.1")
        if self.held_out < 1:
            raise InputError(f"--held-out {self.held_out}: give at least one label to judge by")


@dataclass(frozen=True)
class Comparison:
    """What is compared. `for_s` is the training time of a run; without it a run has the base's steps.

    Seed i trains on the split that `split_key` names with `split` = i, where it is given, and else on the labels that
    the base draws by its seed. `finalists` limits the seeds after the first to that many of the best methods. `preset`
    is one of the methods' own, under which network and steps stay the base's.
    """

    base: Experiment
    methods: tuple[str, ...]
    for_s: float | None = None
    seeds: tuple[int, ...] = (0,)
    tuning: Tuning | None = None
    finalists: int | None = None
    settings: tuple[str, ...] = ()
    split_key: str | None = None
    preset: str | None = None

    def __post_init__(self) -> None:
        for name in self.methods:
            method_class(name)
        if not self.methods or len(set(self.methods)) < len(self.methods):
            raise InputError(f"--methods {','.join(self.methods)}: name each method once")
        if self.finalists is not None and self.finalists < 1:
            raise InputError(f"--finalists {self.finalists}: give at least one")
        for method in self.methods:
            self.experiment(method, self.seeds[0])

    def experiment(self, method: str, seed: int) -> Experiment:
        """The method with its settings; those of the form METHOD:section.field=value are for one method alone."""
        own = [text.partition(":")[2] for text in self.settings if text.partition(":")[0] == method]
        shared = [text for text in self.settings if text.partition(":")[0] not in self.methods]
        data = self.base.data
        if self.split_key is not None:
            data = replace(data, split_key=split_name(self.split_key, seed))
        experiment = with_method(replace(self.base, seed=seed, data=data), method)
        if self.preset is not None:
            laid = with_method_preset(experiment, self.preset)
            train = replace(laid.train, steps=self.base.train.steps)
            experiment = replace(laid, model=self.base.model, train=train)
        return override(replace(experiment, name=f"{self.base.name}-{method}"), [*shared, *own])


@dataclass(frozen=True)
class ComparedRun:
    """One run of a comparison and where it lies below its folder; in tuning it is judged on held-out labels."""

    method: str
    seed: int
    lr: float | None = None
    is_tuning: bool = False

    @property
    def name(self) -> str:
        method = self.method.replace(":", ".")
        return f"tuning/{method}-{self.lr:g}" if self.is_tuning else f"runs/{method}-seed-{self.seed}"


@dataclass(frozen=True)
class Result:
    """What became of a run: its outcome and epochs; or that it diverged."""

    run: ComparedRun
    experiment: Experiment
    epochs: tuple[EpochRecord, ...]
    outcome: Outcome | None

    @property
    def error(self) -> float:
        """One that diverged is as wrong as can be."""
        return 1.0 if self.outcome is None or self.outcome.test_error is None else self.outcome.test_error

    @property
    def train_s(self) -> float:
        return self.curve[-1][1] if self.curve else 0.0

    @cached_property
    def curve(self) -> list[tuple[int, float, float | None]]:
        """Step, seconds of training (label passes and capture with it, tests and checkpoints not), test error."""
        seconds, points = 0.0, []
        for epoch in self.epochs:
            seconds += epoch.n_steps * epoch.step_s + epoch.label_s + epoch.compile_s
            points.append((epoch.step, seconds, epoch.test_error))
        return points


@dataclass(frozen=True, eq=False)
class Workbench:
    """A comparison in its folder."""

    comparison: Comparison
    folder: Path
    execution: Execution

    def open(self) -> None:
        """Begin, or go on with the same comparison; another one's folder is refused."""
        identity = to_json(self.comparison)
        if not (self.folder / STATE).is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            if any(self.folder.iterdir()):
                raise InputError(f"{self.folder}: holds something else; choose another --out")
            write_sealed(self.folder / STATE, {"comparison": identity, "step_times": {}, "diverged": []})
        known = self.state["comparison"]
        changed = [key for key in identity if known.get(key) != identity[key]]
        if changed:
            raise InputError(
                f"{self.folder}: holds a comparison with another {', '.join(changed)}; choose another --out"
            )

    @property
    def state(self) -> dict[str, Any]:
        return read_sealed(self.folder / STATE)

    def next_run(self) -> ComparedRun | None:
        """Tuning, then the first seed of every method, then the other seeds; None when all is done."""
        comparison = self.comparison
        first, *later = comparison.seeds
        todo = [run for run in self.tuning_runs if not self.is_done(run)]
        todo = todo or [run for run in self._runs(first, comparison.methods) if not self.is_done(run)]
        if not todo:
            finalists = self.ranking()[: comparison.finalists]
            todo = [run for seed in later for run in self._runs(seed, finalists) if not self.is_done(run)]
        return todo[0] if todo else None

    @property
    def tuning_runs(self) -> list[ComparedRun]:
        tuning, seed = self.comparison.tuning, self.comparison.seeds[0]
        rates = () if tuning is None else tuning.rates
        return [ComparedRun(method, seed, rate, is_tuning=True) for method in self.comparison.methods for rate in rates]

    def _runs(self, seed: int, methods: Sequence[str]) -> list[ComparedRun]:
        return [ComparedRun(method, seed, self.rate(method)) for method in methods]

    def rate(self, method: str) -> float | None:
        """The tuned learning rate, the first of equally good ones; None without tuning."""
        found = [self.result(run) for run in self.tuning_runs if run.method == method]
        return min(found, key=lambda result: result.error).run.lr if found else None

    def ranking(self) -> list[str]:
        """The methods by their error on the first seed."""
        results = [self.result(run) for run in self._runs(self.comparison.seeds[0], self.comparison.methods)]
        return [result.run.method for result in sorted(results, key=lambda result: result.error)]

    def results(self) -> list[Result]:
        """Of all finished runs but those of tuning."""
        runs = [ComparedRun(method, seed) for seed in self.comparison.seeds for method in self.comparison.methods]
        return [self.result(run) for run in runs if self.is_done(run)]

    def is_done(self, run: ComparedRun) -> bool:
        return (self.folder / run.name / FINAL).is_file() or run.name in self.state["diverged"]

    def result(self, run: ComparedRun) -> Result:
        folder = RunFolder.open(self.folder / run.name)
        experiment = read_experiment(folder)
        outcome = None if run.name in self.state["diverged"] else read_outcome(folder)
        return Result(replace(run, lr=experiment.train.lr), experiment, tuple(read_epochs(folder)), outcome)

    def task(self, run: ComparedRun) -> Task:
        """With the rate and the steps that are due; measures the step time first where it is not known yet."""
        comparison, seed = self.comparison, run.seed
        experiment = comparison.experiment(run.method, seed)
        task = replace(loaded(comparison.experiment(comparison.methods[0], seed)), experiment=experiment)
        limit_s = comparison.for_s
        if run.is_tuning and comparison.tuning is not None:
            task, limit_s = with_held_out(task, comparison.tuning.held_out), comparison.tuning.for_s
        train = experiment.train if run.lr is None else replace(experiment.train, lr=run.lr)
        if limit_s is not None:
            train = replace(train, steps=self.step_times(run.method, task).steps_within(limit_s))
        return replace(task, experiment=replace(experiment, train=train))

    def step_times(self, method: str, task: Task) -> StepTimes:
        state = self.state
        if method not in state["step_times"]:
            long = replace(task.experiment, train=replace(task.experiment.train, steps=MEASURED_WITH_STEPS))
            times = measure_step_times(replace(task, experiment=long), self.execution)
            state["step_times"][method] = dataclasses.asdict(times)
            write_sealed(self.folder / STATE, state)
        return decode(StepTimes, state["step_times"][method], source=str(self.folder / STATE))

    def epochs(self, run: ComparedRun, task: Task, monitor: Monitor) -> Iterator[EpochRecord]:
        """Start the run or go on with it; one that diverges is noted and ends."""
        folder = RunFolder(self.folder / run.name)
        is_begun = (folder.path / EXPERIMENT).is_file()
        go = resume_run if is_begun else start_run
        if not is_begun:
            folder = RunFolder.create(folder.path)
        try:
            yield from go(task, folder, execution=self.execution, monitor=monitor)
        except DivergedError:
            state = self.state
            write_sealed(self.folder / STATE, state | {"diverged": [*state["diverged"], run.name]})


def split_name(template: str, split: int) -> str:
    """`4000/{split:02d}` for split 3 is `4000/03`."""
    try:
        return template.format(split=split)
    except (KeyError, IndexError, ValueError) as error:
        raise InputError(f"--split-key {template}: write the number as {{split}} or {{split:02d}}") from error


@lru_cache(maxsize=2)
def loaded(experiment: Experiment) -> Task:
    """The data of a seed, read once for all methods."""
    return prepare(experiment)


def with_held_out(task: Task, n: int) -> Task:
    """The task with n of its given labels hidden and, in place of its test set, the inputs that they belong to.

    They are taken from one class after another, so that classes keep like numbers of labels; each keeps one at least.
    """
    given = task.given_labels
    rng = stream(task.experiment.seed, "held out")
    by_class = [rng.permutation(torch.nonzero(given == c).flatten().numpy())[1:] for c in range(len(task.class_names))]
    ranked = sorted((place, c, int(row)) for c, rows in enumerate(by_class) for place, row in enumerate(rows))
    if n > len(ranked):
        raise InputError(f"--held-out {n}: only {len(ranked)} labels can be held out if each class is to keep one")
    rows = torch.tensor([row for _, _, row in ranked[:n]])
    hidden = given.clone()
    hidden[rows] = -1
    train = task.dataset.train
    part = (
        replace(train, images=train.images[rows], labels=train.labels[rows], names=None)
        if isinstance(train, ImageSet)
        else replace(train, vectors=train.vectors[rows], labels=train.labels[rows])
    )
    dataset = Dataset(train, part, task.dataset.name)
    return replace(task, dataset=dataset, given_labels=hidden, test_labels=given[rows])


__all__ = ["ComparedRun", "Comparison", "PhaseTimes", "Result", "StepTimes", "Tuning", "Workbench"]
