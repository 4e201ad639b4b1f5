"""Numbers that are no longer finite stop a run before they are saved; what else goes wrong is said where it arises."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from references_cli import Shell
from references_reliability import EVERY_STEP, go
from references_runs import StopAfter, tiny_experiment, write_bars

from laplacenet.experiments import prepare, read_epochs, run_experiment
from laplacenet.experiments.judging import missing_classes
from laplacenet.experiments.run_records import COLLAPSED, remarks
from laplacenet.graph import pseudo_label
from laplacenet.runtime import RunFolder
from laplacenet.training import DivergedError, Execution, Position, save_checkpoint
from laplacenet.training.checkpoint import checkpoint_step
from laplacenet.training.guards import mean_cosine

TINY = ("--set", "train.batch_size=24", "--set", "train.labeled_batch_size=4", "--set", "train.steps=12")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    write_bars(tmp_path / "bars.npz")
    return Shell(tmp_path, monkeypatch, capsys)


def test_a_network_that_says_nothing_any_more_is_not_saved_and_the_last_good_checkpoint_goes_on(
    data: Path, tmp_path: Path
) -> None:
    folder = RunFolder.create(tmp_path / "run")
    experiment = tiny_experiment(data)
    run_experiment(experiment, folder, execution=EVERY_STEP, monitor=StopAfter(5))
    lr = "laplacenet.training.methods.base.learning_rates"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lr, lambda config, first, n: np.full(n, 1e30, dtype=np.float32))
        with pytest.raises(DivergedError, match=r"outputs of 60 of 60 inputs are not finite at step 6 "):
            go(data, folder.path)
    assert checkpoint_step(folder.checkpoint) == 5
    go(data, folder.path)
    assert folder.has("final.json")


def test_a_loss_that_is_not_finite_names_the_step_and_is_not_saved(data: Path, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    with pytest.raises(DivergedError, match=r"the loss became nan at step 2 "):
        run_experiment(tiny_experiment(data, lr=1e30), folder, execution=Execution(torch.device("cpu")))
    assert checkpoint_step(folder.checkpoint) == 0
    assert not folder.has("final.json")


def test_the_command_that_resumes_a_diverged_run_is_offered(shell: Shell) -> None:
    said = shell("train", "bars.npz", "--labels", "9", "--out", "run", *TINY, "--set", "train.lr=1e30")
    assert said.code == 1
    (line,) = [line for line in said.err.splitlines() if line.startswith("error: ")]
    assert "at step" in line
    assert line.endswith("last good checkpoint (step 0) with: laplacenet train --resume run")


def test_features_that_are_not_finite_stop_the_run_and_name_the_step(data: Path, tmp_path: Path) -> None:
    task = prepare(tiny_experiment(data))
    network = task.network()
    with torch.no_grad():
        next(iter(network.parameters())).fill_(float("inf"))
    for name in ("laplacenet", "network-labels"):
        method = prepare(tiny_experiment(data, method=name)).method
        with pytest.raises(DivergedError, match="the features of 60 of 60 inputs are not finite at step 2 "):
            method.plan_epoch(1, 2, learner=network, inputs=task.inputs)


def test_weights_that_are_not_finite_are_never_saved(data: Path, tmp_path: Path) -> None:
    """The last step's loss may be finite when its gradients are not."""
    network = prepare(tiny_experiment(data)).network()
    start = Position()
    save_checkpoint(tmp_path / "checkpoint", network, start, identity={})
    with torch.no_grad():
        network.head.weight[0, 0] = float("nan")
    with pytest.raises(DivergedError, match=r"learner\.head\.weight is not finite at step 7"):
        save_checkpoint(tmp_path / "checkpoint", network, replace(start, step=7), identity={})
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint"]
    assert checkpoint_step(tmp_path / "checkpoint") == 0


@given(seed=st.integers(0, 99), n=st.integers(2, 900), d=st.integers(1, 5))
def test_the_mean_cosine_is_that_of_all_pairs_of_the_sample(seed: int, n: int, d: int) -> None:
    features = np.random.default_rng(seed).normal(size=(n, d))
    sample = features[[i * n // min(n, 500) for i in range(min(n, 500))]]
    sample = sample / np.linalg.norm(sample, axis=1, keepdims=True)
    pairs = (sample @ sample.T)[~np.eye(len(sample), dtype=bool)]
    assert mean_cosine(torch.from_numpy(features)) == pytest.approx(pairs.mean(), abs=1e-9)


def test_a_collapsed_embedding_is_said(data: Path, tmp_path: Path) -> None:
    features = torch.ones(100, 8) + 1e-3 * torch.randn(100, 8, generator=torch.Generator().manual_seed(0))
    assert mean_cosine(features) > COLLAPSED
    task = prepare(tiny_experiment(data))
    network = task.network()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        for module in network.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.bias.fill_(1.0)
    report = task.method.plan_epoch(1, 2, learner=network, inputs=task.inputs).report
    assert report.mean_cosine > COLLAPSED
    record = read_epochs(go(data, tmp_path / "run"))[-1]
    assert "collapsed" not in remarks(record)
    said = remarks(replace(record, mean_cosine=report.mean_cosine))["collapsed"]
    assert "the embeddings have collapsed (their mean cosine is 1.00000)" in said


def test_a_class_that_vanished_from_the_pseudo_labels_is_said_by_name(data: Path, tmp_path: Path) -> None:
    task = prepare(tiny_experiment(data))
    labels = pseudo_label(torch.randn(60, 4), task.given_labels, task.experiment.graph, n_classes=3)
    vanished = replace(labels, labels=torch.where(task.given_labels >= 0, task.given_labels, 1))
    assert missing_classes(task, vanished) == ["0", "2"]
    record = read_epochs(go(data, tmp_path / "run"))[-2]
    assert (record.n_missing_classes, record.missing_class) == (0, None)
    said = remarks(replace(record, n_missing_classes=2, missing_class="0"))["missing"]
    assert "no unlabeled input is given the class '0', nor 1 others" in said


def test_conjugate_gradients_that_do_not_converge_are_said_once_a_run(shell: Shell) -> None:
    unconverged = ("--set", "graph.max_iterations=1", "--set", "graph.tol=1e-12")
    said = shell("train", "bars.npz", "--labels", "9", "--out", "run", *TINY, *unconverged, "--for", "0.05s")
    again = shell("train", "--resume", "run")
    both = said.err + again.err
    assert both.count("did not converge in 1 iterations") == 1


def test_an_empty_class_and_fewer_labels_than_classes_are_said_before_the_first_step(shell: Shell) -> None:
    (shell.folder / "rows.txt").write_text("0\n1\n")
    said = shell.succeeds("train", "bars.npz", "--labels", "rows.txt", "--out", "run", *TINY)
    warnings = [line for line in said.err.splitlines() if line.startswith("warning: ")]
    assert "warning: there are fewer labels (2) than classes (3)" in warnings
    assert "warning: no label is given for class '2'; no input will be assigned to it" in warnings
    assert len(warnings) == len(set(warnings))


def test_what_a_run_makes_good_is_said_on_stderr(shell: Shell) -> None:
    shell.runs_out_of_time("train", "bars.npz", "--labels", "9", "--out", "run", *TINY, "--for", "0.000001s")
    (shell.folder / "run" / "provenance.json").unlink()
    said = shell.succeeds("train", "--resume", "run")
    (line,) = [line for line in said.err.splitlines() if line.startswith("warning: ") and "provenance" in line]
    assert line.endswith("what ran before is no longer known")
