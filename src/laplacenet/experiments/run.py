"""From an experiment to a run folder: train, judge every epoch, record, checkpoint, and leave the model for use."""

import dataclasses
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from laplacenet.data import data_hash
from laplacenet.experiments.experiment import Experiment
from laplacenet.experiments.judging import Judge, judged
from laplacenet.experiments.notation import from_json, to_json
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
from laplacenet.models import Inference, Network, load_model, save_model
from laplacenet.runtime import InputError, Monitor, NullMonitor, RunFolder, provenance
from laplacenet.runtime.run_folder import EXPERIMENT, PROVENANCE
from laplacenet.training import Epoch, Execution, Position, Run, load_checkpoint, save_checkpoint, train
from laplacenet.training.checkpoint import checkpoint_identity, checkpoint_records, refuse_other
from laplacenet.training.guards import evenly_spread, require_finite

log = logging.getLogger(__name__)

ASKED_LAST = ("test_error", "train_invariance", "test_invariance", "test_invariance_as_labeled")
"""What the last network is judged by, as `Judge` and `Outcome` call it: each a matter of a pass over the data."""


def run_experiment(
    experiment: Experiment, folder: RunFolder, *, execution: Execution, monitor: Monitor | None = None
) -> Outcome | None:
    """A whole fresh run in one call; None where the monitor stopped it before its last step."""
    for _ in start_run(prepare(experiment), folder, execution=execution, monitor=monitor):
        pass
    return read_outcome(folder) if folder.has(FINAL) else None


def start_run(
    task: Task, folder: RunFolder, *, execution: Execution, monitor: Monitor | None = None
) -> Iterator[EpochRecord]:
    """A fresh run: yields every epoch once it is recorded, and after the last step the folder holds the outcome.

    The monitor hears of every step and may stop the run between two of them; it can then be resumed.
    """
    with folder.locked():
        if folder.has(EXPERIMENT):
            raise InputError(f"{folder.path}: holds a run already; resume it with --resume {folder.path}")
        network, known_as = task.network(), identity(task)
        start = Position(step=0, epoch=0, plan=None, momentum={})
        folder.write_sealed(PROVENANCE, provenance(execution.device) | origin(task))
        save_checkpoint(folder.checkpoint, network, start, identity=known_as)
        folder.write(EXPERIMENT, to_json(task.experiment))  # last: what has begun can be resumed
        yield from _Session(task, folder, network, execution, known_as).epochs(start, monitor or NullMonitor())


def resume_run(
    task: Task, folder: RunFolder, *, execution: Execution, monitor: Monitor | None = None
) -> Iterator[EpochRecord]:
    """The folder's run from its checkpoint on, as if it had never stopped; later records are dropped and made again.

    What was found damaged and how it was made good is logged as a warning; what cannot be made good is refused.
    """
    with folder.locked():
        _refuse_finished(folder)
        network, known_as = task.network(), identity(task)
        start = load_checkpoint(folder.checkpoint, network, identity=known_as)
        folder.clear_leftovers()
        folder.restore_epoch_lines(checkpoint_records(folder.checkpoint))
        history, now = _history(folder, task), provenance(execution.device)
        _say_what_changed(history, now)
        folder.write_sealed(PROVENANCE, history | {"resumed": [*history.get("resumed", []), now]})
        yield from _Session(task, folder, network, execution, known_as).epochs(start, monitor or NullMonitor())


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
    """What is known of the run's earlier sessions."""
    try:
        return folder.read_sealed(PROVENANCE)
    except InputError as error:
        log.warning("%s; what ran before is no longer known", error)
        return origin(task) | {"is_incomplete": True}


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


def require_unchanged(task: Task, folder: RunFolder) -> None:
    """Refuse to judge a run by settings or data other than those of its checkpoint, if it still has one."""
    found = checkpoint_identity(folder.checkpoint)
    if found is not None:
        refuse_other(folder.checkpoint, found, identity(task))


def read_experiment(folder: RunFolder) -> Experiment:
    """The resolved experiment that the folder's run was made from."""
    return from_json(folder.read(EXPERIMENT), source=str(folder.path / EXPERIMENT))


def origin(task: Task) -> dict[str, Any]:
    """What a run's numbers come from, beside code and hardware."""
    parts = {"train": task.dataset.train, "test": task.dataset.test}
    hashes = {name: data_hash(part) for name, part in parts.items() if part is not None}
    return {"seed": task.experiment.seed, "data": {"name": task.dataset.name, **hashes}}


def identity(task: Task) -> dict[str, Any]:
    """What a checkpoint must agree with: every setting, the inputs, and the labels that training sees; no others."""
    settings = {
        f"{section}.{name}" if isinstance(content, dict) else section: value
        for section, content in to_json(task.experiment).items()
        for name, value in (content.items() if isinstance(content, dict) else [("", content)])
    }
    seen = dataclasses.replace(task.dataset.train, labels=task.given_labels, class_names=task.class_names)
    return settings | {"hash of inputs and given labels": data_hash(seen)}


@dataclass(frozen=True)
class _Session:
    """One session of a run, from its start or from a checkpoint to its end or to an interruption."""

    task: Task
    folder: RunFolder
    network: Network
    execution: Execution
    identity: dict[str, Any]

    def epochs(self, start: Position, monitor: Monitor) -> Iterator[EpochRecord]:
        elapsed_before_s = max((record.elapsed_s for record in read_epochs(self.folder)), default=0.0)
        inference = Inference(self.network, self.task.views.plain)
        started_at = saved_at = time.perf_counter()
        position, saved, compile_s = start, start, 0.0
        for epoch, epoch_s in _timed(train(self._run(), start=start, monitor=monitor)):
            inference, position = epoch.inference, epoch.position
            step_s = (epoch_s - epoch.label_s - (epoch.compile_s - compile_s)) / max(1, epoch.n_steps)
            record = dataclasses.replace(
                judged(self.task, epoch),
                step_s=step_s,
                compile_s=epoch.compile_s - compile_s,
                elapsed_s=elapsed_before_s + time.perf_counter() - started_at,
            )
            compile_s = epoch.compile_s
            if epoch.n_steps:
                self.folder.append_epoch(record.to_json())
            if time.perf_counter() - saved_at >= self.execution.checkpoint_every_s:
                self._save(position, inference)
                saved, saved_at = position, time.perf_counter()
            if epoch.n_steps:
                yield record
        if position is not saved:
            self._save(position, inference)
        if position.step == self.task.experiment.train.steps:
            self._finish(inference, monitor)

    def _run(self) -> Run:
        task = self.task
        return Run(task.method, self.network, task.inputs, task.views, task.experiment.train, self.execution)

    def _save(self, position: Position, inference: Inference) -> None:
        """A checkpoint, unless the network has come to say nothing: then the one before stays the last good one."""
        outputs = inference.logits(evenly_spread(self.task.inputs))
        require_finite(outputs, what="outputs", step=position.step)
        records = self.folder.epoch_lines()
        save_checkpoint(self.folder.checkpoint, self.network, position, identity=self.identity, records=records)

    def _finish(self, inference: Inference, monitor: Monitor) -> None:
        """The model and the outcome; where the monitor says stop before they are made, a resumption makes them."""
        save_model(self.folder.path, self.network, self.task.description)
        judge = Judge(self.task, inference)
        found: dict[str, Any] = {name: getattr(judge, name) for name in ASKED_LAST if not monitor.should_stop}
        if len(found) == len(ASKED_LAST):
            outcome = outcome_of(read_epochs(self.folder), n_labeled=self.task.n_labeled)
            write_outcome(self.folder, dataclasses.replace(outcome, **found))


def _timed(epochs: Iterator[Epoch]) -> Iterator[tuple[Epoch, float]]:
    """Each epoch with the seconds it took, without what its receiver does with it."""
    while True:
        started_at = time.perf_counter()
        epoch = next(epochs, None)
        if epoch is None:
            return
        yield epoch, time.perf_counter() - started_at
