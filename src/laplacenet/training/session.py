"""Training that can be interrupted: every epoch is recorded and, now and then, everything is saved.

A checkpoint is copied to the host at once and written beside the steps that follow. It has to be whole before the next
epoch is recorded: there at the latest an error of the disk ends the run, and nothing else is written meanwhile.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from laplacenet.runtime import Group, Monitor, RunFolder, current_group
from laplacenet.runtime.device import convolution_trials
from laplacenet.runtime.timeline import JUDGING, SAVING, mark
from laplacenet.training.background import BackgroundWork
from laplacenet.training.checkpoint import (
    Snapshot,
    Upgrade,
    as_it_is,
    checkpoint_records,
    load_checkpoint,
    write_checkpoint,
)
from laplacenet.training.guards import evenly_spread, require_finite
from laplacenet.training.loop import Epoch, Position, Run, train

Record = TypeVar("Record")


@dataclass(frozen=True)
class Times:
    """Seconds: the mean of a step, compilation and capture in this epoch, and all of the run so far."""

    step_s: float
    compile_s: float
    elapsed_s: float


@dataclass(frozen=True)
class Session(Generic[Record]):
    """One stretch of a run: from its start or a checkpoint to its end or an interruption.

    `record` makes the line of an epoch (a dataclass with `to_json`), which joins the folder's epochs. `checkpoint` is
    where this run is saved; it holds the folder's lines too, so that a resumed run drops those that came later.
    `upgrade` reads the identity of a checkpoint that is older than some settings.
    """

    run: Run
    folder: RunFolder
    checkpoint: Path
    identity: dict[str, Any]
    record: Callable[[Epoch, Times], Record]
    upgrade: Upgrade = as_it_is
    writing: BackgroundWork = field(default_factory=BackgroundWork)

    def begin(self) -> Position:
        """A fresh run; saved at once, so that what has begun can be resumed."""
        start = Position()

        def save() -> None:
            snapshot, lines = Snapshot.of(self.run.learner, start), self.folder.epoch_lines()  # those of earlier stages
            write_checkpoint(self.checkpoint, snapshot, identity=self.identity, records=lines)

        self.group.by_first(save)
        return start

    def resume(self) -> Position:
        """Load the checkpoint into the learner, and put back the records as they were then.

        Of several processes the first reads it; the others are given the learner when training begins.
        """

        def load() -> Position:
            start = load_checkpoint(self.checkpoint, self.run.learner, identity=self.identity, upgrade=self.upgrade)
            self.folder.restore_epoch_lines(checkpoint_records(self.checkpoint))
            return start

        return self.group.by_first(load)

    @contextlib.contextmanager
    def saved(self) -> Iterator[None]:
        """Whatever ends the work inside, the last checkpoint is whole, or its error raised, before anything follows."""
        try:
            yield
        except GeneratorExit:
            self.writing.wait()
            raise
        except BaseException:
            self.writing.join()  # what ended the work is said, not what came after it
            raise
        self.group.by_first(self.writing.wait)

    def epochs(self, start: Position, monitor: Monitor) -> Iterator[tuple[Position, Record]]:
        """Yields every epoch once it is recorded; a checkpoint is left whenever it stops. To be used inside `saved`."""
        group = self.group
        elapsed_before_s = group.by_first(
            lambda: max((line["elapsed_s"] for line in self.folder.epochs()), default=0.0)
        )
        started_at = saved_at = time.perf_counter()
        position, saved, compile_s = start, start, 0.0
        for epoch, epoch_s in _timed(train(self.run, start=start, monitor=monitor)):
            position = epoch.position
            compiled_s, compile_s = epoch.compile_s - compile_s, epoch.compile_s
            if epoch.n_steps:
                step_s = (epoch_s - epoch.label_s - compiled_s) / epoch.n_steps
                elapsed_s = elapsed_before_s + time.perf_counter() - started_at
                record = group.by_first(partial(self._record, epoch, Times(step_s, compiled_s, elapsed_s)))
            mark(JUDGING)
            if group.agree(time.perf_counter() - saved_at >= self.run.execution.checkpoint_every_s):
                self.save(position)
                saved, saved_at = position, time.perf_counter()
            if epoch.n_steps:
                yield position, record
        if position is not saved:
            self.save(position)

    @property
    def group(self) -> Group:
        return current_group()

    def _record(self, epoch: Epoch, times: Times) -> Record:
        self.writing.wait()
        mark(SAVING)
        record: Any = self.record(epoch, times)
        self.folder.append_epoch(record.to_json())
        return record  # type: ignore[no-any-return]

    def save(self, position: Position) -> None:
        """Begin a checkpoint, unless outputs are no longer finite: then the one before stays the last good one."""
        self.group.by_first(partial(self._save, position))
        mark(SAVING)

    def _save(self, position: Position) -> None:
        with convolution_trials(False):  # a batch of another size than all others: trials would take longer than it
            outputs = self.run.inference.logits(evenly_spread(self.run.inputs))
        require_finite(outputs, what="outputs", step=position.step)
        snapshot = Snapshot.of(self.run.learner, position)

        def write() -> None:
            lines = self.folder.epoch_lines()  # no line is added before this has ended
            write_checkpoint(self.checkpoint, snapshot, identity=self.identity, records=lines)

        self.writing.start(write)


def _timed(epochs: Iterator[Epoch]) -> Iterator[tuple[Epoch, float]]:
    """Each epoch with the seconds it took, without what its receiver does with it."""
    while True:
        started_at = time.perf_counter()
        epoch = next(epochs, None)
        if epoch is None:
            return
        yield epoch, time.perf_counter() - started_at
