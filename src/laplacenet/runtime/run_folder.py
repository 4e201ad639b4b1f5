"""A run folder: made for one run, locked while it is worked on, never overwritten unless told to."""

import contextlib
import fcntl
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from laplacenet.runtime.errors import InputError
from laplacenet.runtime.files import read_json, write_json, write_whole

EXPERIMENT = "experiment.json"


class RunFolder:
    """`experiment.json`, `provenance.json`, `epochs.jsonl`, `final.json`, `checkpoint/`, and the model for use."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, *, overwrite: bool = False) -> "RunFolder":
        """A fresh folder; one that holds something is refused, unless it is a run and may be overwritten."""
        if path.exists() and not path.is_dir():
            raise InputError(f"{path}: is a file; name a folder for the run")
        if path.is_dir() and any(path.iterdir()):
            if not overwrite:
                raise InputError(f"{path}: exists already; choose another --out, or --overwrite, or --resume it")
            if not (path / EXPERIMENT).is_file():
                raise InputError(f"{path}: is no run folder, so --overwrite leaves it alone; choose another --out")
            shutil.rmtree(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{path}: cannot be made ({error.strerror}); choose another --out") from error
        return cls(path)

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
        with (self.path / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise InputError(f"{self.path}: another process is working on this run") from error
            yield

    def write(self, name: str, content: Any) -> None:
        write_json(self.path / name, content)

    def read(self, name: str) -> Any:
        return read_json(self.path / name)

    def has(self, name: str) -> bool:
        return (self.path / name).is_file()

    def append_epoch(self, epoch: dict[str, Any]) -> None:
        with (self.path / "epochs.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(epoch) + "\n")

    def epochs(self, *, up_to_step: int | None = None) -> list[dict[str, Any]]:
        """The recorded epochs; a last line that a crash cut short is left out."""
        path = self.path / "epochs.jsonl"
        epochs = []
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
            with contextlib.suppress(ValueError):
                epochs.append(json.loads(line))
        return [epoch for epoch in epochs if up_to_step is None or epoch["step"] <= up_to_step]

    def keep_epochs(self, epochs: list[dict[str, Any]]) -> None:
        """Replace the recorded epochs: those behind the checkpoint that is resumed will be run again."""
        write_whole(self.path / "epochs.jsonl", "".join(json.dumps(epoch) + "\n" for epoch in epochs).encode())
