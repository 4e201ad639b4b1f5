"""`label` by two processes: the labels of one, one run folder, one report."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import references_kills as kills
import references_label_processes as labelings
import references_processes as shared
import torch
from references_labeling import clusters, make_quick

import laplacenet
from laplacenet.data import data_hash
from laplacenet.labeling.job import read_job, require_same_inputs_in_all
from laplacenet.labeling.result import load_labeling
from laplacenet.labeling.settings import CollectionConfig, LabelingSettings
from laplacenet.runtime import Group, InputError

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
    shared.wait_for_all(processes, timeout_s=DEADLINE_S)
    return folder


@pytest.mark.parametrize("kind", labelings.KINDS)
def test_two_processes_find_the_labels_of_one(
    kind: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_quick(monkeypatch)
    monkeypatch.setenv("LAPLACENET_CACHE", str(tmp_path / "cache"))
    alone = labelings.labeled(kind, folder, tmp_path / "alone")
    together = laplacenet.LabelingRun(folder / f"{kind}-together")
    assert together.paths == alone.paths
    assert together.labels == alone.labels
    assert together.is_complete
    assert torch.allclose(load_labeling(together.path).scores, load_labeling(alone.path).scores, atol=1e-2)
    assert (together.path / "report.html").is_file()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are found in /proc")
@pytest.mark.parametrize("rank", range(2))
def test_a_script_that_ends_leaves_no_thread_of_torch(rank: int, folder: Path) -> None:
    """A thread of gloo that is still there while Python shuts down may abort the process."""
    left = (folder / f"threads-{rank}").read_text().split()
    assert left
    assert not [name for name in left if name.startswith(("gloo", "pt_"))]


class Second(Group):
    """A process whose first one has sent what it knows."""

    sent: Any = None

    def by_first(self, work: Callable[[], Any]) -> Any:
        return Second.sent


def test_processes_with_other_pictures_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each computed with its own: labels of a mixture that no machine had."""
    X, truth = clusters(40, 2, noise=0.5)
    np.savez(tmp_path / "data.npz", embeddings=X.numpy(), labels=truth.numpy())
    job = read_job(LabelingSettings(collection=CollectionConfig(pictures=str(tmp_path / "data.npz"))))
    monkeypatch.setattr("laplacenet.runtime.group._current", Second(1, 2, reduces=True))
    own = {"number of rows": 40, "hash of rows and labels": data_hash(job.collection.rows), "classes": ["0", "1"]}
    Second.sent = own
    require_same_inputs_in_all(job)
    Second.sent = own | {"number of rows": 41}
    with pytest.raises(InputError, match=r"process 1 of 2, on .* its number of rows is 40, the first process's is 41"):
        require_same_inputs_in_all(job)


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")
def test_a_labeling_goes_on_after_a_process_was_killed(folder: Path, tmp_path: Path) -> None:
    """torchrun starts the command again, which finds its run and resumes it."""
    command = f"-m laplacenet label {folder / 'pictures'} --steps 60 --batch 12 --set graph.k=8 --out run --device cpu"
    command += " --no-suspects --checkpoint-every 1s"
    launcher = shared.start_torchrun(2, command.split(), folder=tmp_path, options="--max-restarts 2")
    try:
        while not list((tmp_path / "run").glob("stages/*/stage.json")) and launcher.poll() is None:
            time.sleep(0.05)
        time.sleep(1)
        os.kill(kills.workers_of(launcher.pid)[1], signal.SIGKILL)
        assert launcher.wait(timeout=DEADLINE_S) == 0, (tmp_path / "torchrun.log").read_text()
    finally:
        launcher.kill()
        launcher.wait()
    said = (tmp_path / "torchrun.log").read_text()
    assert "go on with: torchrun --standalone --nproc-per-node 2 -m laplacenet label --resume run" in said
    assert laplacenet.LabelingRun(tmp_path / "run").is_complete
