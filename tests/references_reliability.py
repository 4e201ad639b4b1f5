"""Processes that run and are killed, faults at the n-th touch of a file, and folders damaged byte by byte."""

import multiprocessing
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from references_runs import tiny_experiment

from laplacenet.experiments import Outcome, prepare, read_experiment, read_outcome, resume_run, start_run
from laplacenet.runtime import InputError, RunFolder
from laplacenet.runtime.run_folder import EXPERIMENT
from laplacenet.training import Execution

EVERY_STEP = Execution(torch.device("cpu"), checkpoint_every_s=0.0)
TIMES = {"total_s": 0.0, "label_s": 0.0, "compile_s": 0.0, "median_step_s": 0.0}
TOUCHES = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}

_servers = multiprocessing.get_context("forkserver")  # torch is imported once, each child is a fork of that
_servers.set_forkserver_preload(["laplacenet.experiments", "laplacenet.cli", "torch._dynamo"])


@dataclass(frozen=True)
class Result:
    """What must not depend on when a run was interrupted."""

    weights: bytes
    outcome: dict[str, object]
    losses: tuple[float, ...]


def result_of(folder: RunFolder) -> Result:
    outcome: Outcome = read_outcome(folder)
    epochs = folder.epochs()
    return Result(
        weights=(folder.path / "model.safetensors").read_bytes(),
        outcome=outcome.to_json() | TIMES,
        losses=tuple(epoch["loss"] for epoch in epochs),
    )


def go(data: Path, path: Path, *, execution: Execution = EVERY_STEP) -> RunFolder:
    """Start the folder's run, or go on with it, to its end."""
    if (path / EXPERIMENT).is_file():
        folder, begin = RunFolder.open(path), resume_run
        task = prepare(read_experiment(folder))
    else:
        folder, begin = RunFolder.create(path), start_run
        task = prepare(tiny_experiment(data))
    for _ in begin(task, folder, execution=execution):
        pass
    return folder


class Faults:
    """Calls `fault` at the n-th time that a file below a folder is opened, renamed, removed or made.

    Python tells of these through audit events, just before they happen, so nothing has to be replaced.
    """

    def __init__(self) -> None:
        self.below, self.left, self.n_touches = "", 0, 0
        self.fault: Callable[[], None] = lambda: None
        self.one_at_a_time = threading.Lock()  # the last checkpoint is written while the model is
        sys.addaudithook(self._hear)

    def arm(self, folder: Path, fault: Callable[[], None], *, at: int) -> None:
        self.below, self.left, self.fault, self.n_touches = str(folder), at, fault, 0

    def disarm(self) -> None:
        self.below = ""

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self.below or event not in TOUCHES:
            return
        if isinstance(arguments[0], str | os.PathLike) and str(arguments[0]).startswith(self.below):
            with self.one_at_a_time:
                self.n_touches += 1
                self.left -= 1
                is_due = self.left == 0
            if is_due:
                self.fault()


def result_or_refusal(read: Callable[[], Any]) -> tuple[Any, str | None]:
    """What was read, or the one line in which it was refused."""
    try:
        return read(), None
    except InputError as error:
        refusal = str(error)
    assert "\n" not in refusal
    return None, refusal


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _work(data: Path, path: Path, dies_at: int | None) -> None:
    torch.set_num_threads(1)
    if dies_at is not None:
        Faults().arm(path, die, at=dies_at)
    go(data, path)


def forked(work: Callable[..., None], *arguments: object) -> BaseProcess:
    """A process that does this work, begun."""
    child = _servers.Process(target=work, args=arguments, daemon=True)
    child.start()
    return child


def run_in_child(data: Path, path: Path, *, killed_after_s: float | None = None, dies_at: int | None = None) -> int:
    """The exit code of a process that works on the run: 0 at its end, −9 where it was killed."""
    child = forked(_work, data, path, dies_at)
    if killed_after_s is not None:
        child.join(killed_after_s)
        child.kill()
    child.join()
    assert child.exitcode is not None
    return child.exitcode


def damaged_copies(folder: Path, into: Path, *, offsets: Callable[[int], list[int]]) -> Iterator[tuple[str, Path]]:
    """The folder again and again, each time with one byte of one file changed, or the file cut there or gone."""
    files = sorted(file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    for file in files:
        content = (folder / file).read_bytes()
        damages = {f"{file} gone": None}
        for offset in offsets(len(content)):
            changed = bytes([content[offset] ^ (1 << offset % 8)])
            damages[f"{file} changed at {offset}"] = content[:offset] + changed + content[offset + 1 :]
            damages[f"{file} cut at {offset}"] = content[:offset]
        for name, damaged in damages.items():
            copy = into / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(folder, copy)
            (copy / file).unlink()
            if damaged is not None:
                (copy / file).write_bytes(damaged)
            yield name, copy
