"""The folder of a comparison: what is compared there, who works on which run, and what is finished or failed."""

import contextlib
import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import filelock

from laplacenet.experiments.compare.comparison import Comparison, read_comparison
from laplacenet.experiments.compare.data_hashes import DataHashes
from laplacenet.experiments.finished_runs import ComparedRun, FailedRun, FinishedRun, read_finished_run
from laplacenet.runtime import InputError, read_sealed, read_whole, write_sealed
from laplacenet.runtime.decoding import decode
from laplacenet.runtime.files import TEMPORARY, read_unchanged, require_folder

STATE = "comparison.json"
FINISHED, FAILED, STEP_TIMES, CLAIMS, EARLIER = "finished", "failed", "step-times", "claims", "earlier"
RECORD, TABLE, PICTURE = "record.json", "comparison.md", "comparison.png"
OWN_NAMES = (STATE, FINISHED, FAILED, STEP_TIMES, CLAIMS, EARLIER, RECORD, TABLE, PICTURE)
DATA = "data"
"""In `comparison.json` and in the origin of a run: the hashes of its data."""


@dataclass(frozen=True, eq=False)
class ComparisonFolder:
    """A comparison's files. Several processes may work in one folder at once: each claims the runs that it makes.

    `data` are the hashes of each seed's data, once it is read. `earlier_failures` are the failures, by the names of
    their files, that were there when the folder was opened: those runs are tried again. Runs that failed since are
    skipped. No clock decides that, since it may be set back.
    """

    comparison: Comparison
    folder: Path
    data: dict[int, DataHashes] = field(default_factory=dict, kw_only=True)
    earlier_failures: dict[str, bytes] = field(default_factory=dict, kw_only=True)

    def begin(self, record: Path | None = None) -> None:
        """Look at what is there: the folder or the record of another comparison is refused.

        What is compared is not written yet (`keep_data`), and runs of the record are not taken over: the data is read
        and checked first, so that a command that is refused leaves the folder free for its correction.
        """
        if not os.path.lexists(self.folder / STATE):
            self._require_own()
        self._refuse_other(self._state(), source=self.folder, option="--out")
        failed = self.folder / FAILED
        paths = failed.glob("*.json") if failed.is_dir() else ()
        self.earlier_failures.update({path.name: read_whole(path) for path in paths})
        for path in self._records(record):
            self._read_record(path)

    def _require_own(self) -> None:
        """A folder that holds nothing else. Another process may have begun the comparison, and be working already."""
        require_folder(self.folder)
        names = [entry.name for entry in self.folder.iterdir()]
        is_begun = (self.folder / STATE).is_file()
        if not is_begun and any(name.removesuffix(TEMPORARY) not in OWN_NAMES for name in names):
            raise InputError(f"{self.folder}: holds something else; choose another --out")

    def _state(self) -> dict[str, Any]:
        """What is compared in the folder, and with which data; where nothing has begun, this comparison."""
        if not os.path.lexists(self.folder / STATE):
            return {"comparison": self.identity}
        remedy = "choose another --out, and name a copy of its record with --record to keep the runs that are finished"
        return self._read(self.folder / STATE, remedy=remedy)

    @property
    def identity(self) -> dict[str, Any]:
        return self.comparison.identity

    def _refuse_other(self, content: Any, *, source: Path, option: str) -> None:
        if not isinstance(content, dict) or not isinstance(content.get("comparison"), dict):
            raise InputError(f"{source}: holds no comparison; choose another {option}")
        changed = self.comparison.differences(read_comparison(content["comparison"], source=str(source)))
        if changed:
            raise InputError(f"{source}: holds another comparison ({changed}); choose another {option}")

    def _records(self, record: Path | None) -> list[Path]:
        """The records to go on from: the one that is named, and the one in the folder."""
        paths = [self.folder / RECORD] if record is None else [record, self.folder / RECORD]
        return [path for path in paths if path.exists()]

    def _read_record(self, path: Path) -> list[FinishedRun]:
        """Its runs, if it is of this comparison."""
        remedy = "choose another --record, or delete it to write it again"
        with with_remedy(remedy):
            content = read_unchanged(path)
        self._refuse_other(content, source=path, option="--record")
        with with_remedy(remedy):
            return self._read_runs(content, source=str(path))

    def _read_runs(self, content: dict[str, Any], *, source: str) -> list[FinishedRun]:
        entries = [content.get("tuning", []), content.get("runs", [])]
        if not all(isinstance(some, list) for some in entries):
            raise InputError(f"{source}: its runs are no list")
        runs = [read_finished_run(entry, source=source) for some in entries for entry in some]
        names = {run.name for run in (*self.comparison.tuning_runs, *self.comparison.final_runs)}
        for name in (found.run.name for found in runs if found.run.name not in names):
            raise InputError(f"{source}: holds {name}, which is no run of this comparison")
        return runs

    def take_over(self, record: Path | None = None) -> None:
        """What a record holds counts as finished, unless it was made with other data."""
        for path in self._records(record):
            runs = self._read_record(path)
            for finished in runs:
                self.refuse_other_data(finished, source=path)
            with self.lock("opening"):
                for finished in runs:
                    if not self.is_done(finished.run) and not self._was_set_aside(finished):
                        self.keep(finished)

    def keep_data(self, data: dict[int, DataHashes]) -> None:
        """Write what is compared here, and which data each seed has; if it was other data before, it is refused.

        If several processes start at once, the first decides what is compared.
        """
        self.data.update(data)
        with self.lock("opening"):
            state = self._state()
            self._refuse_other(state, source=self.folder, option="--out")
            known = state.setdefault(DATA, {})
            for seed, hashes in data.items():
                if changed := hashes.changed_since(known.get(str(seed), {})):
                    raise InputError(
                        f"{self.folder}: was begun with {changed}; restore what has changed, or choose another --out"
                    )
                known[str(seed)] = hashes.to_json()
            write_sealed(self.folder / STATE, state)
            (self.folder / FINISHED).mkdir(exist_ok=True)

    def refuse_other_data(self, finished: FinishedRun, *, source: Path) -> None:
        """Runs of older versions do not say which data they had, and are accepted."""
        known, now = finished.origin.get(DATA), self.data.get(finished.run.seed)
        changed = now.changed_since(known) if now is not None and isinstance(known, dict) else ""
        if changed:
            raise InputError(
                f"{source}: {finished.run.name} was made with {changed};"
                " restore what has changed, or choose another --out and --record"
            )

    def is_claimed(self, run: ComparedRun) -> bool:
        """Whether another process works on it now."""
        try:
            with self._claim_lock(run):
                return False
        except filelock.Timeout:
            return True

    def _claim_lock(self, run: ComparedRun) -> filelock.BaseFileLock:
        return self.lock(file_name(run), timeout=0.0)

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

    def set_aside(self, run: ComparedRun) -> None:
        """Keep a run's folder, and its result if it is finished, under `earlier`, so that it is made again."""
        kept = self.folder / EARLIER / f"{file_name(run)}-{secrets.token_hex(4)}"
        if self.is_done(run):
            kept = self._set_aside(self.result(run))
        kept.parent.mkdir(exist_ok=True)
        made = self.folder / run.name
        if made.is_dir():
            made.rename(kept)
        if self.is_done(run):
            self._finished(run).replace(named_json(kept))

    def _was_set_aside(self, finished: FinishedRun) -> bool:
        return named_json(self._set_aside(finished)).is_file()

    def _set_aside(self, finished: FinishedRun) -> Path:
        """A run may be set aside twice; where and when it was made tells which."""
        made = hashlib.sha256(json.dumps(finished.origin, sort_keys=True).encode()).hexdigest()
        return self.folder / EARLIER / f"{file_name(finished.run)}-{made[:8]}"

    def _finished(self, run: ComparedRun) -> Path:
        return self.folder / FINISHED / f"{file_name(run)}.json"

    def keep_failure(self, run: ComparedRun, error: Exception) -> None:
        """Record that the run failed, so that the others go on."""
        path = self._failed(run)
        path.parent.mkdir(exist_ok=True)
        write_sealed(path, FailedRun.of(run, error, failed_at=time.time()).to_json())
        self.earlier_failures.pop(path.name, None)

    def has_failed(self, run: ComparedRun) -> bool:
        """Since the folder was opened, in any of the processes that work in it."""
        path = self._failed(run)
        return os.path.lexists(path) and read_whole(path) != self.earlier_failures.get(path.name)

    def _failure(self, run: ComparedRun) -> FailedRun:
        path = self._failed(run)
        return decode(FailedRun, self._read(path, remedy="delete it"), source=str(path))

    def _failed(self, run: ComparedRun) -> Path:
        return self.folder / FAILED / f"{file_name(run)}.json"

    def _read(self, path: Path, *, remedy: str) -> dict[str, Any]:
        """The content of a file with a checksum; the error for a damaged one says what to do."""
        with with_remedy(remedy):
            return read_sealed(path)


def file_name(run: ComparedRun) -> str:
    """The run's name, without its folder."""
    return run.name.replace("/", "-")


def named_json(path: Path) -> Path:
    return path.with_name(path.name + ".json")


@contextlib.contextmanager
def with_remedy(remedy: str) -> Iterator[None]:
    """An error for invalid input says what to do."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{error}; {remedy}") from error
