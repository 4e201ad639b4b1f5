"""Checkpoints are written beside the steps that follow: whole before the next record, errors raised there."""

import errno
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from references_reliability import EVERY_STEP, Result, go, result_of
from references_runs import StopAfter, tiny_experiment

from laplacenet.experiments import prepare, run_experiment, start_run
from laplacenet.runtime import RunFolder
from laplacenet.training import DivergedError, session
from laplacenet.training.checkpoint import Snapshot, checkpoint_step, write_checkpoint

Write = Callable[..., None]
WAIT_S = 60.0


def full_at(step: int) -> Write:
    """A disk that has no room for the checkpoint of this step."""

    def write(folder: Path, snapshot: Snapshot, **rest: Any) -> None:
        if snapshot.position.step == step:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        write_checkpoint(folder, snapshot, **rest)

    return write


def test_steps_are_taken_while_a_checkpoint_is_written_and_recorded_when_it_is_whole(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unbroken: Result
) -> None:
    """The checkpoint of step 1 is written only when step 2 has been taken: it would wait for ever otherwise."""
    folder, is_taken, seen = RunFolder.create(tmp_path / "run"), threading.Event(), []

    def write(path: Path, snapshot: Snapshot, **rest: Any) -> None:
        if snapshot.position.step == 1:
            assert is_taken.wait(WAIT_S)
            seen.append([epoch["step"] for epoch in folder.epochs()])
        write_checkpoint(path, snapshot, **rest)

    class Watch(StopAfter):
        def advance(self, n: int) -> None:
            super().advance(n)
            if self.left <= 10**6 - 2:
                is_taken.set()

    monkeypatch.setattr(session, "write_checkpoint", write)
    run_experiment(tiny_experiment(data), folder, execution=EVERY_STEP, monitor=Watch(10**6))
    assert seen == [[1]]
    assert result_of(folder) == unbroken


def test_what_is_written_is_the_run_as_it_was_when_saving_began(data: Path) -> None:
    network = prepare(tiny_experiment(data)).network()
    snapshot = Snapshot.of(network, session.Position())
    before = {name: tensor.clone() for name, tensor in snapshot.tensors.items()}
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(1.0)
    assert all(torch.equal(snapshot.tensors[name], tensor) for name, tensor in before.items())


@pytest.mark.parametrize("step", [1, 12])
def test_an_error_of_the_disk_is_raised_before_the_next_record_and_the_run_goes_on_with_room(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unbroken: Result, step: int
) -> None:
    """At step 12, the last, too: there is no outcome without its checkpoint."""
    folder = RunFolder.create(tmp_path / "run")
    with monkeypatch.context() as patched:
        patched.setattr(session, "write_checkpoint", full_at(step))
        with pytest.raises(OSError, match="No space"):
            run_experiment(tiny_experiment(data), folder, execution=EVERY_STEP)
    assert [epoch["step"] for epoch in folder.epochs()] == list(range(1, step + 1))
    assert checkpoint_step(folder.checkpoint) == step - 1
    assert not folder.has("final.json")
    assert result_of(go(data, folder.path)) == unbroken


def test_a_run_that_is_left_waits_for_its_checkpoint_and_raises_its_error(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, write in (("good", write_checkpoint), ("bad", full_at(1))):
        folder = RunFolder.create(tmp_path / name)
        monkeypatch.setattr(session, "write_checkpoint", write)
        epochs = start_run(prepare(tiny_experiment(data)), folder, execution=EVERY_STEP)
        next(epochs)
        if name == "good":
            epochs.close()
            assert checkpoint_step(folder.checkpoint) == 1
        else:
            with pytest.raises(OSError, match="No space"):
                epochs.close()
    with folder.locked():  # it has been released
        pass


def test_the_error_that_ends_a_run_is_said_and_not_that_of_the_checkpoint_under_way(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(StopAfter):
        def advance(self, n: int) -> None:
            super().advance(n)
            if self.left == 0:
                raise DivergedError("of the steps")

    folder = RunFolder.create(tmp_path / "run")
    monkeypatch.setattr(session, "write_checkpoint", full_at(1))
    with pytest.raises(DivergedError, match="of the steps"):
        run_experiment(tiny_experiment(data), folder, execution=EVERY_STEP, monitor=Broken(2))
    assert checkpoint_step(folder.checkpoint) == 0


def test_a_time_limit_leaves_the_last_step_saved(data: Path, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    run_experiment(
        tiny_experiment(data), folder, execution=replace(EVERY_STEP, checkpoint_every_s=60.0), monitor=StopAfter(5)
    )
    assert checkpoint_step(folder.checkpoint) == 5
    assert not (folder.path / "checkpoint.new").exists()
