"""A byte changed, a file cut or gone, anywhere in a run folder: the run ends right, or one line says why not."""

import logging
import random
import shutil
from pathlib import Path

import pytest
import torch
from references_reliability import EVERY_STEP, Result, damaged_copies, go, result_of, result_or_refusal
from references_runs import StopAfter, tiny_experiment

from laplacenet.experiments import prepare, read_epochs, read_outcome, run_experiment
from laplacenet.models import load_model
from laplacenet.runtime import InputError, RunFolder
from laplacenet.training import Execution
from laplacenet.training.checkpoint import checkpoint_step

AT_THE_END = Execution(torch.device("cpu"))


@pytest.fixture(scope="module")
def stopped(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that stopped in mid-epoch, with two checkpoints."""
    folder = RunFolder.create(tmp_path_factory.mktemp("stopped") / "run")
    run_experiment(tiny_experiment(data), folder, execution=EVERY_STEP, monitor=StopAfter(9))
    assert (folder.path / "checkpoint.old").is_dir()
    return folder.path


def without_losses(result: Result) -> tuple[bytes, dict[str, object]]:
    """Pieces of epochs depend on when checkpoints came; weights and outcome do not."""
    return result.weights, result.outcome


def is_right_or_refused(name: str, copy: Path, data: Path, expected: Result) -> bool:
    """Whether the run could be resumed."""
    folder, refusal = result_or_refusal(lambda: go(data, copy, execution=AT_THE_END))
    if refusal is not None:
        assert str(copy) in refusal or "data" in refusal, name
        return False
    assert without_losses(result_of(folder)) == without_losses(expected), name
    return True


def few(seed: int):
    return lambda size: random.Random(seed).sample(range(size), k=min(size, 1))


def test_a_damaged_file_of_a_stopped_run_never_gives_a_wrong_result(
    data: Path, unbroken: Result, stopped: Path, tmp_path: Path
) -> None:
    resumed = {}
    for name, copy in damaged_copies(stopped, tmp_path, offsets=few(0)):
        resumed[name] = is_right_or_refused(name, copy, data, unbroken)
    assert all(goes for name, goes in resumed.items() if not name.startswith("experiment.json"))


@pytest.mark.long
def test_many_damaged_files_of_a_stopped_run_never_give_a_wrong_result(
    data: Path, unbroken: Result, stopped: Path, tmp_path: Path, reliability_record
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    resumed = [
        is_right_or_refused(name, copy, data, unbroken)
        for name, copy in damaged_copies(
            stopped, tmp_path, offsets=lambda size: random.Random(seed).sample(range(size), k=min(size, 40))
        )
    ]
    reliability_record("damaged files of a stopped run", cases=len(resumed), resumed=sum(resumed), seed=seed)


def test_a_damaged_file_of_a_finished_run_is_never_believed(finished: Path, tmp_path: Path) -> None:
    """Read by whoever judges, predicts or reports; the checkpoint and the lock are not theirs to read."""
    network, description = load_model(finished)
    epochs = read_epochs(RunFolder(finished))
    for name, copy in damaged_copies(finished, tmp_path, offsets=few(1)):
        folder, n_refused = RunFolder(copy), 0
        for read, good in ((read_outcome, read_outcome(RunFolder(finished))), (read_epochs, epochs)):
            try:
                assert read(folder) == good or "final.json gone" in name, name
            except InputError:
                n_refused += 1
        try:
            found, about = load_model(copy)
            assert about == description, name
            assert all(torch.equal(a, b) for a, b in zip(found.parameters(), network.parameters(), strict=True)), name
        except InputError:
            n_refused += 1
        is_read = name.startswith(("final.json", "epochs.jsonl", "model."))
        assert n_refused or not is_read, f"{name} was believed"


def test_a_finished_run_whose_model_was_damaged_is_finished_again(
    data: Path, finished: Path, unbroken: Result, tmp_path: Path
) -> None:
    shutil.copytree(finished, tmp_path / "run")
    weights = tmp_path / "run" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\xff")
    folder = go(data, tmp_path / "run")
    assert result_of(folder) == unbroken


def test_a_damaged_checkpoint_is_said_and_the_one_before_it_is_taken(
    data: Path, unbroken: Result, stopped: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(stopped, tmp_path / "run")
    shard = tmp_path / "run" / "checkpoint" / "state-00.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    assert checkpoint_step(tmp_path / "run" / "checkpoint") == 9
    with caplog.at_level(logging.WARNING):
        folder = go(data, tmp_path / "run")
    (said,) = caplog.messages
    assert "run/checkpoint/state-00.safetensors: damaged" in said
    assert "going on from the checkpoint before it, of step 8" in said
    assert "\n" not in said
    assert result_of(folder) == unbroken


def test_with_every_checkpoint_damaged_the_run_is_refused_and_left_as_it_is(
    data: Path, stopped: Path, tmp_path: Path
) -> None:
    shutil.copytree(stopped, tmp_path / "run")
    for manifest in (tmp_path / "run").rglob("manifest.json"):
        manifest.write_bytes(b"{}")
    before = {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}
    with pytest.raises(InputError, match="not a checkpoint of format 3"):
        go(data, tmp_path / "run")
    assert {file: file.read_bytes() for file in before} == before | {
        tmp_path / "run" / ".lock": (tmp_path / "run" / ".lock").read_bytes()
    }


def test_evaluation_refuses_settings_that_were_changed_since(finished: Path, tmp_path: Path) -> None:
    from laplacenet.experiments import read_experiment
    from laplacenet.experiments.run import require_unchanged

    shutil.copytree(finished, tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    require_unchanged(prepare(read_experiment(folder)), folder)
    content = folder.read_experiment()
    content["augment"]["cutout"] = 0.35
    folder.write_experiment(content)
    with pytest.raises(InputError, match=r"its augment\.cutout is 0\.25, this run's is 0\.35"):
        require_unchanged(prepare(read_experiment(folder)), folder)
