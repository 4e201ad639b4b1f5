"""The folder of a comparison: what is compared there, who works on which run, and what is finished or failed."""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import filelock

from laplacenet.experiments.compare.comparison import Comparison
from laplacenet.experiments.finished_runs import ComparedRun, FailedRun, FinishedRun, read_finished_run
from laplacenet.experiments.notation import with_later_settings
from laplacenet.runtime import InputError, read_json, read_sealed, write_sealed
from laplacenet.runtime.decoding import decode
from laplacenet.runtime.files import CHECKSUM, TEMPORARY

STATE = "comparison.json"
FINISHED, FAILED, STEP_TIMES, CLAIMS = "finished", "failed", "step-times", "claims"
OWN_NAMES = (STATE, FINISHED, FAILED, STEP_TIMES, CLAIMS)


@dataclass(frozen=True, eq=False)
class ComparisonFolder:
    """A comparison's files. Several processes may work in one folder at once: each claims the runs that it makes.

    Runs that failed since `began_at` are skipped; a later command tries them again.
    """

    comparison: Comparison
    folder: Path
    began_at: float = field(default_factory=time.time, kw_only=True)

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
        return self.comparison.identity

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
                self.keep(finished)

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

    def is_done(self, run: ComparedRun) -> bool:
        return os.path.lexists(self._finished(run))  # what is no file is refused when it is read

    def result(self, run: ComparedRun) -> FinishedRun:
        path = self._finished(run)
        return read_finished_run(self._read(path, remedy="delete it to make it again from its run"), source=str(path))

    def keep(self, finished: FinishedRun) -> None:
        """With this file the run is finished."""
        write_sealed(self._finished(finished.run), finished.to_json())

    def _finished(self, run: ComparedRun) -> Path:
        return self.folder / FINISHED / (run.name.replace("/", "-") + ".json")

    def keep_failure(self, run: ComparedRun, error: Exception) -> None:
        """Record that the run failed, so that the others go on."""
        path = self._failed(run)
        path.parent.mkdir(exist_ok=True)
        write_sealed(path, FailedRun.of(run, error, failed_at=time.time()).to_json())

    def has_failed(self, run: ComparedRun) -> bool:
        return os.path.lexists(self._failed(run)) and self._failure(run).failed_at >= self.began_at

    def _failure(self, run: ComparedRun) -> FailedRun:
        path = self._failed(run)
        return decode(FailedRun, self._read(path, remedy="delete it"), source=str(path))

    def _failed(self, run: ComparedRun) -> Path:
        return self.folder / FAILED / (run.name.replace("/", "-") + ".json")

    def _read(self, path: Path, *, remedy: str) -> dict[str, Any]:
        """The content of a file with a checksum; the error for a damaged one says what to do."""
        try:
            return read_sealed(path)
        except InputError as error:
            raise InputError(f"{error}; {remedy}") from error
