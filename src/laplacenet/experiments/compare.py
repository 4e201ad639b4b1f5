"""Compare methods on the same data, labels and network, for equal minutes or equal steps, with the same tuning.

A comparison is a list of runs in one folder. What to run next follows from what is finished there, so the same command
continues where it stopped, and several processes can share the runs.
"""

import contextlib
import dataclasses
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import filelock
import torch
from torch import Tensor

from laplacenet.data import Dataset, ImageSet, VectorSet
from laplacenet.experiments.experiment import Experiment, with_method
from laplacenet.experiments.finished_runs import (
    ComparedRun,
    FailedRun,
    FinishedRun,
    curve_of,
    read_finished_run,
    without_paths,
)
from laplacenet.experiments.fitting import fit_method
from laplacenet.experiments.notation import override, to_json, with_later_settings
from laplacenet.experiments.presets import with_method_preset
from laplacenet.experiments.run import resume_run, start_run
from laplacenet.experiments.run_records import (
    FINAL,
    EpochRecord,
    Outcome,
    read_epochs,
    read_outcome,
)
from laplacenet.experiments.step_times import PhaseTimes, StepTimes, measure_step_times
from laplacenet.experiments.task import Task, prepare, views_of
from laplacenet.runtime import InputError, Monitor, RunFolder, provenance, read_json, read_sealed, stream, write_sealed
from laplacenet.runtime.decoding import decode
from laplacenet.runtime.files import CHECKSUM, TEMPORARY
from laplacenet.runtime.run_folder import EXPERIMENT
from laplacenet.training import Execution, method_class
from laplacenet.training.guards import DivergedError
from laplacenet.training.methods.presets import ORIGINAL

STATE = "comparison.json"
FINISHED, FAILED, STEP_TIMES, CLAIMS = "finished", "failed", "step-times", "claims"
OWN_NAMES = (STATE, FINISHED, FAILED, STEP_TIMES, CLAIMS)
ALLOWANCE = 1.1  # the ratio of a run's total time to its training time, until one has been measured
MEASURING_S = 10.0  # the time of measuring a method's steps
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
        """The method with its settings, on the labels of this seed."""
        data = self.base.data
        if self.split_key is not None:
            data = replace(data, split_key=split_name(self.split_key, seed))
        experiment = with_method(replace(self.base, seed=seed, data=data), method)
        if self.preset is not None:
            laid = with_method_preset(experiment, self.preset)
            train = replace(laid.train, steps=self.base.train.steps)
            experiment = replace(laid, model=self.base.model, train=train)
        return override(replace(experiment, name=f"{self.base.name}-{method}"), self.settings_of(method))

    def settings_of(self, method: str) -> list[str]:
        """The settings for this method; those of the form METHOD:section.field=value are for one method only."""
        own = [text.partition(":")[2] for text in self.settings if text.partition(":")[0] == method]
        shared = [text for text in self.settings if text.partition(":")[0] not in self.methods]
        return [*shared, *own]


@dataclass(frozen=True, eq=False)
class Workbench:
    """A comparison in its folder.

    Several processes may work in one folder at once: each claims the runs that it makes. `tasks` keeps the data of the
    seed that is being run. Runs that failed since `began_at` are skipped; a later command tries them again.
    """

    comparison: Comparison
    folder: Path
    execution: Execution
    tasks: dict[int, Task] = field(default_factory=dict)
    began_at: float = field(default_factory=time.time)

    def open(self, record: Path | None = None) -> None:
        """Begin, or go on with the same comparison; another one's folder is refused.

        The runs that a `record` of the same comparison holds count as finished: it may come from another machine.
        """
        if not os.path.lexists(self.folder / STATE):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._begin()
        remedy = "choose another --out, and name a copy of its record with --record to keep the runs that are finished"
        state = self._read(self.folder / STATE, remedy=remedy)
        self._refuse_other(state, source=self.folder, option="--out")
        (self.folder / FINISHED).mkdir(exist_ok=True)
        if record is not None and record.is_file():
            with self.lock("opening"):
                self._take_over(record)

    def _begin(self) -> None:
        """If several processes start at once, the first records what is compared; it may already be working."""
        names = [entry.name for entry in self.folder.iterdir()]
        is_begun = (self.folder / STATE).is_file()
        if not is_begun and any(name.removesuffix(TEMPORARY) not in OWN_NAMES for name in names):
            raise InputError(f"{self.folder}: holds something else; choose another --out")
        with self.lock("opening"):
            if not (self.folder / STATE).is_file():
                write_sealed(self.folder / STATE, {"comparison": self.identity})

    @property
    def identity(self) -> dict[str, Any]:
        """The comparison as JSON, the same on every machine."""
        identity: dict[str, Any] = to_json(replace(self.comparison, base=without_paths(self.comparison.base)))
        return identity

    def _refuse_other(self, content: Any, *, source: Path, option: str) -> None:
        known = content.get("comparison") if isinstance(content, dict) else None
        if not isinstance(known, dict):
            raise InputError(f"{source}: holds no comparison; choose another {option}")
        known = known | {"base": with_later_settings(known.get("base", {}), source=str(source))}
        changed = [key for key, value in self.identity.items() if known.get(key) != value]
        if changed:
            raise InputError(f"{source}: holds a comparison with another {', '.join(changed)}; choose another {option}")

    def _take_over(self, record: Path) -> None:
        content = read_json(record)
        if isinstance(content, dict) and CHECKSUM in content:  # records of older versions have none
            content = self._read(record, remedy="choose another --record, or delete it to write it again")
        self._refuse_other(content, source=record, option="--record")
        for entry in [*content.get("tuning", []), *content.get("runs", [])]:
            finished = read_finished_run(entry, source=str(record))
            if not self.is_done(finished.run):
                write_sealed(self._finished(finished.run), finished.to_json())

    def due_runs(self) -> list[ComparedRun]:
        """The unfinished runs of the first unfinished stage, without those that failed."""
        for stage in self._stages():
            left = [run for run in stage if not self.is_done(run) and not self.has_failed(run)]
            if left:
                return left
        return []

    def _stages(self) -> Iterator[list[ComparedRun]]:
        """Tuning, then the first seed of every method, then the other seeds; each stage may depend on the one before.

        Without finalists all seeds are one stage. A method waits until every one of its rates has been tried.
        """
        seeds = self.comparison.seeds
        yield self.tuning_runs
        methods = [method for method in self.comparison.methods if self._is_tuned(method)]
        if self.comparison.finalists is None:
            yield [run for seed in seeds for run in self._runs(seed, methods)]
            return
        yield self._runs(seeds[0], methods)
        finalists = self.ranking()[: self.comparison.finalists]
        yield [run for seed in seeds[1:] for run in self._runs(seed, finalists)]

    def next_run(self) -> ComparedRun | None:
        """None when all is done."""
        return next(iter(self.due_runs()), None)

    @contextlib.contextmanager
    def claim(self) -> Iterator[ComparedRun | None]:
        """The first due run that no other process works on; None where there is none."""
        for run in self.due_runs():
            lock = self._claim_lock(run)
            try:
                lock.acquire()
            except filelock.Timeout:
                continue
            try:
                if not self.is_done(run):  # another process may have finished it since
                    yield run
                    return
            finally:
                lock.release()
        yield None

    def is_claimed(self, run: ComparedRun) -> bool:
        """Whether another process works on it now."""
        try:
            with self._claim_lock(run):
                return False
        except filelock.Timeout:
            return True

    def _claim_lock(self, run: ComparedRun) -> filelock.BaseFileLock:
        return self.lock(run.name.replace("/", "-"), timeout=0.0)

    def lock(self, name: str, *, timeout: float = -1.0) -> filelock.BaseFileLock:
        """Held by one process at a time, and given up when the process ends."""
        (self.folder / CLAIMS).mkdir(exist_ok=True)
        return filelock.FileLock(self.folder / CLAIMS / f"{name}.lock", timeout=timeout)

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

    def _is_tuned(self, method: str) -> bool:
        return all(self.is_done(run) for run in self.tuning_runs if run.method == method)

    def ranking(self) -> list[str]:
        """The methods by their error on the first seed."""
        runs = [ComparedRun(method, self.comparison.seeds[0]) for method in self.comparison.methods]
        results = [self.result(run) for run in runs if self.is_done(run)]
        return [result.run.method for result in sorted(results, key=lambda result: result.error)]

    def results(self) -> list[FinishedRun]:
        """Of all finished runs but those of tuning."""
        runs = [ComparedRun(method, seed) for seed in self.comparison.seeds for method in self.comparison.methods]
        return [self.result(run) for run in runs if self.is_done(run)]

    def tuning_results(self) -> list[FinishedRun]:
        return [self.result(run) for run in self.tuning_runs if self.is_done(run)]

    def is_done(self, run: ComparedRun) -> bool:
        return os.path.lexists(self._finished(run))  # what is no file is refused when it is read

    def result(self, run: ComparedRun) -> FinishedRun:
        path = self._finished(run)
        return read_finished_run(self._read(path, remedy="delete it to make it again from its run"), source=str(path))

    def _finished(self, run: ComparedRun) -> Path:
        return self.folder / FINISHED / (run.name.replace("/", "-") + ".json")

    def keep_failure(self, run: ComparedRun, error: Exception) -> None:
        """Record that the run failed, so that the others go on; if the device is lost, none can."""
        try:
            torch.zeros(1, device=self.execution.device).item()
        except RuntimeError:
            raise error from None
        path = self._failed(run)
        path.parent.mkdir(exist_ok=True)
        write_sealed(path, FailedRun.of(run, error, failed_at=time.time()).to_json())

    def failures(self) -> list[FailedRun]:
        """Runs that failed during this command, in any of its processes."""
        runs = [*self.tuning_runs, *(ComparedRun(m, s) for s in self.comparison.seeds for m in self.comparison.methods)]
        return [self._failure(run) for run in runs if not self.is_done(run) and self.has_failed(run)]

    def has_failed(self, run: ComparedRun) -> bool:
        return os.path.lexists(self._failed(run)) and self._failure(run).failed_at >= self.began_at

    def _failure(self, run: ComparedRun) -> FailedRun:
        path = self._failed(run)
        return decode(FailedRun, self._read(path, remedy="delete it"), source=str(path))

    def _failed(self, run: ComparedRun) -> Path:
        return self.folder / FAILED / (run.name.replace("/", "-") + ".json")

    def expected_s(self, run: ComparedRun) -> float:
        """How long the run will take from here on: as long as the longest of its kind so far.

        Before there is one, its training time with an allowance for measuring, tests and saving; 0 where only the
        number of steps is known.
        """
        known = self.tuning_results() if run.is_tuning else self.results()
        own = [result.wall_s for result in known if result.run.method == run.method]
        for_s = self.comparison.for_s
        if run.is_tuning and self.comparison.tuning is not None:
            for_s = self.comparison.tuning.for_s
        if for_s is None:
            return max(own or [result.wall_s for result in known], default=0.0)
        measuring_s = 0.0 if self._step_times(run.method).is_file() else MEASURING_S
        return measuring_s + max((result.wall_s for result in known), default=ALLOWANCE * for_s)

    def task(self, run: ComparedRun) -> Task:
        """With the rate and the steps that are due; measures the step time first where it is not known yet."""
        comparison = self.comparison
        experiment = comparison.experiment(run.method, run.seed)
        task = self.task_of_seed(run.seed)
        task = replace(task, experiment=experiment, views=views_of(task.dataset.train, experiment))
        limit_s = comparison.for_s
        if run.is_tuning and comparison.tuning is not None:
            task, limit_s = with_held_out(task, comparison.tuning.held_out), comparison.tuning.for_s
        train = experiment.train if run.lr is None else replace(experiment.train, lr=run.lr)
        if limit_s is not None:
            train = replace(train, steps=self.step_times(run.method, task).steps_within(limit_s))
        task = replace(task, experiment=replace(experiment, train=train))
        return task if comparison.preset == ORIGINAL else fit_method(task, comparison.settings_of(run.method))

    def task_of_seed(self, seed: int) -> Task:
        """The data of a seed, read once for all methods."""
        if seed not in self.tasks:
            self.tasks.clear()
            self.tasks[seed] = prepare(self.comparison.experiment(self.comparison.methods[0], seed))
        return self.tasks[seed]

    def step_times(self, method: str, task: Task) -> StepTimes:
        """Measured once on each machine."""
        path = self._step_times(method)
        path.parent.mkdir(exist_ok=True)
        with self.lock(f"{STEP_TIMES}-{path.stem}"):
            if not os.path.lexists(path):
                long = replace(task.experiment, train=replace(task.experiment.train, steps=MEASURED_WITH_STEPS))
                times = measure_step_times(replace(task, experiment=long), self.execution)
                write_sealed(path, dataclasses.asdict(times))
        content = self._read(path, remedy="delete it to measure the steps again")
        return decode(StepTimes, content, source=str(path))

    def _read(self, path: Path, *, remedy: str) -> dict[str, Any]:
        """The content of a file with a checksum; the error for a damaged one says what to do."""
        try:
            return read_sealed(path)
        except InputError as error:
            raise InputError(f"{error}; {remedy}") from error

    def _step_times(self, method: str) -> Path:
        return self.folder / STEP_TIMES / f"{method.replace(':', '.')}.json"

    def epochs(self, run: ComparedRun, task: Task, monitor: Monitor) -> Iterator[EpochRecord]:
        """Start or resume the run and save its result; a run that diverges ends there."""
        folder, started_at = RunFolder(self.folder / run.name), time.perf_counter()
        is_begun = (folder.path / EXPERIMENT).is_file()
        go = resume_run if is_begun else start_run
        if not is_begun:
            folder = RunFolder.create(folder.path)
        try:
            if not is_finished(folder):  # else it was cut off before this was noted here
                yield from go(task, folder, execution=self.execution, monitor=monitor, asked=("test_error",))
        except DivergedError:
            self._finish(run, task, None, wall_s=time.perf_counter() - started_at)
        if not self.is_done(run) and folder.has(FINAL):
            self._finish(run, task, read_outcome(folder), wall_s=time.perf_counter() - started_at)

    def _finish(self, run: ComparedRun, task: Task, outcome: Outcome | None, *, wall_s: float) -> None:
        origin = provenance(self.execution.device)
        curve = curve_of(read_epochs(RunFolder.open(self.folder / run.name)))
        finished = FinishedRun(run, task.experiment, outcome, curve, wall_s, origin)
        write_sealed(self._finished(run), finished.to_json())


def is_finished(folder: RunFolder) -> bool:
    """Whether the run has a readable outcome; a damaged one is written again."""
    try:
        return folder.has(FINAL) and bool(read_outcome(folder) and read_epochs(folder))
    except InputError:
        return False


def split_name(template: str, split: int) -> str:
    """`4000/{split:02d}` for split 3 is `4000/03`."""
    try:
        return template.format(split=split)
    except (KeyError, IndexError, ValueError, AttributeError, TypeError, MemoryError) as error:
        raise InputError(f"--split-key {template}: write the number as {{split}} or {{split:02d}}") from error


def with_held_out(task: Task, n: int) -> Task:
    """The task without n of its labeled inputs, which take the place of its test set; training never sees them.

    They are taken from the classes in turn, so that these keep about equal numbers of labels, at least one each.
    """
    given = task.given_labels
    rng = stream(task.experiment.seed, "held out")
    by_class = [rng.permutation(torch.nonzero(given == c).flatten().numpy())[1:] for c in range(len(task.class_names))]
    ranked = sorted((place, c, int(row)) for c, rows in enumerate(by_class) for place, row in enumerate(rows))
    if n > len(ranked):
        raise InputError(f"--held-out {n}: only {len(ranked)} labels can be held out if each class is to keep one")
    rows = torch.tensor([row for _, _, row in ranked[:n]])
    is_left = torch.ones(len(given), dtype=torch.bool)
    is_left[rows] = False
    train, left = task.dataset.train, torch.nonzero(is_left).flatten()
    return replace(
        task,
        dataset=Dataset(rows_at(train, left), rows_at(train, rows), task.dataset.name),
        given_labels=given[left],
        true_labels=task.true_labels[left],
        test_labels=given[rows],
    )


def rows_at(part: ImageSet | VectorSet, rows: Tensor) -> ImageSet | VectorSet:
    """These rows only, normalized by the statistics of all rows."""
    labels = part.labels[rows]
    if isinstance(part, ImageSet):
        return replace(part, images=part.images[rows], labels=labels, names=None)
    return replace(part, vectors=part.vectors[rows], labels=labels)


__all__ = ["ComparedRun", "Comparison", "FinishedRun", "PhaseTimes", "StepTimes", "Tuning", "Workbench"]
