"""The record of the long tier, a plugin of pytest: what was tried how often, with which seeds, and what failed.

Every session that runs a part of the tier puts its rows into `results/reliability.json`; other rows stay. A test that
once failed is listed until it passes, or is gone.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from laplacenet.runtime import provenance, read_json, write_json

RECORD = Path(__file__).parents[1] / "results" / "reliability.json"
N_EXAMPLES = int(os.environ.get("LAPLACENET_FUZZ_EXAMPLES", "100"))
LONG_EXAMPLES = 10_000

rows: dict[str, dict[str, object]] = {}
outcomes: dict[str, str] = {}


@pytest.fixture
def reliability_record() -> Callable[..., None]:
    """Called by a test of the long tier, once it has passed, with its counts."""

    def record(name: str, **counts: object) -> None:
        rows[name] = counts

    return record


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed or (report.when == "call" and report.passed):
        outcomes[report.nodeid] = "failed" if report.failed else outcomes.get(report.nodeid, "passed")


def is_fuzzing(test: str) -> bool:
    """By hypothesis; atheris has a count of its own."""
    return "fuzz" in test and "atheris" not in test and N_EXAMPLES >= LONG_EXAMPLES


def exists(test: str) -> bool:
    """Whether a test that once failed is still there under its name."""
    path, _, name = test.partition("::")
    file = RECORD.parents[1] / path
    return file.is_file() and f"def {name.partition('[')[0]}(" in file.read_text(encoding="utf-8")


def pytest_sessionfinish(session: pytest.Session) -> None:
    seed = session.config.getoption("--hypothesis-seed", default=None)
    for test, outcome in outcomes.items():
        if is_fuzzing(test) and outcome == "passed":
            rows[test] = {"examples": N_EXAMPLES, "seed": seed}
    if not rows and not is_long(session):
        return
    made_by = provenance(torch.device("cpu"))
    written = read_json(RECORD) if RECORD.is_file() else {"kind": "reliability", "failures": [], "rows": {}}
    failed = {test for test in written["failures"] if exists(test) and outcomes.get(test) != "passed"}
    failed |= {test for test, outcome in outcomes.items() if outcome == "failed"}
    of_a_row = {key: made_by[key] for key in ("date", "commit")}
    written["made_by"] = {key: made_by[key] for key in ("version", "python", "libraries", "hardware")}
    written["failures"] = sorted(failed)
    written["rows"] |= {name: {**counts, **of_a_row} for name, counts in rows.items()}
    write_json(RECORD, written)


def is_long(session: pytest.Session) -> bool:
    return bool(outcomes) and session.config.getoption("-m") == "long"
