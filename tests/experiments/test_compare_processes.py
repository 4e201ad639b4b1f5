"""A comparison under torchrun: the processes share its runs, and each run is that of one process."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
import references_kills as kills
import references_processes as shared
from references_runs import write_bars
from typer.testing import CliRunner

from laplacenet.cli.app import app

DEADLINE_S = 300  # however loaded the machine is
COMPARE = (
    "compare bars.npz --methods supervised,fixmatch --labels 9 --seeds 2 --steps 4 --device cpu"
    " --set train.batch_size=24 --set train.labeled_batch_size=8"
)


def test_two_processes_share_the_runs_of_a_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_bars(tmp_path / "bars.npz")
    command = [*f"-m laplacenet {COMPARE} --finalists 1 --out two".split()]
    said = shared.wait_for_all(shared.start_processes(2, command, folder=tmp_path), timeout_s=DEADLINE_S)
    assert "table, picture and record: two" in said[0][0]
    assert said[1] == ("", "")
    monkeypatch.chdir(tmp_path)
    alone = CliRunner().invoke(app, [*COMPARE.split(), "--finalists", "1", "--out", "one"])
    assert alone.exit_code == 0, alone.output
    assert errors_of(tmp_path / "two") == errors_of(tmp_path / "one")
    assert (tmp_path / "two" / "comparison.md").is_file()


def errors_of(folder: Path) -> dict[str, tuple[float, int]]:
    """The test error and the steps of each run."""
    runs = json.loads((folder / "record.json").read_text())["runs"]
    assert len(runs) == 3
    return {f"{run['method']}-{run['seed']}": (run["outcome"]["test_error"], run["outcome"]["steps"]) for run in runs}


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_comparison_whose_first_process_is_lost_ends_with_how_to_go_on(
    number: signal.Signals, tmp_path: Path
) -> None:
    """The others waited for a stalled one for ever; and after a kill nobody but the one that was gone would speak."""
    write_bars(tmp_path / "bars.npz")
    command = f"-m laplacenet {COMPARE} --out two".replace("--steps 4", "--steps 20000")
    launcher = shared.start_torchrun(2, command.split(), folder=tmp_path)
    try:
        while not list((tmp_path / "two" / "runs").glob("*/experiment.json")) and launcher.poll() is None:
            time.sleep(0.1)
        workers = kills.workers_of(launcher.pid)
        os.kill(workers[0], number)
        assert kills.wait_for_end([*workers, launcher.pid]) < kills.DEADLINE_S
    finally:
        kills.end(launcher)
    log = (tmp_path / "torchrun.log").read_text()
    assert "same command" in log, log
