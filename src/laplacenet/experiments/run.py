"""From an experiment to a run folder: train, evaluate every epoch, record, checkpoint, and save the model."""

import dataclasses
import functools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from laplacenet.data import data_hash, rows_hash
from laplacenet.experiments.experiment import Experiment
from laplacenet.experiments.judging import Judge, judge_epoch
from laplacenet.experiments.notation import by_path, from_json, to_json, with_later_settings
from laplacenet.experiments.run_records import (
    FINAL,
    EpochRecord,
    Outcome,
    outcome_of,
    read_epochs,
    read_outcome,
    write_outcome,
)
from laplacenet.experiments.task import Task, prepare
from laplacenet.models import load_model, save_model
from laplacenet.runtime import (
    InputError,
    Monitor,
    NullMonitor,
    RunFolder,
    current_group,
    entered_by_first,
    provenance,
)
from laplacenet.runtime.group import require_same_in_all
from laplacenet.runtime.run_folder import EXPERIMENT, PROVENANCE
from laplacenet.runtime.timeline import mark
from laplacenet.training import Epoch, Execution, Position, Run, Session, Times
from laplacenet.training.checkpoint import checkpoint_identity, refuse_other
from laplacenet.training.supply import resident

log = logging.getLogger(__name__)

ASKED_LAST = ("test_error", "train_invariance", "test_invariance", "test_invariance_as_labeled")
"""What the last network is judged by, as `Judge` and `Outcome` call it: each a matter of a pass over the data."""
HASH = "hash of inputs and given labels"
LABELED = "labeled rows"
"""In a run's provenance: the hash of the numbers of the rows whose labels it was given."""
JUDGE_EVERY = "judge_every"
"""In a run's provenance, if it is not tested after every epoch."""


def run_experiment(
    experiment: Experiment, folder: RunFolder, *, execution: Execution, monitor: Monitor | None = None
) -> Outcome | None:
    """A whole fresh run in one call; None where the monitor stopped it before its last step."""
    for _ in start_run(prepare(experiment), folder, execution=execution, monitor=monitor):
        pass
    return read_outcome(folder) if folder.has(FINAL) else None


def start_run(
    task: Task,
    folder: RunFolder,
    *,
    execution: Execution,
    monitor: Monitor | None = None,
    asked: Sequence[str] = ASKED_LAST,
) -> Iterator[EpochRecord]:
    """A fresh run: yields every epoch once it is recorded, and after the last step the folder holds the outcome.

    The monitor counts the steps and may stop the run between two of them; it can then be resumed. `asked` says by which
    measures the last network is judged.
    """
    group, now = current_group(), session_origin(execution)

    def write_origin() -> None:
        if folder.has(EXPERIMENT):
            raise InputError(f"{folder.path}: holds a run already; resume it with --resume {folder.path}")
        seldom = {JUDGE_EVERY: execution.judge_every} if execution.judge_every > 1 else {}
        folder.write_sealed(PROVENANCE, now | origin(task) | seldom)

    with entered_by_first(folder.locked()):
        started = TaskRun.make(task, folder, execution, asked=asked)
        group.by_first(write_origin)
        mark("hashing")
        start = started.session.begin()
        mark("first checkpoint")
        group.by_first(lambda: folder.write_experiment(to_json(task.experiment)))  # last: now it can be resumed
        yield from started.epochs(start, monitor or NullMonitor())


def resume_run(
    task: Task,
    folder: RunFolder,
    *,
    execution: Execution,
    monitor: Monitor | None = None,
    asked: Sequence[str] = ASKED_LAST,
) -> Iterator[EpochRecord]:
    """The folder's run from its checkpoint on, as if it had never stopped; later records are dropped and made again.

    Damage that can be repaired is logged as a warning; other damage is refused.
    """
    group, now = current_group(), session_origin(execution)

    def write_origin() -> None:
        history = _history(folder, task)
        warn_of_other_test_set(task, history)
        _say_what_changed(history, now)
        folder.write_sealed(PROVENANCE, history | {"resumed": [*history.get("resumed", []), now]})

    with entered_by_first(folder.locked()):
        group.by_first(lambda: _refuse_finished(folder))
        resumed = TaskRun.make(task, folder, execution, asked=asked)
        group.by_first(folder.clear_leftovers)
        start = resumed.session.resume()
        group.by_first(write_origin)
        yield from resumed.epochs(start, monitor or NullMonitor())


def _refuse_finished(folder: RunFolder) -> None:
    """A finished run is left alone, but one whose outcome was damaged since is finished again."""
    if not folder.has(FINAL):
        return
    try:
        read_outcome(folder), read_epochs(folder), load_model(folder.path)
    except InputError as error:
        log.warning("%s; made again from the last checkpoint", error)
        (folder.path / FINAL).unlink()
        return
    raise InputError(f"{folder.path}: this run is finished; there is nothing to resume")


def _history(folder: RunFolder, task: Task) -> dict[str, Any]:
    """The records of the run's earlier sessions."""
    try:
        found = folder.read_sealed(PROVENANCE)
        for part, kind in (("libraries", dict), ("hardware", dict), ("resumed", list)):
            if not isinstance(found.get(part, kind()), kind):
                raise InputError(f"{folder.path / PROVENANCE}: {part} is not what a run writes there")  # noqa: TRY301
    except InputError as error:
        log.warning("%s; what ran before is no longer known", error)
        return origin(task) | {"is_incomplete": True}
    return found


def _say_what_changed(history: dict[str, Any], now: dict[str, Any]) -> None:
    """Only where the same libraries compute on the same kind of device do they give the same bits.

    On a CPU as many threads, too: they share sums among themselves.
    """
    is_on_cpu = now["hardware"]["device"] == "cpu"
    for part in ("libraries", "hardware"):
        for name in ("torch", "numpy", "device", "gpu", *(["threads"] if is_on_cpu else [])):
            was, becomes = history.get(part, {}).get(name), now[part].get(name)
            if was != becomes and None not in (was, becomes):
                log.warning(
                    "this run began with %s %s and goes on with %s: its result is no longer exact to the bit",
                    name,
                    was,
                    becomes,
                )


def labeled_rows_of(history: dict[str, Any]) -> str | None:
    """That hash; None where a run is older than it."""
    data = history.get("data")
    found = data.get(LABELED) if isinstance(data, dict) else None
    return found if isinstance(found, str) else None


def require_unchanged(task: Task, folder: RunFolder) -> None:
    """Refuse to judge a run by settings or data other than those of its checkpoint, if it still has one."""
    found = checkpoint_identity(folder.checkpoint)
    if found is not None:
        found = identity_as_written_now(found, source=str(folder.checkpoint))
        refuse_other(folder.checkpoint, found, identity(task))


def warn_of_other_test_set(task: Task, history: dict[str, Any]) -> None:
    """Training never sees the test set, so another one is no reason to refuse."""
    data = history.get("data")
    was, now = data.get("test") if isinstance(data, dict) else None, origin(task)["data"].get("test")
    if was is not None and was != now:
        log.warning("the test set has changed since this run began; earlier and later test errors cannot be compared")


def judged_every(folder: RunFolder) -> int:
    """The run was to be tested after every so many epochs when it began; 1 where that is not known."""
    try:
        found = folder.read_sealed(PROVENANCE).get(JUDGE_EVERY)
    except InputError:  # said when the run is resumed
        return 1
    return found if type(found) is int and found > 1 else 1


def read_experiment(folder: RunFolder) -> Experiment:
    """The resolved experiment that the folder's run was made from."""
    content = folder.read_experiment()
    if isinstance(content, dict) and content.get("kind") == "labeling":
        raise InputError(
            f"{folder.path}: a run of label, not of train; resume it with laplacenet label --resume {folder.path},"
            f" evaluate it with laplacenet evaluate {folder.path}"
        )
    return from_json(content, source=str(folder.path / EXPERIMENT))


def session_origin(execution: Execution) -> dict[str, Any]:
    """The code and the hardware of this session, and the number of processes if there are several."""
    size = current_group().size
    return provenance(execution.device) | ({"processes": size} if size > 1 else {})


def origin(task: Task) -> dict[str, Any]:
    """The provenance of a run's numbers besides code and hardware."""
    parts = {"train": task.dataset.train, "test": task.dataset.test}
    hashes = {name: data_hash(part) for name, part in parts.items() if part is not None}
    labeled = rows_hash((task.given_labels >= 0).nonzero().flatten())
    return {"seed": task.experiment.seed, "data": {"name": task.dataset.name, **hashes, LABELED: labeled}}


def identity(task: Task) -> dict[str, Any]:
    """What a checkpoint must agree with: every setting, the inputs, and the labels that training sees; no others."""
    seen = dataclasses.replace(task.dataset.train, labels=task.given_labels, class_names=task.class_names)
    return by_path(to_json(task.experiment)) | {HASH: data_hash(seen)}


def identity_as_written_now(found: dict[str, Any], *, source: str) -> dict[str, Any]:
    """That of a checkpoint which may be older than some settings; one with a setting that is not known is refused."""
    settings: dict[str, Any] = {}
    for path, value in found.items():
        section, dot, name = path.partition(".")
        if not dot:
            settings[section] = value
        elif isinstance(part := settings.setdefault(section, {}), dict):  # else it is refused when it is read
            part[name] = value
    return {HASH: settings.pop(HASH, None)} | by_path(with_later_settings(settings, source=source))


@dataclass(frozen=True)
class TaskRun:
    """A running task in its folder."""

    task: Task
    folder: RunFolder
    run: Run
    session: Session[EpochRecord]
    asked: Sequence[str] = ASKED_LAST

    @classmethod
    def make(
        cls, task: Task, folder: RunFolder, execution: Execution, *, asked: Sequence[str] = ASKED_LAST
    ) -> "TaskRun":
        known = identity(task)
        if current_group().reduces:
            require_same_in_all(known)
        run = Run.of(task.method, task.network(), task.inputs, execution)

        @functools.cache
        def test_inputs() -> Tensor | None:
            inputs = task.test_inputs
            limit = execution.resident_bytes
            return None if inputs is None else resident(inputs, execution.device, resident_bytes=limit)

        def record(epoch: Epoch, times: Times) -> EpochRecord:
            return judge_epoch(task, epoch, times, test_inputs=test_inputs, every=execution.judge_every)

        upgrade = functools.partial(identity_as_written_now, source=str(folder.checkpoint))
        return cls(task, folder, run, Session(run, folder, folder.checkpoint, known, record, upgrade), asked)

    def epochs(self, start: Position, monitor: Monitor) -> Iterator[EpochRecord]:
        position = start
        with self.session.saved():
            for position, record in self.session.epochs(start, monitor):  # noqa: B007 - the last position decides below
                yield record
            if position.step == self.task.experiment.train.steps:
                current_group().by_first(lambda: self._finish(monitor))

    def _finish(self, monitor: Monitor) -> None:
        """The model and the outcome; where the monitor says stop before they are made, a resumption makes them.

        Meanwhile the last checkpoint is written; there is an outcome only when that is whole.
        """
        save_model(self.folder.path, self.run.network, self.task.description)
        mark("saving the model")
        judge = Judge(self.task, self.run.inference)
        found: dict[str, Any] = {name: getattr(judge, name) for name in self.asked if not monitor.should_stop}
        self.session.writing.wait()
        if len(found) == len(self.asked):
            outcome = outcome_of(read_epochs(self.folder), n_labeled=self.task.n_labeled)
            write_outcome(self.folder, dataclasses.replace(outcome, **found))
        mark("last judgments")
