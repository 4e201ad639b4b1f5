"""Reproduce the paper: from cells to runs to records, each run once, resumable at any time.

A run lies in a folder of its own below the runs until it is recorded. Whatever is recorded is skipped; whatever was cut
off goes on from its checkpoint, on another machine too if its folder was copied there.
"""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jaxtyping import Int64
from torch import Tensor

from laplacenet.data import load_dataset, read_split, rows_hash
from laplacenet.experiments.experiment import Experiment, without_paths
from laplacenet.experiments.notation import override
from laplacenet.experiments.paper.plan import PlanEntry
from laplacenet.experiments.paper.recipes import Cell
from laplacenet.experiments.paper.records import Record, RunKey, make_record, read_record, record_path, write_record
from laplacenet.experiments.paper.series import settings_of
from laplacenet.experiments.paper.variants import OWN_METHODS, PAPER_STEPS, n_labels_asked, on_split, varied_as
from laplacenet.experiments.presets import with_method_preset, with_preset
from laplacenet.experiments.run import labeled_rows_of, read_experiment, resume_run, start_run
from laplacenet.experiments.run_records import FINAL, EpochRecord, last_known, outcome_of, read_epochs, read_outcome
from laplacenet.experiments.task import Task, prepare
from laplacenet.runtime import InputError, Monitor, RunFolder, current_group
from laplacenet.runtime.run_folder import EXPERIMENT, PROVENANCE
from laplacenet.training import DivergedError, Execution
from laplacenet.training.methods.presets import METHOD_PRESETS

MOST_ROWS = 10**12  # a split is read before its data set is
Go = Callable[..., Iterator[EpochRecord]]
FIXED = {"method.name": "--row", "data.name": "--column", "seed": "--splits", "train.steps": "--steps"}
"""What a cell of the paper decides itself, and the options that choose it."""


@dataclass(frozen=True)
class Places:
    """Where data and published splits are found (by data set) and where runs and records go."""

    runs: Path = Path("runs")
    results: Path = Path("results")
    data: str | None = None
    split_files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedRun:
    """One run: the resolved experiment and the key under which it is kept."""

    key: RunKey
    experiment: Experiment


def plan_run(
    cell: Cell,
    split: int,
    places: Places,
    *,
    base_steps: int = PAPER_STEPS,
    preset: str | None = None,
    overrides: tuple[str, ...] = (),
) -> PlannedRun:
    """The cell on one split: a published one if its data set's file is given, else one drawn by its number.

    A preset takes the place of the paper's settings; data, network, steps and what sets the cell apart from the others
    (its method, one view, no alignment) remain. Like any override it is part of the key, so the run never counts as the
    paper's.
    """
    settings, split_file = overrides, places.split_files.get(cell.dataset)
    experiment = on_split(cell.experiment, split, folder=places.data, split_file=split_file, base_steps=base_steps)
    source = "balanced" if split_file is None else "published"
    is_own = cell.experiment.method.name in OWN_METHODS
    if preset in METHOD_PRESETS and (is_own or cell.preset is not None):
        preset = None  # the cell has these settings already
    if preset is not None:
        if preset in METHOD_PRESETS:
            laid = with_method_preset(experiment, preset)
        elif is_own:
            laid = varied_as(cell.experiment, with_preset(experiment, preset))
        else:
            methods = " and ".join(METHOD_PRESETS)
            raise InputError(f"--preset {preset} is for LaplaceNet and its baselines; {cell.row} has {methods}")
        experiment = replace(laid, name=experiment.name, train=replace(laid.train, steps=experiment.train.steps))
        overrides = (f"preset={preset}", *overrides)
    key = RunKey(cell.experiment.name, split, source, base_steps, overrides)
    return PlannedRun(key, override(experiment, settings, fixed=FIXED))


def unique(runs: Iterable[PlannedRun]) -> list[PlannedRun]:
    """Each run once, at its first occurrence."""
    return list({run.key: run for run in runs}.values())


def plan_runs(entries: Iterable[PlanEntry], places: Places) -> list[PlannedRun]:
    """Split after split within an entry, so that every cell has one run before any has two."""
    return unique(
        plan_run(cell, split, places, base_steps=entry.base_steps)
        for entry in entries
        for split in entry.splits
        for cell in entry.cells()
    )


def is_recorded(run: PlannedRun, results: Path) -> bool:
    """Whether there is a record of this run.

    Anything else in its place is refused, so that it is not replaced: a damaged record, that of another run, or one
    made with an earlier version of the recipe or preset.
    """
    path, remedy = record_path(results, run.key), "move it away or choose another --results"
    if not os.path.lexists(path):
        return False
    if not path.is_file():
        raise InputError(f"{path}: is not a file; {remedy}")
    try:
        record = read_record(path)
    except InputError as error:
        raise InputError(f"{error}; {remedy}") from error
    if record.key != run.key:
        raise InputError(f"{path}: holds the record of another run; {remedy}")
    if settings_of(record.experiment) != settings_of(run.experiment):
        words = ", ".join(run.key.overrides) or "this row of the paper"
        raise InputError(f"{path}: recorded when {words} meant other settings; {remedy}")
    if has_other_labels(run, record.provenance):
        data = run.experiment.data
        raise InputError(f"{path}: recorded with other labels than {data.split_key} of {data.split_file}; {remedy}")
    return True


def given_rows(run: PlannedRun) -> Int64[Tensor, " n_labeled"] | None:
    """The rows of a published split, without reading the data; None where a split is drawn."""
    data = run.experiment.data
    return None if data.split_file is None else read_split(data.split_file, data.split_key, n=MOST_ROWS).labeled


def require_whole_split(run: PlannedRun) -> None:
    """Refuse a split that is missing, or that has not as many rows as its key says; the data is not read."""
    data, rows = run.experiment.data, given_rows(run)
    n_labeled = n_labels_asked(data)
    if rows is not None and n_labeled not in (None, len(rows)):
        raise InputError(
            f"{data.split_file}: its split {data.split_key} has {len(rows)} rows, not {n_labeled}; give a complete one"
        )


def require_balanced(task: Task) -> None:
    """Refuse a split whose classes have unequally many labels: it is of other data, since published ones are balanced.

    All splits that the paper uses are; their row numbers alone do not say which data set they are of.
    """
    data = task.experiment.data
    if data.split_file is None:
        return
    given, true = (labels[labels >= 0] for labels in (task.given_labels, task.true_labels))
    n_classes = len(task.class_names)
    counts = given.bincount(minlength=n_classes)[true.bincount(minlength=n_classes) > 0]
    fewest, most = int(counts.min()), int(counts.max())
    if fewest != most:
        raise InputError(
            f"{data.split_file}: its split {data.split_key} has {fewest} to {most} labels per class in {data.name};"
            " published splits have the same number of each, so use one made for this data set"
        )


def has_other_labels(run: PlannedRun, history: dict[str, Any]) -> bool:
    """Than the run that has this provenance; False where that is not known."""
    known = labeled_rows_of(history)
    rows = None if known is None else given_rows(run)
    return rows is not None and known != rows_hash(rows)


def unreadable_datasets(runs: Iterable[PlannedRun]) -> dict[str, str]:
    """The data sets that cannot be read here, and why; their runs have to wait."""
    reasons = {}
    for data in {run.experiment.data.name: run.experiment.data for run in runs}.values():
        try:
            load_dataset(data.name, folder=data.folder)
        except InputError as error:
            reasons[data.name] = str(error)
    return reasons


def carry_out(run: PlannedRun, places: Places, *, execution: Execution, monitor: Monitor) -> Iterator[EpochRecord]:
    """Start or continue the run and write its record if it ends; yields its epochs as they come."""
    path, group = places.runs / run.key.path, current_group()
    if not group.by_first((path / FINAL).is_file):  # else it ended, and was cut off before it was recorded
        task = prepare(run.experiment)
        require_balanced(task)
        # only now: while the data was read, another process may have begun the run
        is_begun = group.by_first((path / EXPERIMENT).is_file)
        task, folder, go = _begun(run, task, path) if is_begun else _fresh(task, path)
        try:
            yield from go(task, folder, execution=execution, monitor=monitor)
        except DivergedError:
            group.by_first(lambda: write_record(places.results, _diverged(run, folder, n_labeled=task.n_labeled)))
            return
    if group.by_first((path / FINAL).is_file):
        group.by_first(lambda: write_record(places.results, _finished(run, path)))


def _fresh(task: Task, path: Path) -> tuple[Task, RunFolder, Go]:
    """A new folder, in place of one that was cut off before its first checkpoint."""
    return task, RunFolder(current_group().by_first(lambda: RunFolder.create(path, option="--runs").path)), start_run


def _begun(run: PlannedRun, task: Task, path: Path) -> tuple[Task, RunFolder, Go]:
    """The data from where they lie here; a run that began elsewhere keeps its own words for where they lay there.

    Its checkpoint knows which labels it was given, whatever file or folder they came from.
    """
    folder = RunFolder.open(path)
    experiment = read_experiment(folder)
    require_same_settings(run, experiment, path)
    return dataclasses.replace(task, experiment=experiment), folder, resume_run


def require_same_settings(run: PlannedRun, found: Experiment, path: Path) -> None:
    """Wherever its data and its split lay."""

    def bare(experiment: Experiment) -> Experiment:
        data = without_paths(experiment).data
        return replace(experiment, data=replace(data, split_file=data.split_file and ""))

    if bare(found) != bare(run.experiment):
        raise InputError(f"{path}: holds a run with other settings than {run.key.name}; move it away")


def _finished(run: PlannedRun, path: Path) -> Record:
    """What is planned now must be what was run then."""
    folder = RunFolder.open(path)
    try:
        experiment, history = read_experiment(folder), folder.read_sealed(PROVENANCE)
        outcome, epochs = read_outcome(folder), read_epochs(folder)
    except InputError as error:
        raise InputError(f"{error}; laplacenet train --resume {path} may repair it, or move {path} away") from error
    require_same_settings(run, experiment, path)
    if has_other_labels(run, history):
        raise InputError(f"{path}: holds a run with other labels than {run.key.name}; move it away")
    return make_record(run.key, run.experiment, outcome, epochs=epochs, provenance=history)


def _diverged(run: PlannedRun, folder: RunFolder, *, n_labeled: int) -> Record:
    """Divergence is recorded as a result: the paper reports it for too many steps."""
    epochs = read_epochs(folder)
    outcome = replace(outcome_of(epochs, n_labeled=n_labeled), test_error=last_known(epochs, "test_error"))
    return make_record(
        run.key,
        run.experiment,
        outcome,
        epochs=epochs,
        provenance=folder.read_sealed(PROVENANCE),
        diverged_at_step=outcome.steps,
    )
