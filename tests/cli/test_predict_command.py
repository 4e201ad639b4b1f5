"""`laplacenet predict` as it is typed, where the run's model is a graph over embeddings."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from references_cli import Shell, on_a_terminal

from laplacenet.data import ChannelStatistics, read_collection
from laplacenet.labeling.embeddings import GraphModel, save_graph_model
from laplacenet.models import ModelConfig, ModelDescription, save_model

CENTERS = np.array([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0]], dtype=np.float32)


def write_graph_run(folder: Path) -> None:
    folder.mkdir()
    (folder / "experiment.json").write_text("{}")
    rng = np.random.default_rng(0)
    points = torch.from_numpy(np.repeat(CENTERS, 20, 0) + 0.2 * rng.normal(size=(40, 3)).astype(np.float32))
    model = GraphModel(
        points=torch.nn.functional.normalize(points, dim=1),
        scores=torch.tensor([[0.9, 0.1]] * 20 + [[0.1, 0.9]] * 20),
        masses=torch.tensor([0.5, 0.5], dtype=torch.float64),
        prior=(0.5, 0.5),
        class_names=("left", "=right"),
        k=5,
        temperature=1.0,
    )
    save_graph_model(folder, model)


def write_network_run(folder: Path) -> None:
    folder.mkdir()
    (folder / "experiment.json").write_text("{}")
    statistics = ChannelStatistics((0.5,), (0.25,))
    description = ModelDescription(ModelConfig("small-cnn"), (1, 8, 12), ("cat", "dog"), statistics, 2.0)
    save_model(folder, description.build(seed=1), description)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    write_graph_run(tmp_path / "vectors")
    write_network_run(tmp_path / "network")
    np.save(tmp_path / "new.npy", np.concatenate([CENTERS, CENTERS[::-1]]))
    (tmp_path / "photos" / "inner").mkdir(parents=True)
    for name in ("a.png", "inner/b.jpg"):
        Image.new("RGB", (30, 20), color=(200, 10, 90)).save(tmp_path / "photos" / name)
    return Shell(tmp_path, monkeypatch, capsys)


def test_new_embeddings_take_the_labels_of_those_nearest(shell: Shell) -> None:
    rows = list(csv.DictReader(shell.succeeds("predict", "vectors", "new.npy").out.splitlines()))
    assert [row["path"] for row in rows] == [f"row {i}" for i in range(4)]
    assert [row["label"] for row in rows] == ["left", "'=right", "'=right", "left"]
    assert all(float(row["confidence"]) > 0.5 and float(row["margin"]) > 0 for row in rows)


def test_embeddings_are_called_what_their_file_calls_them(shell: Shell) -> None:
    np.savez(shell.folder / "new.npz", embeddings=np.load(shell.folder / "new.npy"), paths=list("abcd"))
    rows = csv.DictReader(shell.succeeds("predict", "vectors", "new.npz").out.splitlines())
    assert [row["path"] for row in rows] == list("abcd")


def test_pictures_of_one_folder_are_called_what_a_labeling_calls_them(shell: Shell) -> None:
    folder = shell.folder / "photos"
    for given in ("photos", "photos/", folder):
        rows = csv.DictReader(shell.succeeds("predict", "network", given).out.splitlines())
        assert tuple(row["path"] for row in rows) == read_collection(folder).names == ("a.png", "inner/b.jpg")


def test_names_from_several_paths_begin_with_the_path(shell: Shell) -> None:
    np.save(shell.folder / "more.npy", CENTERS)
    rows = csv.DictReader(shell.succeeds("predict", "vectors", "new.npy", "more.npy").out.splitlines())
    assert [row["path"] for row in rows] == [f"new.npy#{i}" for i in range(4)] + [f"more.npy#{i}" for i in range(2)]


def test_what_is_no_embedding_is_refused_in_one_line(shell: Shell) -> None:
    np.save(shell.folder / "long.npy", np.zeros((2, 7), dtype=np.float32))
    assert "photos: holds no embeddings" in shell.fails("predict", "vectors", "photos")
    assert "this model reads 3" in shell.fails("predict", "vectors", "long.npy")


def test_files_that_are_skipped_are_called_by_their_folder_where_there_are_several(shell: Shell) -> None:
    (shell.folder / "varied").mkdir()
    Image.new("RGB", (30, 20)).save(shell.folder / "varied" / "c.png")
    (shell.folder / "varied" / "empty.jpg").touch()
    (shell.folder / "varied" / "broken link.jpg").symlink_to("nowhere.jpg")
    said = shell.succeeds("predict", "network", "photos", "varied").err
    skipped = [line for line in said.splitlines() if ": skipped" in line]
    assert sorted(line.partition(": skipped")[0] for line in skipped) == [
        "warning: varied/broken link.jpg",
        "warning: varied/empty.jpg",
    ]


def test_a_network_for_oblong_pictures_reads_any(shell: Shell) -> None:
    shell.succeeds("predict", "network", "photos", "photos/a.png", "--out", "found.jsonl")
    lines = [json.loads(line) for line in (shell.folder / "found.jsonl").read_text().splitlines()]
    assert [line["path"] for line in lines] == ["photos/a.png", "photos/inner/b.jpg", "photos/a.png"]
    assert all(set(line) == {"path", "label", "confidence", "margin"} for line in lines)


def test_a_long_prediction_says_how_far_it_is(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laplacenet.cli.progress.LINE_EVERY_S", -1.0)
    silent = shell.succeeds("predict", "network", "photos", "--out", "found.csv")
    assert silent.err.splitlines() == ["predicting  1/2", "predicting  2/2"]
    said = shell.succeeds("predict", "network", "photos")
    assert said.err.splitlines() == ["predicting  1/2", "predicting  2/2"]
    assert said.out == (shell.folder / "found.csv").read_text()
    monkeypatch.setattr("laplacenet.labeling.predictions.ROWS_AT_ONCE", 3)
    assert shell.succeeds("predict", "vectors", "new.npy").err.splitlines() == ["predicting  3/4", "predicting  4/4"]


@pytest.mark.parametrize("is_piped", [True, False])
def test_on_a_terminal_progress_is_seen_and_standard_output_stays_a_table(shell: Shell, is_piped: bool) -> None:
    shell.succeeds("predict", "network", "photos", "--out", "found.csv")
    seen, out = on_a_terminal(shell.folder, "predict", "network", "photos", is_piped=is_piped)
    assert (out if is_piped else seen) == (shell.folder / "found.csv").read_text()
    assert ("2/2" in seen) == is_piped


def test_a_file_is_not_overwritten_unless_told_to(shell: Shell) -> None:
    command = ("predict", "network", "photos", "--out", "found.csv")
    shell.succeeds(*command)
    assert "found.csv: exists already" in shell.fails(*command)
    shell.succeeds(*command, "--overwrite")
