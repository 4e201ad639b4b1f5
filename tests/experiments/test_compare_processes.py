"""A comparison under torchrun: the processes share its runs, and each run is that of one process."""

import json
from pathlib import Path

import pytest
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
    processes = shared.start_processes(2, command, folder=tmp_path)
    try:
        said = [process.communicate(timeout=DEADLINE_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], said
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
