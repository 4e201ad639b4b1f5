"""Runs: what they leave behind, and that stopping, resuming and hidden labels change nothing."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from references_runs import N_TRAIN, StopAfter, tiny_experiment, write_bars

from laplacenet.evaluation import error_rate
from laplacenet.experiments import (
    Experiment,
    Outcome,
    prepare,
    read_epochs,
    read_experiment,
    read_outcome,
    resume_run,
    run_experiment,
    start_run,
)
from laplacenet.experiments.judging import Judge
from laplacenet.experiments.paper.records import thin_curve
from laplacenet.experiments.run import identity
from laplacenet.experiments.run_records import median_step_s, remarks
from laplacenet.models import Inference, load_model
from laplacenet.runtime import InputError, RunFolder
from laplacenet.training import DivergedError, Execution

CPU = Execution(torch.device("cpu"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bars(tmp_path_factory.mktemp("data") / "bars.npz")


@pytest.fixture(scope="module")
def unbroken(data: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = RunFolder.create(tmp_path_factory.mktemp("runs") / "unbroken")
    assert run_experiment(tiny_experiment(data), folder, execution=CPU) is not None
    return folder


def run(experiment: Experiment, path: Path) -> tuple[RunFolder, Outcome]:
    folder = RunFolder.create(path)
    outcome = run_experiment(experiment, folder, execution=CPU)
    assert outcome is not None
    return folder, outcome


def go_on(folder: RunFolder) -> Outcome:
    for _ in resume_run(prepare(read_experiment(folder)), folder, execution=CPU):
        pass
    return read_outcome(folder)


def weights(folder: RunFolder) -> bytes:
    return (folder.path / "model.safetensors").read_bytes()


def losses(folder: RunFolder) -> list[float]:
    return [record.loss for record in read_epochs(folder)]


def test_a_run_folder_holds_all_that_the_design_names(unbroken: RunFolder, data: Path) -> None:
    names = {path.name for path in unbroken.path.iterdir()}
    expected = {"experiment.json", "provenance.json", "epochs.jsonl", "final.json", "checkpoint", "model.json"}
    assert expected | {"model.safetensors"} <= names
    assert read_experiment(unbroken) == tiny_experiment(data)
    provenance = unbroken.read_sealed("provenance.json")
    assert provenance["seed"] == 3
    assert {"commit", "libraries", "hardware", "date"} <= provenance.keys()
    assert len(provenance["data"]["train"]) == len(provenance["data"]["test"]) == 64


def test_every_epoch_is_recorded_up_to_exactly_the_last_step(unbroken: RunFolder) -> None:
    records = read_epochs(unbroken)
    assert [record.step for record in records] == [2, 4, 6, 8, 10, 12]
    assert [record.phase for record in records] == ["supervised"] + ["semi-supervised"] * 5
    assert all(record.is_complete and record.test_error is not None for record in records)
    assert [record.pseudo_label_accuracy is None for record in records] == [True] + [False] * 5
    elapsed = [record.elapsed_s for record in records]
    assert elapsed == sorted(elapsed)


def test_a_run_that_is_judged_less_often_ends_alike(unbroken: RunFolder, data: Path, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    run_experiment(tiny_experiment(data), folder, execution=replace(CPU, judge_every=4))
    expected = [record.test_error for record in read_epochs(unbroken)]
    found = [record.test_error for record in read_epochs(folder)]
    assert found == [None, None, None, expected[3], None, expected[5]]
    assert read_outcome(folder).test_error == read_outcome(unbroken).test_error
    assert weights(folder) == weights(unbroken)


def test_the_result_is_the_last_networks_error_and_the_best_stands_beside_it(unbroken: RunFolder) -> None:
    records, outcome = read_epochs(unbroken), read_outcome(unbroken)
    assert outcome.test_error == records[-1].test_error
    assert outcome.best_test_error == min(record.test_error for record in records)
    assert outcome.pseudo_label_accuracy == records[-1].pseudo_label_accuracy
    assert (outcome.steps, outcome.n_labeled, outcome.n_epochs) == (12, 9, 6)
    assert outcome.train_invariance is not None
    assert outcome.test_invariance is not None


def test_the_invariance_under_weaker_views_is_that_of_views_like_a_labeled_images(unbroken: RunFolder) -> None:
    experiment = read_experiment(unbroken)
    weaker = replace(experiment.augment, n_unlabeled_samples=experiment.augment.n_labeled_samples)
    assert weaker != experiment.augment
    task = prepare(replace(experiment, augment=weaker))
    network, _ = load_model(unbroken.path)
    expected = Judge(task, Inference(network, task.views.plain)).test_invariance
    assert read_outcome(unbroken).test_invariance_as_labeled == expected


def test_the_saved_model_is_the_one_that_was_judged(unbroken: RunFolder) -> None:
    task = prepare(read_experiment(unbroken))
    network, description = load_model(unbroken.path)
    assert description == task.description
    error = error_rate(Inference(network, task.views.plain), task.test_inputs, task.test_labels)
    assert error == read_outcome(unbroken).test_error


def test_the_same_seed_gives_the_same_losses_and_weights_and_another_seed_others(
    unbroken: RunFolder, data: Path, tmp_path: Path
) -> None:
    again, _ = run(tiny_experiment(data), tmp_path / "again")
    assert losses(again) == losses(unbroken)
    assert weights(again) == weights(unbroken)
    other, _ = run(replace(tiny_experiment(data), seed=4), tmp_path / "other")
    assert losses(other) != losses(unbroken)


@pytest.mark.parametrize("n_steps", [0, 1, 5, 6, 11])
def test_a_run_that_was_stopped_anywhere_and_resumed_ends_bit_for_bit_like_the_unbroken_one(
    unbroken: RunFolder, data: Path, tmp_path: Path, n_steps: int
) -> None:
    folder = RunFolder.create(tmp_path / "stopped")
    stopped = run_experiment(tiny_experiment(data), folder, execution=CPU, monitor=StopAfter(n_steps))
    assert stopped is None
    assert not folder.has("final.json")
    with pytest.raises(InputError, match="not finished"):
        read_outcome(folder)
    outcome = go_on(folder)
    assert weights(folder) == weights(unbroken)
    assert outcome.test_error == read_outcome(unbroken).test_error
    assert outcome.pseudo_label_accuracy == read_outcome(unbroken).pseudo_label_accuracy
    assert thin_curve(read_epochs(folder)) == thin_curve(read_epochs(unbroken))
    assert len(folder.read_sealed("provenance.json")["resumed"]) == 1


def test_epochs_recorded_behind_the_checkpoint_are_dropped_and_run_again(
    unbroken: RunFolder, data: Path, tmp_path: Path
) -> None:
    assert CPU.checkpoint_every_s >= 60
    folder = RunFolder.create(tmp_path / "crashed")
    epochs = start_run(prepare(tiny_experiment(data)), folder, execution=CPU)
    next(epochs), next(epochs)
    epochs.close()  # as a crash would: nothing is saved
    assert [record.step for record in read_epochs(folder)] == [2, 4]
    go_on(folder)
    assert losses(folder) == losses(unbroken)
    assert weights(folder) == weights(unbroken)


def test_a_run_that_died_between_its_last_step_and_its_outcome_is_finished_by_resuming(
    unbroken: RunFolder, tmp_path: Path
) -> None:
    shutil.copytree(unbroken.path, tmp_path / "run")
    (tmp_path / "run" / "final.json").unlink()
    outcome = go_on(RunFolder.open(tmp_path / "run"))
    assert replace(outcome, total_s=0.0) == replace(read_outcome(unbroken), total_s=0.0)


def test_hidden_labels_replaced_by_garbage_change_nothing(data: Path, tmp_path: Path) -> None:
    rows = np.array([0, 1, 2, 9, 10, 11])
    np.savez(tmp_path / "split.npz", rows=rows)
    with np.load(data) as arrays:
        garbage = np.random.default_rng(5).integers(0, 3, size=N_TRAIN)
        garbage[rows] = arrays["labels"][rows]
    other_data = write_bars(tmp_path / "garbage.npz", labels=garbage)
    folders, identities = [], []
    for name, source in (("true", data), ("garbage", other_data)):
        experiment = tiny_experiment(source)
        split = replace(experiment.data, n_labeled=None, split_file=str(tmp_path / "split.npz"))
        experiment = replace(experiment, data=split)
        folder, _ = run(experiment, tmp_path / name)
        folders.append(folder)
        identities.append(identity(prepare(experiment))["hash of inputs and given labels"])
    assert losses(folders[0]) == losses(folders[1])
    assert weights(folders[0]) == weights(folders[1])
    assert identities[0] == identities[1]
    accuracies = [read_outcome(folder).pseudo_label_accuracy for folder in folders]
    assert accuracies[0] != accuracies[1]


def test_a_checkpoint_of_other_settings_is_refused_by_the_name_of_the_setting(data: Path, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    run_experiment(tiny_experiment(data), folder, execution=CPU, monitor=StopAfter(3))
    content = folder.read_experiment()
    content["train"]["lr"] = 0.5
    folder.write_experiment(content)
    with pytest.raises(InputError, match=r"train\.lr is 0\.05, this run's is 0\.5"):
        go_on(folder)


def test_a_finished_run_is_not_resumed(unbroken: RunFolder) -> None:
    with pytest.raises(InputError, match="finished"):
        go_on(unbroken)


def test_two_processes_do_not_work_on_one_run(data: Path, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    with folder.locked(), pytest.raises(InputError, match="another process"):
        run_experiment(tiny_experiment(data), folder, execution=CPU)


def test_a_run_that_diverges_says_so_and_leaves_its_checkpoint(data: Path, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    with pytest.raises(DivergedError, match="loss became"):
        run_experiment(tiny_experiment(data, lr=1e30), folder, execution=CPU)
    assert json.loads((folder.checkpoint / "manifest.json").read_text())["step"] == 0
    assert not folder.has("final.json")


def test_without_a_test_set_there_is_no_test_error(tmp_path: Path) -> None:
    data = write_bars(tmp_path / "bars.npz", with_test=False)
    _, outcome = run(tiny_experiment(data, steps=4), tmp_path / "run")
    assert outcome.test_error is None
    assert outcome.best_test_error is None
    assert outcome.test_invariance is None
    assert outcome.train_invariance is not None


def test_without_pseudo_labels_every_step_is_supervised(data: Path, tmp_path: Path) -> None:
    folder, outcome = run(tiny_experiment(data, method="supervised", steps=6), tmp_path / "run")
    assert {record.phase for record in read_epochs(folder)} == {"supervised"}
    assert outcome.pseudo_label_accuracy is None


@pytest.mark.parametrize("sizes", [[4, 16], [10, 10], [4, 6, 6, 4], [3, 1, 2], [5]])
def test_the_time_of_a_step_is_the_median_over_steps(unbroken: RunFolder, sizes: list[int]) -> None:
    record = read_epochs(unbroken)[0]
    times = [0.3, 0.02, 0.01, 0.05][: len(sizes)]
    records = [replace(record, n_steps=n, step_s=t) for n, t in zip(sizes, times, strict=True)]
    assert median_step_s(records) == pytest.approx(np.median(np.repeat(times, sizes)))
    assert median_step_s([]) is None


def test_what_the_graph_had_trouble_with_is_said(unbroken: RunFolder) -> None:
    record = read_epochs(unbroken)[-1]
    assert remarks(record) == {}
    troubled = replace(record, is_converged=False, n_iterations=7, n_unreachable=4, recall=0.987)
    said = remarks(troubled)
    assert "did not converge in 7 iterations" in said["converged"]
    assert "no label reaches 4 inputs" in said["unreachable"]
    assert "98.7%" in said["recall"]
