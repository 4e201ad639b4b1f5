"""`laplacenet label` as it is typed: what it accepts, what it leaves, what it says, how it stops and goes on."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from references_cli import Shell
from references_labeling import clusters, drawn_evenly, make_quick, some_given, striped

from laplacenet.labeling.result import load_labeling

QUICK = (
    *("--steps", "25", "--batch", "20", "--no-suspects", "--no-flip"),
    *("--set", "graph.k=8", "--set", "time.suspects=off"),
)
CLASSES = ("flat", "slanting", "steep")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    make_quick(monkeypatch)
    return Shell(tmp_path, monkeypatch, capsys)


def write_pictures(folder: Path, n: int = 90, n_given: int = 54) -> None:
    """Loose pictures, and the labels of some of them in `labels.csv` beside the folder; all in `truth.csv`."""
    folder.mkdir()
    pixels, truth = striped(n, 3)
    lines = []
    for row in range(n):
        Image.fromarray(pixels[row]).save(folder / f"{row:03d}.png")
        lines.append(f"{row:03d}.png,{CLASSES[truth[row]]}\n")
    (folder.parent / "labels.csv").write_text("".join(lines[:n_given]))
    (folder.parent / "truth.csv").write_text("".join(lines))


def write_embeddings(path: Path, n_each: int = 8) -> torch.Tensor:
    X, truth = clusters(300, 4, noise=1.2)
    given = some_given(truth, drawn_evenly(truth, n_each, seed=0))
    np.savez(path, embeddings=X.numpy(), labels=given.numpy())
    return truth


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_embeddings_are_labeled_in_seconds_and_all_that_was_promised_is_there(shell: Shell) -> None:
    truth = write_embeddings(shell.folder / "mine.npz")
    said = shell.succeeds("label", "mine.npz", "--out", "run")
    run = shell.folder / "run"
    names = {path.name for path in run.iterdir()}
    assert {"labels.csv", "labeling.json", "labeling.safetensors", "model.json", "model.safetensors"} <= names
    assert {"experiment.json", "provenance.json", "report.html"} <= names
    rows = rows_of(run / "labels.csv")
    assert [row["path"] for row in rows[:2]] == ["row 0", "row 1"]
    assert np.mean([int(row["label"]) == true for row, true in zip(rows, truth.tolist(), strict=True)]) > 0.9
    assert said.err.startswith("chose: The rows are vectors of 16 numbers, so no network is needed.")
    assert "268 new, 32 given, 4 classes" in said.out
    assert "estimated from 32 given labels that were held out" in said.out
    assert json.loads((run / "experiment.json").read_text())["kind"] == "labeling"


def test_later_embeddings_are_labeled_by_the_run(shell: Shell) -> None:
    truth = write_embeddings(shell.folder / "mine.npz")
    shell.succeeds("label", "mine.npz", "--out", "run")
    with np.load(shell.folder / "mine.npz") as arrays:
        np.save(shell.folder / "more.npy", arrays["embeddings"][:50])
    lines = shell.succeeds("predict", "run", "more.npy").out.splitlines()[1:]
    assert (
        np.mean([int(line.split(",")[1]) == true for line, true in zip(lines, truth.tolist()[:50], strict=True)]) > 0.9
    )


def test_a_folder_and_a_list_of_labels(shell: Shell) -> None:
    write_pictures(shell.folder / "photos")
    said = shell.succeeds("label", "photos", "--labels", "labels.csv", "--test", "truth.csv", "--out", "run", *QUICK)
    rows = rows_of(shell.folder / "run" / "labels.csv")
    assert [row["path"] for row in rows] == [f"{row:03d}.png" for row in range(90)]
    assert {row["source"] for row in rows[:54]} == {"given"}
    assert {row["source"] for row in rows[54:]} <= {"graph", "network"}
    labeling = load_labeling(shell.folder / "run")
    truth = torch.from_numpy(striped(90, 3)[1])
    accuracy = float((labeling.labels == truth)[54:].double().mean())
    assert accuracy > 0.7
    estimate = labeling.summary.estimate
    assert estimate.n_test == 36
    assert estimate.test_accuracy is not None
    assert estimate.test_accuracy.value == pytest.approx(accuracy)
    assert "16×16 pixels, grey" in said.err
    assert "never mirrored" in said.err
    assert "test        " in said.out
    assert (shell.folder / "run" / "gallery.safetensors").is_file()
    assert "<html" in (shell.folder / "run" / "report.html").read_text()


def test_a_folder_with_a_sub_folder_for_each_class_and_a_test_folder(shell: Shell) -> None:
    pixels, truth = striped(90, 3)
    for row in range(90):
        inner = CLASSES[truth[row]] if row < 45 else ("unlabeled" if row < 70 else f"test/{CLASSES[truth[row]]}")
        path = shell.folder / ("sorted" if row < 70 else ".") / inner / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[row]).save(path)
    shell.succeeds("label", "sorted", "--test", "test", "--out", "run", *QUICK)
    labeling = load_labeling(shell.folder / "run")
    assert len(labeling) == 70
    assert int(labeling.is_given.sum()) == 45
    assert labeling.summary.estimate.n_test == 20
    assert "unlabeled/50.png" in labeling.names


def test_images_in_an_array_file(shell: Shell) -> None:
    pixels, truth = striped(60, 3)
    labels = np.where(np.arange(60) < 45, truth, -1)
    np.savez(shell.folder / "images.npz", images=pixels, labels=labels)
    shell.succeeds("label", "images.npz", "--out", "run", *QUICK)
    assert load_labeling(shell.folder / "run").summary.kind == "pictures"


def test_it_goes_on_with_a_finished_run_and_leaves_it_complete(shell: Shell) -> None:
    write_pictures(shell.folder / "photos")
    shell.succeeds("label", "photos", "--labels", "labels.csv", "--out", "run", *QUICK)
    shell.succeeds("label", "--resume", "run")
    assert load_labeling(shell.folder / "run").summary.is_complete
    assert (shell.folder / "run" / "stages" / "vote-1").is_dir()


def test_embeddings_that_are_resumed_are_labeled_again(shell: Shell) -> None:
    write_embeddings(shell.folder / "mine.npz")
    shell.succeeds("label", "mine.npz", "--out", "run")
    before = (shell.folder / "run" / "labels.csv").read_bytes()
    shell.succeeds("label", "--resume", "run")
    assert (shell.folder / "run" / "labels.csv").read_bytes() == before


def test_what_lies_there_is_not_overwritten_unless_told_to(shell: Shell) -> None:
    write_embeddings(shell.folder / "mine.npz")
    shell.succeeds("label", "mine.npz", "--out", "run")
    said = shell("label", "mine.npz", "--out", "run")
    assert said.code == 2
    assert "exists already; choose another --out, or --overwrite, or --resume it" in said.err
    shell.succeeds("label", "mine.npz", "--out", "run", "--overwrite")
    shell.succeeds("label", "mine.npz")
    shell.succeeds("label", "mine.npz")
    assert {path.name for path in (shell.folder / "runs").iterdir()} == {"mine-labels", "mine-labels-2"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "nothing to label"),
        (("nowhere",), "no such file or folder"),
        (("mine.npz", "--for", "soon"), "--for soon: give a time"),
        (("mine.npz", "--prior", "1,2"), "prior 1,2: choose shrunk, labeled, equal or give 4 positive numbers"),
        (("mine.npz", "--prior", "flat"), "--prior flat: choose shrunk"),
        (("mine.npz", "--set", "graph.q=1"), "unknown field 'q'"),
        (("mine.npz", "--labels", "nowhere.csv"), "nowhere.csv"),
        (("mine.npz", "--test", "nowhere"), "no such file or folder"),
        (("--resume", "nowhere"), "not a run folder"),
        (("mine.npz", "--resume", "begun"), "--resume takes all settings from its run folder"),
        (("--resume", "begun", "--no-flip"), "--resume takes all settings from its run folder"),
        (("--resume", "begun", "--prior", "equal"), "--resume takes all settings from its run folder"),
        (("--resume", "begun", "--seed", "1"), "--resume takes all settings from its run folder"),
        (("photos", "--labels", "labels.csv", "--model", "mlp", "--steps", "2"), "model mlp cannot read inputs"),
        (("photos", "--labels", "labels.csv", "--model", "big"), "unknown model 'big'"),
        (("photos", "--labels", "labels.csv", "--size", "0"), "give an integer of at least 1"),
        (("photos",), "no labels; name a label file with --labels"),
        (("mine.npz", "--device", "tpu"), "unknown device 'tpu'"),
    ],
)
def test_a_mistake_is_answered_in_one_line(shell: Shell, arguments: tuple[str, ...], expected: str) -> None:
    write_embeddings(shell.folder / "mine.npz")
    write_pictures(shell.folder / "photos", n=12, n_given=6)
    (shell.folder / "begun").mkdir()
    (shell.folder / "begun" / "experiment.json").write_text("{}")
    assert expected in shell.fails("label", *arguments)


def test_a_run_of_training_is_not_resumed_as_a_labeling(shell: Shell) -> None:
    shell.succeeds("train", "digits", "--labels", "40", "--set", "train.steps=1", "--out", "run")
    assert "a run of train, not of label; laplacenet train --resume" in shell.fails("label", "--resume", "run")


def test_files_that_cannot_be_read_are_listed_or_refused(shell: Shell) -> None:
    write_pictures(shell.folder / "photos")
    (shell.folder / "photos" / "broken.jpg").write_text("no picture")
    arguments = ("label", "photos", "--labels", "labels.csv", "--out", "run", *QUICK)
    assert "1 files cannot be read, and every file must be" in shell.fails(*arguments, "--strict")
    said = shell.succeeds(*arguments)
    assert "warning: 1 file was skipped and is listed in skipped.csv; broken.jpg" in said.err
    assert rows_of(shell.folder / "run" / "skipped.csv")[0]["path"] == "broken.jpg"
    assert load_labeling(shell.folder / "run").summary.n_skipped == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_keeps_what_there_is_and_says_how_to_go_on(tmp_path: Path, number: int, code: int) -> None:
    write_pictures(tmp_path / "photos")
    command = [sys.executable, "-m", "laplacenet", "label", "photos", "--labels", "labels.csv", "--out", "run"]
    process = subprocess.Popen(
        [*command, "--steps", "100000", "--batch", "20"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    deadline = time.monotonic() + 300
    while not (tmp_path / "run" / "epochs.jsonl").is_file() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(number)
    _, said = process.communicate(timeout=300)
    assert process.returncode == code, said
    assert "go on with: laplacenet label --resume run" in said
    assert "Traceback" not in said
    labeling = load_labeling(tmp_path / "run")
    assert not labeling.summary.is_complete
    assert len(rows_of(tmp_path / "run" / "labels.csv")) == 90
    assert (tmp_path / "run" / "report.html").is_file()


def test_help_shows_examples(shell: Shell) -> None:
    said = shell.succeeds("label", "--help").out
    assert "laplacenet label photos/ --labels labels.csv" in said
    assert "--no-suspects" in said
