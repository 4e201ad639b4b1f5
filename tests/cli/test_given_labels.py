"""Labels that come back to a command: a run's own guesses, true labels of classes that nobody labeled."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from references_cli import Shell

N = 24


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Embeddings in two clusters, labeled once, with three labels each."""
    rng = np.random.default_rng(0)
    truth = np.arange(N) % 2
    X = np.eye(4)[truth] + rng.normal(scale=0.1, size=(N, 4))
    np.savez(
        tmp_path / "x.npz", embeddings=X, labels=np.where(np.arange(N) < 6, truth, -1), class_names=["frog", "owl"]
    )
    shell = Shell(tmp_path, monkeypatch, capsys)
    shell.succeeds("label", "x.npz", "--out", "run")
    return shell


def test_the_labels_of_a_run_may_be_given_back_and_a_warning_says_what_they_count_as(shell: Shell) -> None:
    np.savez(shell.folder / "bare.npz", embeddings=np.load(shell.folder / "x.npz")["embeddings"])
    said = shell.succeeds("label", "bare.npz", "--labels", "run/labels.csv", "--out", "again").err
    warnings = [line for line in said.splitlines() if "predicted" in line]
    assert len(warnings) == 1
    assert warnings[0].startswith("warning: ")
    assert "run/labels.csv: labels that a run predicted count as given here: 18 of 24 (source" in warnings[0]
    assert "count as given here: 18 of 24" in (shell.folder / "again" / "report.html").read_text()


def test_true_labels_of_a_class_that_nobody_labeled_count_as_wrong(shell: Shell) -> None:
    kinds = [("frog", "owl")[row % 2] for row in range(N)]
    kinds[-4:] = ["emu"] * 4
    (shell.folder / "truth.csv").write_text("".join(f"{row},{kind}\n" for row, kind in enumerate(kinds)))
    said = shell.succeeds("evaluate", "run", "--truth", "truth.csv").out
    assert said.startswith("accuracy     78 % (95 % confidence interval ")
    assert "of 18 new labels" in said
    assert "  emu   0 % " in said
    assert "4 rows to test with are of a class that no label names, and count as wrong ('emu': 4)" in said


@pytest.fixture
def photos(shell: Shell) -> Shell:
    """Six pictures to train on, two of whose labels a run predicted, and a test set."""
    shades, rows = ("dim", "light"), ["path,label,confidence,source"]
    for number in range(6):
        shade = shades[number // 3]
        for folder in (f"train/{shade}", f"test/{shade}"):
            (shell.folder / "photos" / folder).mkdir(parents=True, exist_ok=True)
            Image.new("L", (8, 8), 40 * number).save(shell.folder / "photos" / folder / f"{number}.png")
        rows.append(f"{number}.png,{shade},0.9,{'graph' if number % 3 == 1 else 'given'}")
    (shell.folder / "labels.csv").write_text("\n".join(rows) + "\n")
    return shell


TINY = ("train.batch_size=4", "train.labeled_batch_size=2", "model.name=small-cnn")
PREDICTED = "labels.csv: labels that a run predicted count as given here: 2 of 6 (source graph"


@pytest.mark.parametrize(
    "command", [("train", "--set", "train.steps=1"), ("compare", "--methods", "supervised", "--steps", "1")]
)
def test_training_on_labels_that_a_run_predicted_is_warned_of_once(photos: Shell, command: tuple[str, ...]) -> None:
    words = [*command, *(word for setting in TINY for word in ("--set", setting))]
    said = photos.succeeds(*words, "photos", "--labels", "labels.csv", "--out", "trained", "--device", "cpu").err
    assert said.count(PREDICTED) == 1


def test_settings_of_training_have_no_effect_on_embeddings_and_a_warning_says_so(shell: Shell) -> None:
    words = ("--steps", "5", "--model", "small-cnn", "--batch", "4", "--set", "augment.flip=on", "--set", "train.lr=1")
    said = shell.succeeds("label", "x.npz", *words, "--set", "graph.k=5", "--out", "again").err
    note = (
        "no network is trained, so these settings have no effect: model.name (--model), train.batch_size (--batch),"
        " train.labeled_batch_size, augment.flip (--flip), train.lr, time.steps (--steps)"
    )
    assert said.count(f"warning: {note}\n") == 1
    assert note in (shell.folder / "again" / "report.html").read_text()
    assert "have no effect" not in shell.succeeds("label", "x.npz", "--set", "graph.k=5", "--out", "plain").err
