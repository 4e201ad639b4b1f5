"""The runs of a comparison: each from its data, rate and steps to its result."""

import dataclasses
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from laplacenet.experiments.compare.comparison import differing_settings
from laplacenet.experiments.compare.data_hashes import DataHashes
from laplacenet.experiments.compare.folder import DATA, STEP_TIMES
from laplacenet.experiments.compare.held_out import with_held_out
from laplacenet.experiments.compare.schedule import Schedule
from laplacenet.experiments.experiment import DataConfig, Experiment, without_paths
from laplacenet.experiments.finished_runs import ComparedRun, FinishedRun, curve_of
from laplacenet.experiments.fitting import fit_method
from laplacenet.experiments.notation import to_json
from laplacenet.experiments.run import read_experiment, require_unchanged, resume_run, start_run
from laplacenet.experiments.run_records import FINAL, EpochRecord, Outcome, read_epochs, read_outcome
from laplacenet.experiments.step_times import StepTimes, measure_step_times
from laplacenet.experiments.task import Task, prepare, task_on, views_of, visible_labels
from laplacenet.runtime import InputError, Monitor, RunFolder, provenance, write_sealed
from laplacenet.runtime.decoding import decode
from laplacenet.runtime.run_folder import EXPERIMENT
from laplacenet.training import Execution
from laplacenet.training.checkpoint import checkpoint_step
from laplacenet.training.guards import DivergedError
from laplacenet.training.methods.presets import ORIGINAL

HARDWARE, SETTINGS = "hardware", "settings"
MEASURED_WITH_STEPS = 10**6  # as if for a long run: its supervised start is then not cut


@dataclass(frozen=True, eq=False)
class Workbench(Schedule):
    """A comparison in its folder, with the device to work on. `tasks` keeps the data of the seed that is being run."""

    execution: Execution
    tasks: dict[int, Task] = field(default_factory=dict)

    def task(self, run: ComparedRun) -> Task:
        """With the rate and the steps that are due; measures the step time first where it is not known yet.

        A run that has begun keeps all its settings, though begun now it might have others.
        """
        comparison, begun = self.comparison, self._begun(run)
        experiment = begun or comparison.experiment(run.method, run.seed)
        task = self.task_of_seed(run.seed)
        task = replace(task, experiment=experiment, views=views_of(task.dataset.train, experiment))
        limit_s = comparison.for_s
        if run.is_tuning and comparison.tuning is not None:
            task, limit_s = with_held_out(task, comparison.tuning.held_out), comparison.tuning.for_s
        if begun is not None:
            return task
        train = experiment.train if run.lr is None else replace(experiment.train, lr=run.lr)
        if limit_s is not None:
            train = replace(train, steps=self.step_times(run.method, task).steps_within(limit_s))
        return self._fitted(replace(task, experiment=replace(experiment, train=train)), run.method)

    def _fitted(self, task: Task, method: str) -> Task:
        """Papers' own settings stay as they are."""
        return task if self.comparison.preset == ORIGINAL else fit_method(task, self.comparison.settings_of(method))

    def changed_runs(self) -> dict[ComparedRun, list[str]]:
        """Runs with settings that they would not have if made now, by run: defaults may have changed since.

        Finished ones and those that have begun and wait to be resumed.
        """
        made = {result.run: result.experiment for result in (*self.tuning_results(), *self.results())}
        for run in (*self.tuning_runs, *self.comparison.final_runs):
            begun = None if self.is_done(run) or self.is_claimed(run) else self._begun(run)
            if begun is not None:
                made[run] = begun
        return {run: changed for run, experiment in made.items() if (changed := self._changes(run, experiment))}

    def _changes(self, run: ComparedRun, made: Experiment) -> list[str]:
        task, made = self.task_of_seed(self.comparison.seeds[0]), without_paths(made)
        experiment = self.comparison.experiment(run.method, run.seed)
        train = replace(experiment.train, lr=made.train.lr, steps=made.train.steps)
        expected = self._fitted(replace(task, experiment=replace(experiment, train=train)), run.method).experiment
        return differing_settings(to_json(made), to_json(without_paths(expected)))

    def _begun(self, run: ComparedRun) -> Experiment | None:
        """The settings of a run that has begun; what is wrong with its files is said when it goes on."""
        try:
            begun = read_experiment(RunFolder.open(self.folder / run.name))
        except InputError:
            return None
        data = self.comparison.experiment(run.method, run.seed).data
        return begun if without_paths(begun).data == without_paths(replace(begun, data=data)).data else None

    def task_of_seed(self, seed: int) -> Task:
        """The data with the labels of a seed; it is read once for all methods and seeds."""
        if seed not in self.tasks:
            experiment = self._first_experiment(seed)
            known = next(iter(self.tasks.values()), None)
            root = Path(experiment.data.name).expanduser()
            task = prepare(experiment) if known is None else task_on(known.dataset, experiment, root=root)
            self.tasks.clear()
            self.tasks[seed] = task
        return self.tasks[seed]

    def _first_experiment(self, seed: int) -> Experiment:
        return self.comparison.experiment(self.comparison.methods[0], seed)

    def require_same_data(self) -> None:
        """Refuse data or labels of any seed other than those that the comparison began with, or its runs were made on.

        Before any run: a seed whose labels cannot be read is refused here, too, and so are too many labels to hold out.
        """
        seeds, tuning = self.comparison.seeds, self.comparison.tuning
        dataset = self.task_of_seed(seeds[0]).dataset
        if dataset.test is None:
            remedy = "add a folder test beside the folder train, or test_images to an .npz file"
            raise InputError(f"{dataset.name}: has no test set to compare methods on; {remedy}")
        if tuning is not None:
            with_held_out(self.task_of_seed(seeds[0]), tuning.held_out)
        hashes = DataHashes.of(dataset, self.task_of_seed(seeds[0]).given_labels)
        data = {}
        for seed in seeds:
            config = self._first_experiment(seed).data
            labels = visible_labels(dataset, config, root=Path(config.name).expanduser(), seed=seed).labels
            data[seed] = hashes.with_labels(labels)
        self.keep_data(data)
        for finished in [*self.tuning_results(), *self.results()]:
            self.refuse_other_data(finished, source=self.folder)

    def step_times(self, method: str, task: Task) -> StepTimes:
        """Measured once, and again where the folder comes from another machine or settings have changed."""
        path, hardware = self._step_times(method), provenance(self.execution.device)[HARDWARE]
        path.parent.mkdir(exist_ok=True)
        with self.lock(f"{STEP_TIMES}-{path.stem}"):
            train = replace(task.experiment.train, steps=MEASURED_WITH_STEPS)
            long = replace(task.experiment, train=train)
            settings = to_json(replace(long, seed=0, data=DataConfig()))
            if os.path.lexists(path):
                content = self._read(path, remedy="delete it to measure the steps again")
                if content.pop(HARDWARE, None) == hardware and content.pop(SETTINGS, None) == settings:
                    return decode(StepTimes, content, source=str(path))
            times = measure_step_times(replace(task, experiment=long), self.execution)
            write_sealed(path, dataclasses.asdict(times) | {HARDWARE: hardware, SETTINGS: settings})
            return times

    def epochs(self, run: ComparedRun, task: Task, monitor: Monitor) -> Iterator[EpochRecord]:
        """Start or resume the run and save its result; a run that diverges ends there."""
        folder = RunFolder(self.folder / run.name)
        started_at = time.perf_counter() - elapsed_before_s(folder)
        is_begun = (folder.path / EXPERIMENT).is_file()
        go = resume_run if is_begun else start_run
        if not is_begun:
            folder = RunFolder.create(folder.path)
        try:
            if is_finished(folder):  # it was cut off before this was noted here
                require_unchanged(task, folder)
            else:
                yield from go(task, folder, execution=self.execution, monitor=monitor, asked=("test_error",))
        except DivergedError:
            self._finish(run, task, None, wall_s=time.perf_counter() - started_at)
        if not self.is_done(run) and folder.has(FINAL):
            self._finish(run, task, read_outcome(folder), wall_s=time.perf_counter() - started_at)

    def _finish(self, run: ComparedRun, task: Task, outcome: Outcome | None, *, wall_s: float) -> None:
        origin = provenance(self.execution.device)
        if run.seed in self.data:
            origin[DATA] = self.data[run.seed].to_json()
        curve = curve_of(read_epochs(RunFolder.open(self.folder / run.name)))
        self.keep(FinishedRun(run, task.experiment, outcome, curve, wall_s, origin))

    def keep_failure(self, run: ComparedRun, error: Exception) -> None:
        """Record that the run failed, so that the others go on; if the device is lost, none can."""
        try:
            torch.zeros(1, device=self.execution.device).item()
        except RuntimeError:
            raise error from None
        super().keep_failure(run, error)


def elapsed_before_s(folder: RunFolder) -> float:
    """How long the run took in earlier sessions, up to the checkpoint from which it goes on."""
    try:
        lines = folder.epochs(up_to_step=checkpoint_step(folder.checkpoint))
        return max((float(line["elapsed_s"]) for line in lines), default=0.0)
    except (InputError, KeyError, TypeError, ValueError):  # damage is repaired or refused when the run goes on
        return 0.0


def is_finished(folder: RunFolder) -> bool:
    """Whether the run has a readable outcome; a damaged one is written again."""
    try:
        return folder.has(FINAL) and bool(read_outcome(folder) and read_epochs(folder))
    except InputError:
        return False
