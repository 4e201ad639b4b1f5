"""`laplacenet bench` from the outside: a table, a record, and one line for what cannot be asked."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from laplacenet.cli.bench import bench
from laplacenet.experiments.benchmark import GraphRow, read_bench_records
from laplacenet.runtime import InputError

Done = subprocess.CompletedProcess[str]


def laplacenet(*arguments: str) -> Done:
    command = [sys.executable, "-m", "laplacenet", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Path]:
    folder = tmp_path_factory.mktemp("results") / "bench"
    options = ["--quick", "--only", "graph,stream", "--sizes", "300,600", "--device", "cpu", "--out", str(folder)]
    return laplacenet("bench", *options), folder


def test_a_quick_run_prints_a_table_and_leaves_a_record(measured: tuple[Done, Path]) -> None:
    result, folder = measured
    assert result.returncode == 0, result.stderr
    for said in ("graph, n = 300", "graph, n = 600", "time ~ n^", "streaming", "not measured"):
        assert said in result.stdout
    (record,) = read_bench_records(folder)
    assert record.is_complete
    assert [row.n for row in record.rows["graph"] if isinstance(row, GraphRow)] == [300, 600]
    assert record.missing[0].section == "stream"
    assert record.provenance["hardware"]["device"] == "cpu"


def test_progress_is_shown_apart_from_the_table(measured: tuple[Done, Path]) -> None:
    result, _ = measured
    assert "measuring  0/3  the graph: n = 300" in result.stderr
    assert "1/3" not in result.stdout


def test_records_become_markdown_with_where_they_come_from(measured: tuple[Done, Path], tmp_path: Path) -> None:
    _, folder = measured
    result = laplacenet("report", "--results", str(folder.parent), "--out", str(tmp_path / "out"))
    assert result.returncode == 0, result.stderr
    lines = (tmp_path / "out" / "bench.md").read_text().splitlines()
    assert lines[0].startswith("CPU, ")
    assert "commit" in lines[0]
    table = [line for line in lines if line.startswith("|")]
    assert table[0] == "| what | ours | beside it | ratio | peak memory | remarks |"
    assert len({line.count("|") for line in table}) == 1
    assert len(table) == 2 + 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "step"], "choose some of steps,views,labels,propagation,search,graph,stream,epochs"),
        (["--sizes", "many"], "--sizes many"),
        (["--sizes", "7"], "--sizes 7"),
    ],
)
def test_what_cannot_be_measured_is_said_before_anything_is(arguments: list[str], said: str, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(bench)
    result = CliRunner().invoke(app, ["--device", "cpu", "--out", str(tmp_path), *arguments])
    assert isinstance(result.exception, InputError)
    assert said in str(result.exception)
    assert not list(tmp_path.iterdir())
