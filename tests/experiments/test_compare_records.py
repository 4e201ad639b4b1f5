"""The committed record of a comparison goes on by the command that began it, whatever is changed in the code."""

import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from laplacenet.cli.app import app
from laplacenet.experiments.compare import Workbench
from laplacenet.experiments.compare.comparison import read_comparison

RECORD = Path(__file__).parents[2] / "results" / "methods" / "cifar100-4000-equal-minutes.json"
COMMAND = (
    "compare cifar100 --data-dir data --labels cifar100_published_splits.npz --split-key '4000/{split:02d}'"
    " --methods supervised,network-labels,mean-teacher,mixmatch,uda,fixmatch,freematch,laplacenet --preset equal"
    " --for 5m --tune 1m --rates 0.01,0.03,0.1 --held-out 400 --seeds 2 --finalists 4 --limit 1426s --out equal"
    " --record cifar100-4000-equal-minutes.json"
)


def test_the_committed_record_is_taken_over_by_the_command_that_began_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every one of its runs; only the data is not read here."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(RECORD, tmp_path)
    (tmp_path / "data").mkdir()
    np.savez("cifar100_published_splits.npz", **{"4000/00": np.arange(4), "4000/01": np.arange(4)})
    content = json.loads(RECORD.read_text())
    made: list[tuple[Workbench, Path]] = []

    def keep(bench: Workbench, *, record: Path, **_: Any) -> None:
        made.append((bench, record))

    monkeypatch.setattr("laplacenet.cli.comparing.work_together", keep)
    answer = CliRunner().invoke(app, shlex.split(COMMAND))
    assert answer.exit_code == 0, answer.output
    ((bench, record),) = made
    bench.begin(record)
    bench.keep_data({})
    bench.take_over(record)
    for found, expected in ((bench.tuning_results(), content["tuning"]), (bench.results(), content["runs"])):
        assert [numbers_of(run.to_json()) for run in found] == [numbers_of(run) for run in expected]
    assert (len(content["tuning"]), len(content["runs"])) == (24, 12)
    assert bench.due_runs() == []


@pytest.mark.parametrize("path", sorted(RECORD.parent.glob("*.json")), ids=lambda path: path.stem)
def test_every_committed_record_says_what_it_compares_in_a_way_that_is_still_read(path: Path) -> None:
    compared = read_comparison(json.loads(path.read_text())["comparison"], source=path.name)
    assert compared.differences(compared) == ""
    assert compared.differences(replace(compared, finalists=7)).startswith("--finalists is 7, here ")


def numbers_of(run: dict[str, Any]) -> dict[str, Any]:
    """All but the settings, which may be more today, as may be what an outcome has."""
    outcome = {name: value for name, value in (run["outcome"] or {}).items() if value is not None}
    return {name: value for name, value in run.items() if name != "experiment"} | {"outcome": outcome}
