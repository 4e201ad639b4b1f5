"""kill -9 at any moment: the run goes on from its last good checkpoint and ends bit for bit like the unbroken one."""

import random
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from references_reliability import Faults, Result, go, result_of, run_in_child

from laplacenet.experiments.run_records import FINAL
from laplacenet.runtime import RunFolder
from laplacenet.runtime.run_folder import EXPERIMENT
from laplacenet.training.checkpoint import checkpoint_step


@dataclass
class Hunt:
    """Kills, those of them after which a begun run was resumed (before, it is started again), and runs that ended."""

    kills: int = 0
    resumes: int = 0
    bit_identical_runs: int = 0


def hunt(data: Path, path: Path, unbroken: Result, *, n_resumes: int, seed: int) -> Hunt:
    """Run after run until so many resumptions; each run must end like the unbroken one."""
    rng, found = random.Random(seed), Hunt()
    run_in_child(data, path / "first")  # starts the server
    started_at = time.monotonic()
    run_in_child(data, path / "timed")
    usual_s = time.monotonic() - started_at
    while found.resumes < n_resumes:
        folder = path / str(found.bit_identical_runs)
        while run_in_child(data, folder, killed_after_s=rng.uniform(0.0, usual_s)) == -signal.SIGKILL:
            found.kills += 1
            found.resumes += (folder / EXPERIMENT).is_file() and not (folder / FINAL).is_file()
        assert result_of(RunFolder.open(folder)) == unbroken, f"run {found.bit_identical_runs} of seed {seed}"
        found.bit_identical_runs += 1
    return found


def test_six_random_kills_and_resumptions_change_nothing(data: Path, unbroken: Result, tmp_path: Path) -> None:
    hunt(data, tmp_path, unbroken, n_resumes=6, seed=0)


@pytest.mark.long
def test_two_hundred_random_kills_and_resumptions_change_nothing(
    data: Path, unbroken: Result, tmp_path: Path, reliability_record
) -> None:
    seed = time.time_ns() % 2**32
    found = hunt(data, tmp_path, unbroken, n_resumes=200, seed=seed)
    reliability_record("random kills", seed=seed, **asdict(found))


def touches(data: Path, path: Path) -> int:
    """How often a whole run opens, renames, removes or makes a file in its folder."""
    faults = Faults()
    faults.arm(path, lambda: None, at=0)
    go(data, path)
    faults.disarm()
    return faults.n_touches


def killed_at(touch: int, data: Path, path: Path, unbroken: Result) -> None:
    assert run_in_child(data, path, dies_at=touch) == -signal.SIGKILL
    if not (path / FINAL).is_file():  # the last touch comes after it
        assert run_in_child(data, path) == 0
    assert result_of(RunFolder.open(path)) == unbroken, f"killed at touch {touch}"
    left = {entry.name for entry in path.iterdir() if entry.suffix in (".tmp", ".new")}
    assert not left, f"killed at touch {touch}"


def test_a_kill_at_the_nth_touch_of_a_file_changes_nothing(data: Path, unbroken: Result, tmp_path: Path) -> None:
    n_touches = touches(data, tmp_path / "counted")
    for touch in random.Random(0).sample(range(1, n_touches + 1), k=6):
        killed_at(touch, data, tmp_path / str(touch), unbroken)


@pytest.mark.long
def test_a_kill_at_every_touch_of_a_file_changes_nothing(
    data: Path, unbroken: Result, tmp_path: Path, reliability_record
) -> None:
    n_touches = touches(data, tmp_path / "counted")
    for touch in range(1, n_touches + 1):
        killed_at(touch, data, tmp_path / str(touch), unbroken)
    reliability_record("kills at every touch of a file", kills=n_touches, bit_identical_runs=n_touches)


def test_the_command_killed_before_its_first_checkpoint_is_resumed_by_its_folder(data: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "laplacenet", "train", str(data), "--labels", "9", "--out", "run"]
    small = ["--set", "train.steps=100000", "--set", "train.batch_size=24", "--set", "train.labeled_batch_size=4"]
    process = subprocess.Popen([*command, *small], stderr=subprocess.DEVNULL, cwd=tmp_path)
    folder = RunFolder(tmp_path / "run")
    while not folder.epochs() and process.poll() is None:
        time.sleep(0.02)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert checkpoint_step(folder.checkpoint) == 0
    resumed = [sys.executable, "-m", "laplacenet", "train", "--resume", "run", "--for", "0.1s"]
    done = subprocess.run(resumed, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 3
    assert "go on with: laplacenet train --resume run" in done.stderr
