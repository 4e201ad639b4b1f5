"""Tasks: which labels training sees, and what is refused before the first step."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from references_runs import tiny_experiment, write_bars

from laplacenet.cli.choices import with_labels
from laplacenet.data import load_dataset
from laplacenet.experiments import DataConfig, Experiment, override, prepare
from laplacenet.experiments.presets import preset_named
from laplacenet.experiments.task import renumbered, visible_labels
from laplacenet.graph import GraphConfig
from laplacenet.models import ModelConfig
from laplacenet.runtime import InputError


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bars(tmp_path_factory.mktemp("data") / "bars.npz")


def test_as_many_labels_of_each_class_are_shown_as_the_seed_draws(data: Path) -> None:
    experiment = tiny_experiment(data)
    task = prepare(experiment)
    assert torch.bincount(task.given_labels[task.given_labels >= 0]).tolist() == [3, 3, 3]
    assert bool((task.given_labels == task.true_labels)[task.given_labels >= 0].all())
    other = prepare(replace(experiment, seed=experiment.seed + 1))
    assert not torch.equal(task.given_labels, other.given_labels)


def test_a_split_seed_fixes_the_labels_for_every_run_seed(data: Path) -> None:
    experiment = tiny_experiment(data)
    fixed = replace(experiment, data=replace(experiment.data, split_seed=7))
    labels = [prepare(replace(fixed, seed=seed)).given_labels for seed in (0, 1)]
    assert torch.equal(*labels)


def test_without_a_word_about_labels_all_known_ones_are_given(data: Path) -> None:
    experiment = tiny_experiment(data)
    task = prepare(replace(experiment, data=DataConfig(name=str(data))))
    assert torch.equal(task.given_labels, task.true_labels)


def test_a_split_file_shows_the_rows_that_it_names(data: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "splits.npz", first=np.array([4, 8]), second=np.array([1, 2, 3]))
    split = DataConfig(name=str(data), split_file=str(tmp_path / "splits.npz"), split_key="second")
    task = prepare(replace(tiny_experiment(data), data=split))
    assert torch.nonzero(task.given_labels >= 0).flatten().tolist() == [1, 2, 3]


def test_a_label_list_names_files_and_may_bring_its_own_classes(tmp_path: Path) -> None:
    for i in range(6):
        Image.new("L", (8, 8), color=20 * i).save(tmp_path / f"{i}.png")
    (tmp_path / "labels.csv").write_text("file,label\n0.png,dark\n5.png,bright\n")
    labels = DataConfig(name=str(tmp_path), label_file=str(tmp_path / "labels.csv"))
    task = prepare(Experiment(data=labels, model=ModelConfig("small-cnn")))
    assert task.class_names == ("bright", "dark")
    assert task.given_labels.tolist() == [1, -1, -1, -1, -1, 0]
    assert bool((task.true_labels == -1).all())


def test_labels_are_renumbered_by_the_names_of_their_classes() -> None:
    labels = torch.tensor([0, 1, 2, -1])
    assert renumbered(labels, ("a", "b", "c"), ("c", "a")).tolist() == [1, -1, 0, -1]


def test_the_supervised_start_is_announced_when_it_is_cut(data: Path) -> None:
    assert prepare(tiny_experiment(data)).notes() == []
    (note,) = prepare(tiny_experiment(data, supervised_passes=100)).notes()
    assert "cut from 100 to 2 steps" in note
    assert prepare(tiny_experiment(data, method="supervised")).notes() == []


@pytest.mark.parametrize(("method", "is_said"), [("laplacenet", True), ("lp", True), ("dag", True), ("uda", False)])
def test_neighbors_that_are_all_other_inputs_are_announced(data: Path, method: str, is_said: bool) -> None:
    def notes(k: int) -> list[str]:
        return prepare(replace(tiny_experiment(data, method=method), graph=GraphConfig(k=k))).notes()

    new = [note for note in notes(60) if note not in notes(59)]
    assert len(new) == is_said
    assert all("graph.k is reduced from 60 to 59, so all 60 inputs are neighbors" in note for note in new)


@pytest.mark.parametrize("model", ["13-cnn", "mlp"])
def test_a_network_that_cannot_read_the_images_is_refused(data: Path, model: str) -> None:
    with pytest.raises(InputError, match=f"model {model} cannot read inputs of shape 1×8×8"):
        prepare(replace(tiny_experiment(data), model=ModelConfig(model)))


def test_a_convolution_does_not_read_vectors() -> None:
    experiment = Experiment(data=DataConfig(name="two-moons", n_labeled=4), model=ModelConfig("small-cnn"))
    with pytest.raises(InputError, match="shape 2; choose --model mlp"):
        prepare(experiment)


def test_labels_asked_for_in_two_ways_are_refused() -> None:
    with pytest.raises(InputError, match=r"data\.n_labeled and data\.split_file"):
        DataConfig(n_labeled=4, split_file="split.npz")
    with pytest.raises(InputError, match="split_key"):
        DataConfig(split_key="a")


def test_several_label_files_are_added_up_and_contradictions_named(tmp_path: Path) -> None:
    for name in ("a.png", "b.png", "c.png"):
        Image.new("L", (8, 8), 99).save(tmp_path / name)
    files = tmp_path / "one.csv", tmp_path / "two.csv"
    files[0].write_text("a.png,cat\n")
    files[1].write_text("b.png,dog\n")
    config = with_labels(DataConfig(name=str(tmp_path)), list(map(str, files)), None)
    dataset = load_dataset(str(tmp_path))
    given = visible_labels(dataset, config, root=tmp_path, seed=0)
    assert (given.labels.tolist(), given.class_names) == ([0, 1, -1], ("cat", "dog"))
    files[1].write_text("b.png,dog\na.png,dog\n")
    with pytest.raises(InputError, match=r"a\.png is 'dog' here and 'cat' in"):
        visible_labels(dataset, config, root=tmp_path, seed=0)
    with pytest.raises(InputError, match="--labels 5: several --labels must be files"):
        with_labels(DataConfig(name=str(tmp_path)), [str(files[0]), "5"], None)


def test_a_run_begins_with_filters_learned_from_its_own_pictures() -> None:
    settings = ["model.name=patch-cnn", "train.steps=1"]
    tasks = [prepare(override(preset_named("digits"), [*settings, f"seed={seed}"])) for seed in (0, 0, 1)]
    first, again, other = (task.network().state_dict()["body.0.weight"] for task in tasks)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first, tasks[0].description.build(seed=0).state_dict()["body.0.weight"])
