"""A comparison that is killed, or whose disk is full, at any touch of a file: the same command ends with the same."""

import errno
import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from references_cli import Shell
from references_reliability import Faults, die, forked
from references_runs import write_bars

from laplacenet.cli import main

COMPARE = ["compare", "bars.npz", "--methods", "supervised,network-labels", "--labels", "9", "--steps", "3"]
COMPARE += ["--device", "cpu", "--set", "train.batch_size=24", "--checkpoint-every", "0.001s"]
Results = list[tuple[str, int, dict[str, Any], list[tuple[int, float]]]]
TIMES = ("total_s", "label_s", "compile_s", "median_step_s")


def results_of(record: Path) -> Results:
    """What must not depend on interruptions: everything but times and dates."""
    content = json.loads(record.read_text())
    assert content["failed"] == []
    return [
        (
            run["method"],
            run["seed"],
            {name: value for name, value in run["outcome"].items() if name not in TIMES},
            [(step, error) for step, _, error in run["curve"]],
        )
        for run in content["runs"]
    ]


def command(folder: Path) -> list[str]:
    """By whole paths: touches of relative ones would not be counted."""
    return [*COMPARE, "--out", str(folder / "out"), "--record", str(folder / "record.json")]


def _work(folder: Path, dies_at: int | None) -> None:
    torch.set_num_threads(1)
    os.chdir(folder)
    quiet = open(os.devnull, "w")  # noqa: SIM115, PTH123 - for the rest of the process
    sys.stdout = sys.stderr = quiet
    sys.argv = ["laplacenet", *command(folder)]
    if dies_at is not None:
        Faults().arm(folder, die, at=dies_at)
    main()


def compare_in_child(folder: Path, *, dies_at: int | None = None) -> int:
    child = forked(_work, folder, dies_at)
    child.join()
    assert child.exitcode is not None
    return child.exitcode


@pytest.fixture
def unbroken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Results:
    folder = tmp_path / "unbroken"
    folder.mkdir()
    write_bars(folder / "bars.npz")
    Shell(folder, monkeypatch, capsys).succeeds(*command(folder))
    results = results_of(folder / "record.json")
    assert [method for method, *_ in results] == ["supervised", "network-labels"]
    return results


def survives_a_kill_at(touch: int, folder: Path, unbroken: Results) -> bool:
    """Whether it came to the kill; the results are the same in any case."""
    folder.mkdir()
    write_bars(folder / "bars.npz")
    code = compare_in_child(folder, dies_at=touch)
    assert code in (0, -signal.SIGKILL), f"touch {touch}"
    assert compare_in_child(folder) == 0, f"touch {touch}"
    assert results_of(folder / "record.json") == unbroken, f"touch {touch}"
    return code != 0


@pytest.mark.long
def test_a_comparison_that_is_killed_at_any_touch_of_a_file_goes_on(
    unbroken: Results, tmp_path: Path, reliability_record: Callable[..., None]
) -> None:
    touch = 1
    while survives_a_kill_at(touch, tmp_path / str(touch), unbroken):
        shutil.rmtree(tmp_path / str(touch))
        touch += 1
    assert touch > 400
    reliability_record("comparison killed at every touch of a file", kills=touch - 1, identical_results=touch - 1)


@pytest.fixture(scope="module")
def faults() -> Faults:
    return Faults()


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    write_bars(tmp_path / "bars.npz")
    return Shell(tmp_path, monkeypatch, capsys)


def no_space() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def is_full_at(touch: int, shell: Shell, faults: Faults, unbroken: Results) -> bool:
    """Whether it came to that; it is said, and with room again the same command ends with the same results."""
    for name in ("out", "record.json"):
        path = shell.folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    faults.arm(shell.folder, no_space, at=touch)
    try:
        said = shell(*command(shell.folder))
    finally:
        n_left = faults.left
        faults.disarm()
    assert said.code in (0, 1, 2), f"touch {touch}: {said.err}"
    assert said.code == 0 or "no space" in said.err.lower().splitlines()[-1], f"touch {touch}: {said.err}"
    assert "Traceback" not in said.err, f"touch {touch}: {said.err}"
    shell.succeeds(*command(shell.folder))
    assert results_of(shell.folder / "record.json") == unbroken, f"touch {touch}"
    return n_left <= 0


def test_a_comparison_whose_disk_is_full_goes_on_once_there_is_room(
    unbroken: Results, shell: Shell, faults: Faults
) -> None:
    for touch in random.Random(2).sample(range(1, 440), k=2):
        assert is_full_at(touch, shell, faults, unbroken)


@pytest.mark.long
def test_a_comparison_whose_disk_is_full_at_any_touch_of_a_file_goes_on(
    unbroken: Results, shell: Shell, faults: Faults, reliability_record: Callable[..., None]
) -> None:
    touch = 1
    while is_full_at(touch, shell, faults, unbroken):
        touch += 1
    assert touch > 400
    reliability_record("comparison with a full disk at every touch", failures_injected=touch - 1)
