"""`label` by two processes: the labels of one, one run folder, one report."""

from pathlib import Path

import pytest
import references_label_processes as labelings
import references_processes as shared
import torch

import laplacenet
from laplacenet.labeling.result import load_labeling

DEADLINE_S = 400  # however loaded the machine is


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where two processes have labeled all kinds of inputs."""
    folder = tmp_path_factory.mktemp("label-together")
    labelings.write_inputs(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAPLACENET_CACHE", str(folder / "cache"))
        script = str(Path(labelings.__file__).resolve())
        processes = shared.start_processes(2, [script, str(folder)], folder=folder)
    try:
        said = [process.communicate(timeout=DEADLINE_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], said
    return folder


@pytest.mark.parametrize("kind", labelings.KINDS)
def test_two_processes_find_the_labels_of_one(
    kind: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laplacenet.models.patches.N_PATCHES", 2_000)
    monkeypatch.setattr("laplacenet.labeling.outcome.N_ITERATIONS", 250)
    monkeypatch.setenv("LAPLACENET_CACHE", str(tmp_path / "cache"))
    alone = labelings.labeled(kind, folder, tmp_path / "alone")
    together = laplacenet.LabelingRun(folder / f"{kind}-together")
    assert together.paths == alone.paths
    assert together.labels == alone.labels
    assert together.is_complete
    assert torch.allclose(load_labeling(together.path).scores, load_labeling(alone.path).scores, atol=1e-2)
    assert (together.path / "report.html").is_file()
