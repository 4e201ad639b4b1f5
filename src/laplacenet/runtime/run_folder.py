"""A run folder: made for one run, locked while it is worked on, never overwritten unless told to."""

import contextlib
import fcntl
import json
import os
import platform
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from laplacenet.runtime.errors import InputError
from laplacenet.runtime.files import (
    TEMPORARY,
    parse_json,
    read_json,
    read_sealed,
    read_whole,
    sync,
    write_json,
    write_sealed,
    write_whole,
)

EXPERIMENT = "experiment.json"
PROVENANCE = "provenance.json"
EPOCHS = "epochs.jsonl"
LOCK = ".lock"
OF_A_START = re.compile(r"\.lock|(experiment|provenance|manifest)\.json|state-\d+\.safetensors")
"""The files that a start writes before `experiment.json`, with which a run begins to exist."""


class RunFolder:
    """`experiment.json`, `provenance.json`, `epochs.jsonl`, `final.json`, `checkpoint/`, and the model for use."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, *, overwrite: bool = False) -> "RunFolder":
        """A fresh folder; one that holds something is refused, unless it is a run and may be overwritten.

        A start that was cut off before its first step has nothing to lose: its place is taken without asking.
        """
        folder = cls(path)
        if path.exists() and not path.is_dir():
            raise InputError(f"{path}: is a file; name a folder for the run")
        try:
            path.mkdir(parents=True, exist_ok=True)
            is_free = not any(path.iterdir()) or folder._never_began()
        except OSError as error:
            raise InputError(f"{path}: cannot be made ({error.strerror}); choose another --out") from error
        if not is_free and not overwrite:
            raise InputError(f"{path}: exists already; choose another --out, or --overwrite, or --resume it")
        if not is_free and not folder.has(EXPERIMENT):
            raise InputError(f"{path}: is no run folder, so --overwrite leaves it alone; choose another --out")
        folder._clear()
        return folder

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        if not (path / EXPERIMENT).is_file():
            raise InputError(f"{path}: is no run folder (it has no {EXPERIMENT})")
        return cls(path)

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time works on a run; the lock goes with the process, however it ends."""
        with self._lock_file() as descriptor:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                holder = os.read(descriptor, 200).decode(errors="replace").strip()
                raise InputError(
                    f"{self.path}: another process is working on this run ({holder}); wait for it or end it"
                ) from error
            except OSError as error:
                raise InputError(f"{self.path}: cannot be locked ({error.strerror}); choose another folder") from error
            with contextlib.suppress(OSError):  # who holds the lock is said for people; on a full disk it is not
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"pid {os.getpid()} on {platform.node()}".encode())
            yield

    @contextlib.contextmanager
    def _lock_file(self) -> Iterator[int]:
        """Not through a link: it would lead out of the folder."""
        try:
            descriptor = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written to ({error.strerror}); a run needs to") from error
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _never_began(self) -> bool:
        """Its start was cut off: locked once, and nothing there but what comes before `experiment.json`."""
        if self.has(EXPERIMENT) or not self.has(LOCK):
            return False
        names = [entry.name.removesuffix(TEMPORARY) for entry in self.path.rglob("*") if not entry.is_dir()]
        return all(map(OF_A_START.fullmatch, names))

    def _clear(self) -> None:
        """Delete what is in the folder; `experiment.json` last: a crash leaves a run that can be overwritten again."""
        with self.locked():
            entries = [entry for entry in self.path.iterdir() if entry.name != LOCK]
            for entry in sorted(entries, key=lambda entry: entry.name == EXPERIMENT):
                remove(entry)

    def clear_leftovers(self) -> None:
        """Files that a crash left under their temporary names."""
        for leftover in self.path.glob("*" + TEMPORARY):
            if (self.path / leftover.name.removesuffix(TEMPORARY)).suffix in (".json", ".jsonl", ".safetensors"):
                remove(leftover)

    def write(self, name: str, content: Any) -> None:
        write_json(self.path / name, content)

    def read(self, name: str) -> Any:
        return read_json(self.path / name)

    def write_sealed(self, name: str, content: dict[str, Any]) -> None:
        write_sealed(self.path / name, content)

    def read_sealed(self, name: str) -> dict[str, Any]:
        return read_sealed(self.path / name)

    def has(self, name: str) -> bool:
        return (self.path / name).is_file()

    def append_epoch(self, epoch: dict[str, Any]) -> None:
        """One line; a checkpoint makes it last."""
        with (self.path / EPOCHS).open("ab") as file:
            file.write((json.dumps(epoch) + "\n").encode())

    def epoch_lines(self) -> bytes:
        """All of `epochs.jsonl`, made to last."""
        path = self.path / EPOCHS
        if not path.exists():
            return b""
        sync(path)
        return read_whole(path)

    def restore_epoch_lines(self, lines: bytes) -> None:
        """As they were at the checkpoint that is resumed: what was recorded behind it will be run again."""
        write_whole(self.path / EPOCHS, lines)

    def epochs(self, *, up_to_step: int | None = None) -> list[dict[str, Any]]:
        """The recorded epochs; a last line that a crash cut short is left out, any other that is damaged is refused."""
        path = self.path / EPOCHS
        *whole, _ = read_whole(path).split(b"\n") if path.exists() else [b""]
        epochs = [parse_json(line, source=f"{path}, line {number}") for number, line in enumerate(whole, 1)]
        for number, epoch in enumerate(epochs, 1):
            if not isinstance(epoch, dict) or not isinstance(epoch.get("step"), int):
                raise InputError(f"{path}, line {number}: not the record of an epoch")
        return [epoch for epoch in epochs if up_to_step is None or epoch["step"] <= up_to_step]


def remove(path: Path) -> None:
    """A file, a folder with all that is in it, or a link, never what a link leads to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
