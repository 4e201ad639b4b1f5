"""Stopping and going on: any number of times, under other clocks, one process at a time, and only the same run."""

import json
import os
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from references_reliability import EVERY_STEP, Result, go, result_of
from references_runs import StopAfter, tiny_experiment, write_bars

import laplacenet
from laplacenet.experiments import prepare, read_experiment, resume_run, run_experiment, start_run
from laplacenet.runtime import InputError, RunFolder, write_sealed
from laplacenet.training import Execution

AT_THE_END = Execution(torch.device("cpu"))


@pytest.fixture
def stopped(data: Path, tmp_path: Path) -> RunFolder:
    folder = RunFolder.create(tmp_path / "run")
    run_experiment(tiny_experiment(data), folder, execution=AT_THE_END, monitor=StopAfter(5))
    return folder


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("execution", [AT_THE_END, EVERY_STEP], ids=["saved at stops", "saved at every step"])
def test_after_any_number_of_interruptions_weights_and_outcome_are_the_unbroken_ones_bit_for_bit(
    data: Path, unbroken: Result, tmp_path: Path, seed: int, execution: Execution
) -> None:
    rng, folder = random.Random(seed), RunFolder.create(tmp_path / "run")
    run_experiment(tiny_experiment(data), folder, execution=execution, monitor=StopAfter(rng.randrange(4)))
    while not folder.has("final.json"):
        task = prepare(read_experiment(folder))
        for _ in resume_run(task, folder, execution=execution, monitor=StopAfter(rng.randrange(5))):
            pass
    result = result_of(folder)
    assert result.weights == unbroken.weights
    assert result.outcome == unbroken.outcome


def test_a_long_epoch_is_saved_in_its_middle(data: Path, unbroken: Result, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    epochs = start_run(prepare(tiny_experiment(data)), folder, execution=EVERY_STEP)
    records = [next(epochs) for _ in range(5)]
    epochs.close()
    assert [record.step for record in records] == [1, 2, 3, 4, 5]
    assert [record.is_complete for record in records] == [False, True, False, True, False]
    assert json.loads((folder.checkpoint / "manifest.json").read_text())["plan"]["index"] == 2
    assert result_of(go(data, folder.path)).weights == unbroken.weights


@pytest.mark.parametrize("leap_s", [-1e9, 1e9])
def test_a_clock_that_jumps_changes_no_duration_and_no_checkpoint(
    data: Path, unbroken: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leap_s: float
) -> None:
    before = time.time
    monkeypatch.setattr(time, "time", lambda: before() + leap_s * random.random())
    folder = go(data, tmp_path / "run")
    assert result_of(folder) == unbroken
    durations = [epoch[name] for epoch in folder.epochs() for name in ("label_s", "step_s", "elapsed_s")]
    assert min(durations) >= 0
    assert max(durations) < 60


def test_two_processes_on_one_run_folder_are_refused_by_the_pid_of_the_first(stopped: RunFolder) -> None:
    command = [sys.executable, "-m", "laplacenet", "train", "--resume", str(stopped.path)]
    with stopped.locked():
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {stopped.path}: another process is working on this run (pid {os.getpid()} on ")
    with stopped.locked(), pytest.raises(InputError, match="another process is working"):
        RunFolder.create(stopped.path, overwrite=True)
    assert stopped.has("experiment.json")


def test_a_run_that_another_process_began_meanwhile_is_not_begun_again(data: Path, stopped: RunFolder) -> None:
    with pytest.raises(InputError, match="holds a run already"):
        list(start_run(prepare(tiny_experiment(data)), stopped, execution=AT_THE_END))


def test_a_start_that_was_cut_off_is_begun_again_and_other_folders_are_not_touched(
    data: Path, stopped: RunFolder, tmp_path: Path
) -> None:
    for name in ("experiment.json", "epochs.jsonl"):
        (stopped.path / name).unlink()
    (stopped.checkpoint / "epochs.jsonl").unlink()
    assert list(RunFolder.create(stopped.path).path.iterdir()) == [stopped.path / ".lock"]
    others = tmp_path / "others"
    (others / "checkpoint").mkdir(parents=True)
    (others / ".lock").touch()
    (others / "checkpoint" / "weights.bin").write_bytes(b"of someone else")
    with pytest.raises(InputError, match="holds other files"):
        RunFolder.create(others)
    assert (others / "checkpoint" / "weights.bin").exists()


def test_a_checkpoint_of_another_experiment_is_refused_with_all_that_differs(data: Path, stopped: RunFolder) -> None:
    content = stopped.read_experiment()
    content["train"]["lr"], content["seed"] = 0.5, 4
    stopped.write_experiment(content)
    with pytest.raises(InputError) as refused:
        go(data, stopped.path)
    assert "its seed is 3, this run's is 4" in str(refused.value)
    assert "its train.lr is 0.05, this run's is 0.5" in str(refused.value)


def test_a_checkpoint_of_other_data_is_refused(data: Path, tmp_path: Path) -> None:
    moved = write_bars(tmp_path / "bars.npz")
    folder = RunFolder.create(tmp_path / "run")
    run_experiment(tiny_experiment(moved), folder, execution=AT_THE_END, monitor=StopAfter(5))
    with np.load(moved) as arrays:
        other = {**arrays, "images": arrays["images"] ^ 1}
    np.savez(moved, **other)
    with pytest.raises(InputError, match=r"its hash of inputs and given labels is .*; restore what has changed"):
        go(data, folder.path)


def test_another_test_set_is_said(data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    moved = write_bars(tmp_path / "bars.npz")
    folder = RunFolder.create(tmp_path / "run")
    run_experiment(tiny_experiment(moved), folder, execution=AT_THE_END, monitor=StopAfter(5))
    with np.load(moved) as arrays:
        other = {**arrays, "test_images": arrays["test_images"] ^ 1}
    np.savez(moved, **other)
    go(data, folder.path)
    assert "the test set has changed since this run began" in caplog.text


def test_a_checkpoint_of_another_version_is_refused_with_both_versions(
    data: Path, stopped: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(laplacenet, "__version__", "99.0")
    with pytest.raises(InputError, match=r"was written by version \d.*, this is 99\.0"):
        go(data, stopped.path)


def test_a_checkpoint_of_another_format_is_refused_with_both_formats(data: Path, stopped: RunFolder) -> None:
    manifest = json.loads((stopped.checkpoint / "manifest.json").read_text())
    del manifest["checksum"]
    write_sealed(stopped.checkpoint / "manifest.json", manifest | {"format": 1})
    for other in stopped.path.glob("checkpoint.*"):
        other.rename(stopped.path / "aside")
    with pytest.raises(InputError, match="not a checkpoint of format 3, which this version reads, but of 1"):
        go(data, stopped.path)


def test_other_versions_of_libraries_are_said(data: Path, stopped: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    provenance = stopped.read_sealed("provenance.json")
    provenance["libraries"]["torch"] = "1.0"
    stopped.write_sealed("provenance.json", provenance)
    go(data, stopped.path)
    assert f"this run began with torch 1.0 and goes on with {torch.__version__.partition('+')[0]}" in caplog.text


def test_another_number_of_threads_on_a_cpu_is_said(
    data: Path, stopped: RunFolder, caplog: pytest.LogCaptureFixture
) -> None:
    provenance = stopped.read_sealed("provenance.json")
    provenance["hardware"]["threads"] = 99
    stopped.write_sealed("provenance.json", provenance)
    go(data, stopped.path)
    assert f"this run began with threads 99 and goes on with {torch.get_num_threads()}" in caplog.text


def test_leftovers_of_a_crash_are_cleaned_up_and_other_files_stay(data: Path, stopped: RunFolder) -> None:
    (stopped.path / "final.json.tmp").write_bytes(b"{")
    (stopped.path / "model.safetensors.tmp").write_bytes(b"half")
    (stopped.path / "notes.tmp").write_text("mine")
    (stopped.path / "checkpoint.new").mkdir()
    (stopped.path / "checkpoint.new" / "state-00.safetensors.tmp").write_bytes(b"half")
    go(data, stopped.path)
    names = {entry.name for entry in stopped.path.iterdir()}
    assert not {"final.json.tmp", "model.safetensors.tmp", "checkpoint.new"} & names
    assert "notes.tmp" in names


def test_how_often_a_run_is_saved_is_no_part_of_what_it_is(data: Path, stopped: RunFolder, unbroken: Result) -> None:
    assert replace(AT_THE_END, checkpoint_every_s=5.0) != AT_THE_END
    assert result_of(go(data, stopped.path, execution=replace(AT_THE_END, checkpoint_every_s=0.0))).outcome == (
        unbroken.outcome
    )
