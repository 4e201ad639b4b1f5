"""A run folder: made for one run, locked while in use, overwritten only on request.

Nothing of the user's is ever deleted: overwriting a run removes the files that runs write, by their names, and leaves
whatever else lies in the folder. Every file that is read again carries a checksum, and the number of its run, so that
neither a changed bit nor a file of another run goes unnoticed.
"""

import contextlib
import hashlib
import itertools
import json
import os
import platform
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import filelock

from laplacenet.runtime.errors import InputError
from laplacenet.runtime.files import (
    CHECKSUM,
    TEMPORARY,
    parse_json,
    read_sealed,
    read_whole,
    sync,
    write_sealed,
    write_whole,
)
from laplacenet.runtime.launch import LAUNCH, launch_id, read_launch

EXPERIMENT = "experiment.json"
PROVENANCE = "provenance.json"
EPOCHS = "epochs.jsonl"
RUN = "run"
"""The entry, of every file with a checksum, that says of which run it is: a number drawn when the run began."""
SUM, N_SUM = "sum", 16
"""The checksum of a line and of all before it, and its hexadecimal digits: 64 bits."""
LOCK = ".lock"
EXPORTS = ("model.onnx", "model.pt2")
ANSWERS = "answers.jsonl"
"""Of a review: work of a person, which is never deleted."""
ENTRIES = "entries of answers.jsonl"
"""In the provenance of labels: how far the answers were read."""
RUN_FILES = (
    *("provenance.json", "epochs.jsonl", "final.json", "curves.png", "skipped.csv", "model.json", "model.safetensors"),
    *("profile.json", "labels.csv", "labeling.json", "labeling.safetensors", "gallery.safetensors", "report.html"),
    *EXPORTS,
    EXPERIMENT,  # deleted last: a crash leaves a run that can be overwritten again
)
"""All files that runs write at the top of their folder. Whatever is not named here or below is the user's."""
CHECKPOINTS = re.compile(r"checkpoint(\.new|\.old|\.damaged)?")
CHECKPOINT_FILES = re.compile(r"manifest\.json|epochs\.jsonl|state-\d+\.safetensors")
STAGES, STAGE_FILES = "stages", re.compile(r"stage\.json|labels\.safetensors")
"""A labeling's stages: each is a folder below `stages` with these files and checkpoints of its own."""
OF_A_START = re.compile(r"\.lock|(experiment|provenance|manifest)\.json|state-\d+\.safetensors|skipped\.csv")
"""The files that a start writes before `experiment.json`, with which a run begins to exist."""


class RunFolder:
    """`experiment.json`, `provenance.json`, `epochs.jsonl`, `final.json`, `checkpoint/`, and the model for use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._end = (0, "")  # of `epochs.jsonl`: its bytes, and the last line's checksum

    @classmethod
    def create(cls, path: Path, *, overwrite: bool = False, option: str = "--out") -> "RunFolder":
        """A fresh folder; one that holds something is refused, unless it is a run and may be overwritten.

        `option` chose its place. A start that was cut off before its first step has nothing to lose: its place is taken
        without asking.
        """
        folder = cls(path)
        if path.exists() and not path.is_dir():
            raise InputError(f"{path}: is a file; name a folder for the run")
        try:
            path.mkdir(parents=True, exist_ok=True)
            is_free = not any(path.iterdir()) or folder._never_began()
        except OSError as error:
            raise InputError(f"{path}: cannot be made ({error.strerror}); choose another {option}") from error
        if not is_free and not overwrite:
            what = "exists already; choose another --out, or --overwrite, or --resume it"
            other = f"holds other files; choose another {option}"
            raise InputError(f"{path}: {what if is_run_folder(path) else other}")
        if not is_free and not is_run_folder(path):
            raise InputError(f"{path}: not a run folder, so --overwrite leaves it alone; choose another --out")
        if not is_free and folder.has(ANSWERS):
            raise InputError(f"{path}: --overwrite never deletes the answers of a review; choose another --out")
        folder._clear()
        return folder

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        if not (path / EXPERIMENT).is_file():
            raise InputError(f"{path}: not a run folder (it has no {EXPERIMENT})")
        return cls(path)

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time works on a run; the lock goes with the process, however it ends."""
        path = self.path / LOCK
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise InputError(
                f"{path}: not a regular file; a run cannot be locked by it"
            )  # a link that leads out of the folder
        lock = filelock.FileLock(path, timeout=0)
        try:
            lock.acquire()
        except filelock.Timeout as error:
            raise InputError(
                f"{self.path}: another process is working on this run{self._holder()}; wait for it or end it"
            ) from error
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written to ({error.strerror}); a run needs to") from error
        try:
            with contextlib.suppress(OSError):  # the holder of the lock is named for people; on a full disk it is not
                path.write_text(f"pid {os.getpid()} on {platform.node()}")
            yield
        finally:
            lock.release()

    def _holder(self) -> str:
        try:
            holder = (self.path / LOCK).read_text(errors="replace")[:200].strip()
        except OSError:  # Windows lets nobody else read it
            holder = ""
        return f" ({holder})" if holder else ""

    def _never_began(self) -> bool:
        """Its start was cut off: locked once, and nothing there but what comes before `experiment.json`."""
        if self.has(EXPERIMENT) or not self.has(LOCK):
            return False
        names = [entry.name.removesuffix(TEMPORARY) for entry in self.path.rglob("*") if not entry.is_dir()]
        return all(map(OF_A_START.fullmatch, names))

    def _clear(self) -> None:
        """Delete what runs write, and nothing else."""
        with self.locked():
            _clear_checkpoints(self.path)
            self.clear_stages()
            for name in RUN_FILES:
                for path in (self.path / (name + TEMPORARY), self.path / name):
                    _remove_file(path)

    def clear_stages(self) -> None:
        """Delete what the stages of a labeling wrote."""
        for stage in _folders(self.path / STAGES):
            _clear_checkpoints(stage)
            _clear_files(stage, STAGE_FILES)
        _remove_if_empty(self.path / STAGES)

    def clear_leftovers(self) -> None:
        """Files that a crash left under their temporary names."""
        for name in RUN_FILES:
            _remove_file(self.path / (name + TEMPORARY))

    def write_experiment(self, content: dict[str, Any]) -> None:
        """The settings, with which a run begins to exist."""
        write_run_file(self.path / EXPERIMENT, content)

    def read_experiment(self) -> dict[str, Any]:
        return read_run_file(self.path / EXPERIMENT)

    def write_sealed(self, name: str, content: dict[str, Any]) -> None:
        write_run_file(self.path / name, content)

    def read_sealed(self, name: str) -> dict[str, Any]:
        return read_run_file(self.path / name)

    def has(self, name: str) -> bool:
        return (self.path / name).is_file()

    def append_epoch(self, epoch: dict[str, Any]) -> None:
        """One line, with a checksum of itself and of all before it; a checkpoint makes it last."""
        path = self.path / EPOCHS
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: not a regular file")
        with path.open("ab") as file:
            if file.tell() != self._end[0]:
                lines, content = self._sealed_epochs(), read_whole(path)
                self._end = (content.rfind(b"\n") + 1, lines[-1][SUM] if lines else "")
                file.truncate(self._end[0])  # a line that a crash cut short
            own = sum_of(epoch, self._end[1])
            file.write((json.dumps({**epoch, SUM: own}) + "\n").encode())
            file.flush()
            self._end = (os.fstat(file.fileno()).st_size, own)

    def epoch_lines(self) -> bytes:
        """All of `epochs.jsonl`, made to last."""
        path = self.path / EPOCHS
        if not path.exists():
            return b""
        lines = read_whole(path)
        sync(path)
        return lines

    def restore_epoch_lines(self, lines: bytes) -> None:
        """As they were at the checkpoint that is resumed: what was recorded behind it will be run again."""
        write_whole(self.path / EPOCHS, lines)

    def epochs(self, *, up_to_step: int | None = None) -> list[dict[str, Any]]:
        """The recorded epochs; a last line that a crash cut short is left out, any other that is damaged is refused."""
        epochs = [{key: value for key, value in epoch.items() if key != SUM} for epoch in self._sealed_epochs()]
        for number, epoch in enumerate(epochs, 1):
            if type(epoch.get("step")) is not int:
                raise InputError(f"{self.path / EPOCHS}, line {number}: not the record of an epoch")
        return [epoch for epoch in epochs if up_to_step is None or epoch["step"] <= up_to_step]

    def _sealed_epochs(self) -> list[dict[str, Any]]:
        path = self.path / EPOCHS
        saved = self._saved_lines()  # first: a run in progress appends a line before it saves it in a checkpoint
        lines = read_whole(path) if os.path.lexists(path) else b""
        for copy, beginning in saved.items():
            if not lines.startswith(beginning):
                raise InputError(
                    f"{path}: damaged: it does not begin with the records in {copy.relative_to(self.path)};"
                    " put back the one or the other"
                )
        before, epochs = "", []
        for number, line in enumerate(lines.split(b"\n")[:-1], 1):
            epoch = parse_json(line, source=f"{path}, line {number}")
            if not isinstance(epoch, dict) or SUM not in epoch:
                raise InputError(f"{path}, line {number}: not the record of an epoch with its checksum")
            found = epoch[SUM]
            if found != sum_of({key: value for key, value in epoch.items() if key != SUM}, before):
                raise InputError(f"{path}, line {number}: damaged, or a line before it is (its checksum differs)")
            before = found
            epochs.append(epoch)
        return epochs

    def _saved_lines(self) -> dict[Path, bytes]:
        """A checkpoint holds the lines up to it; those that a file has lost since would otherwise not be missed."""
        copies = (self.checkpoint / EPOCHS, *sorted(self.path.glob(f"{STAGES}/*/checkpoint/{EPOCHS}")))
        found = {}
        for copy in copies:
            try:
                found[copy] = read_whole(copy)
            except InputError as error:
                if not isinstance(error.__cause__, FileNotFoundError):  # none, or replaced by the next one just now
                    raise
        return found


def write_run_file(path: Path, content: dict[str, Any]) -> None:
    """JSON at the top of a run folder, with a checksum and the number of the run."""
    write_sealed(path, {**content, RUN: run_id(path.parent) or secrets.token_hex(8)})


def read_run_file(path: Path) -> dict[str, Any]:
    """What `write_run_file` wrote; refused if anything in it changed, or if the files beside it are of another run."""
    content = read_sealed(path)
    found, others = content.pop(RUN, None), path.parent / (PROVENANCE if path.name == EXPERIMENT else EXPERIMENT)
    require_same_run(path, found, others)
    return content


def require_same_run(path: Path, found: object, others: Path) -> None:
    expected = _run_in(others)
    if expected is not None and found != expected:
        raise InputError(f"{path}: of another run than {others.name} beside it")


def run_id(folder: Path) -> str | None:
    """The number of the folder's run; None where there is none yet, or where the files that have it are damaged."""
    return _run_in(folder / EXPERIMENT) or _run_in(folder / PROVENANCE)


def _run_in(path: Path) -> str | None:
    try:
        found = read_sealed(path).get(RUN)
    except InputError as error:
        if isinstance(error.__cause__, OSError) and not isinstance(
            error.__cause__, FileNotFoundError | NotADirectoryError
        ):
            raise  # a disk that fails: without the number the next file would count as another run's
        return None  # not there, or damaged, which whoever reads it says
    return found if isinstance(found, str) else None


def sum_of(epoch: dict[str, Any], before: str) -> str:
    """The checksum of a line that stands behind one with the checksum `before`."""
    return hashlib.sha256((before + json.dumps(epoch, sort_keys=True)).encode()).hexdigest()[:N_SUM]


def _clear_checkpoints(folder: Path) -> None:
    for entry in _folders(folder):
        if CHECKPOINTS.fullmatch(entry.name):
            _clear_files(entry, CHECKPOINT_FILES)


def clear_checkpoint(folder: Path) -> None:
    """Delete a checkpoint; if someone keeps other files in its folder, these stay, under another name."""
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink(missing_ok=True)
        return
    _clear_files(folder, CHECKPOINT_FILES)
    if folder.is_dir():
        names = (folder.with_name(f"{folder.name}.kept-{number}") for number in itertools.count(1))
        folder.rename(next(name for name in names if not os.path.lexists(name)))


def _clear_files(folder: Path, names: re.Pattern[str]) -> None:
    """Delete the files of these names, and then the folder if nothing is left in it."""
    for entry in list(folder.iterdir()):
        if names.fullmatch(entry.name.removesuffix(TEMPORARY)):
            _remove_file(entry)
    _remove_if_empty(folder)


def _folders(folder: Path) -> list[Path]:
    """Those in a folder, if it is one; links lead elsewhere."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    return [entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink()]


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):  # something is in it, or it is not there
        folder.rmdir()


def _remove_file(path: Path) -> None:
    """A file or a link; a folder by that name is not ours."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)


def is_run_folder(path: Path) -> bool:
    """Whether an earlier run wrote into the folder. Someone's own `experiment.json` does not make it one; a damaged
    file of ours still shows its seal, or the one beside it does."""
    return (path / EXPERIMENT).is_file() and (is_sealed(path / EXPERIMENT) or is_sealed(path / PROVENANCE))


def is_ours_after_restart(path: Path) -> bool:
    """Whether `torchrun` has started the command again, and the folder holds the run that it began before."""
    if not read_launch().n_restarts or not is_run_folder(path):
        return False
    try:
        began = read_run_file(path / PROVENANCE).get(LAUNCH)
    except InputError:
        return False
    return began is not None and began == launch_id()


def is_sealed(path: Path) -> bool:
    """Whether a file has the marks of one that `write_run_file` wrote; it may be damaged all the same."""
    try:
        content = read_whole(path)
    except InputError:
        return False
    return all(f'"{mark}": "'.encode() in content for mark in (RUN, CHECKSUM))


def looks_like_run(path: Path) -> bool:
    """Whether there is anything by the name of a run's first files, even where it is damaged."""
    return any(os.path.lexists(path / name) for name in (EXPERIMENT, PROVENANCE, EPOCHS))
