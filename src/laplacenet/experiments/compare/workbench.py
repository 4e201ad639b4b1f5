"""The runs of a comparison: each from its data, rate and steps to its result."""

import dataclasses
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch

from laplacenet.experiments.compare.folder import STEP_TIMES
from laplacenet.experiments.compare.held_out import with_held_out
from laplacenet.experiments.compare.schedule import Schedule
from laplacenet.experiments.finished_runs import ComparedRun, FinishedRun, curve_of
from laplacenet.experiments.fitting import fit_method
from laplacenet.experiments.run import resume_run, start_run
from laplacenet.experiments.run_records import FINAL, EpochRecord, Outcome, read_epochs, read_outcome
from laplacenet.experiments.step_times import StepTimes, measure_step_times
from laplacenet.experiments.task import Task, prepare, views_of
from laplacenet.runtime import InputError, Monitor, RunFolder, provenance, write_sealed
from laplacenet.runtime.decoding import decode
from laplacenet.runtime.run_folder import EXPERIMENT
from laplacenet.training import Execution
from laplacenet.training.guards import DivergedError
from laplacenet.training.methods.presets import ORIGINAL

MEASURED_WITH_STEPS = 10**6  # as if for a long run: its supervised start is then not cut


@dataclass(frozen=True, eq=False)
class Workbench(Schedule):
    """A comparison in its folder, with the device to work on. `tasks` keeps the data of the seed that is being run."""

    execution: Execution
    tasks: dict[int, Task] = field(default_factory=dict)

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
        self.keep(FinishedRun(run, task.experiment, outcome, curve, wall_s, origin))

    def keep_failure(self, run: ComparedRun, error: Exception) -> None:
        """Record that the run failed, so that the others go on; if the device is lost, none can."""
        try:
            torch.zeros(1, device=self.execution.device).item()
        except RuntimeError:
            raise error from None
        super().keep_failure(run, error)


def is_finished(folder: RunFolder) -> bool:
    """Whether the run has a readable outcome; a damaged one is written again."""
    try:
        return folder.has(FINAL) and bool(read_outcome(folder) and read_epochs(folder))
    except InputError:
        return False
