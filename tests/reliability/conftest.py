"""One unbroken run, with which all others are compared."""

from pathlib import Path

import pytest
from references_reliability import Result, go, result_of
from references_runs import write_bars

from laplacenet.runtime import RunFolder


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
