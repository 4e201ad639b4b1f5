"""One unbroken run for all to be compared with, and the record of the long tier: counts, seeds, failures."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from references_reliability import Result, go, result_of
from references_runs import write_bars

from laplacenet.runtime import RunFolder, provenance, read_json, write_json

RECORD = Path(__file__).parents[2] / "results" / "reliability.json"
rows: dict[str, dict[str, object]] = {}
failures: list[str] = []
fuzzed: dict[str, str] = {}


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bars(tmp_path_factory.mktemp("data") / "bars.npz")


@pytest.fixture(scope="session")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an unbroken run that was saved after every step; not to be written to."""
    return go(data, tmp_path_factory.mktemp("finished") / "run").path


@pytest.fixture(scope="session")
def unbroken(finished: Path) -> Result:
    return result_of(RunFolder(finished))


@pytest.fixture
def reliability_record() -> Callable[..., None]:
    """Called by a test of the long tier, once it has passed, with its counts."""

    def record(name: str, **counts: object) -> None:
        rows[name] = counts

    return record


def n_examples() -> int:
    return int(os.environ.get("LAPLACENET_FUZZ_EXAMPLES", "100"))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        failures.append(report.nodeid)
    if report.when == "call" and "fuzz" in report.nodeid and n_examples() >= 10_000:
        fuzzed[report.nodeid] = report.outcome


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Rows of earlier parts of the tier stay; those that were run again are replaced."""
    seed = session.config.getoption("--hypothesis-seed", default=None)
    for test, outcome in fuzzed.items():
        rows[f"fuzz: {test}"] = {"examples": n_examples(), "seed": seed, "outcome": outcome}
    if not rows and not (failures and session.config.getoption("-m") == "long"):
        return
    made_by = {key: value for key, value in provenance(torch.device("cpu")).items() if key != "command"}
    written = read_json(RECORD) if RECORD.is_file() else {"kind": "reliability", "rows": {}}
    written["failures"] = failures
    written["rows"] |= {name: {**counts, "made_by": made_by} for name, counts in rows.items()}
    write_json(RECORD, written)
