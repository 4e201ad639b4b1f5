"""A labeling that goes on: with the inputs that it began with, never finished by the clock, never on damaged files."""

import csv
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from references_cli import Shell
from references_labeling import make_quick, striped

import laplacenet
from laplacenet.labeling.result import load_labeling
from laplacenet.runtime import RunFolder

CLASSES = ("flat", "slanting", "steep")
QUICK = ("--steps", "20", "--batch", "20", "--no-suspects", "--no-flip", "--set", "graph.k=8")


def write_pictures(folder: Path, n: int = 60, n_given: int = 42) -> None:
    folder.mkdir()
    pixels, truth = striped(n, 3)
    for row in range(n):
        Image.fromarray(pixels[row]).save(folder / f"{row:03d}.png")
    lines = [f"{row:03d}.png,{CLASSES[truth[row]]}\n" for row in range(n)]
    (folder.parent / "labels.csv").write_text("".join(lines[:n_given]))
    (folder.parent / "truth.csv").write_text("".join(lines))


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        make_quick(patch)
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pictures, their labels and a finished run."""
    folder = tmp_path_factory.mktemp("finished")
    write_pictures(folder / "photos")
    laplacenet.label(
        folder / "photos",
        folder / "labels.csv",
        out=folder / "run",
        steps=20,
        batch_size=20,
        suspects=False,
        flip=False,
        settings=["graph.k=8"],
    )
    return folder


@pytest.fixture
def shell(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """In a folder with a copy of the finished run, whose inputs are the copies beside it."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    run = RunFolder(tmp_path / "run")
    run.write_experiment(json.loads(json.dumps(run.read_experiment()).replace(str(finished), str(tmp_path))))
    return Shell(tmp_path, monkeypatch, capsys)


def labels_of(path: Path) -> dict[str, str]:
    with (path / "labels.csv").open(newline="", encoding="utf-8") as file:
        return {row["path"]: row["label"] for row in csv.DictReader(file)}


def exchange(folder: Path) -> None:
    a, b = (folder / "photos" / name for name in ("050.png", "051.png"))
    first, second = a.read_bytes(), b.read_bytes()
    a.write_bytes(second)
    b.write_bytes(first)


def remove_some(folder: Path) -> None:
    for row in range(50, 60):
        (folder / "photos" / f"{row:03d}.png").unlink()


def add_one(folder: Path) -> None:
    shutil.copy(folder / "photos" / "050.png", folder / "photos" / "new.png")


def change_one(folder: Path) -> None:
    Image.fromarray(np.zeros((16, 16), np.uint8)).save(folder / "photos" / "050.png")


def add_labels(folder: Path) -> None:
    with (folder / "labels.csv").open("a") as file:
        file.write("050.png,flat\n051.png,steep\n")


def change_label(folder: Path) -> None:
    path = folder / "labels.csv"
    path.write_text(path.read_text().replace("000.png,flat", "000.png,steep"))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (exchange, "2 changed: 050.png, 051.png"),
        (remove_some, "10 removed: 050.png, 051.png, 052.png, …"),
        (add_one, "1 added: new.png"),
        (change_one, "1 changed: 050.png"),
        (add_labels, "2 with another label: 050.png, 051.png"),
        (change_label, "1 with another label: 000.png"),
    ],
)
def test_other_inputs_than_the_run_began_with_are_refused_and_nothing_is_written(
    shell: Shell, change: object, expected: str
) -> None:
    before = labels_of(shell.folder / "run")
    change(shell.folder)  # type: ignore[operator]
    line = shell.fails("label", "--resume", "run", "--for", "10m")
    assert expected in line
    assert "label them as they are now into another --out" in line
    assert labels_of(shell.folder / "run") == before


def test_the_same_inputs_go_on(shell: Shell) -> None:
    shell.succeeds("label", "--resume", "run")
    assert load_labeling(shell.folder / "run").summary.is_complete


def test_no_time_trains_nothing_finishes_nothing_and_ends_with_3(shell: Shell) -> None:
    said = shell("label", "photos", "--labels", "labels.csv", "--out", "short", *QUICK, "--for", "1s")
    assert said.code == 3
    assert "time is up (2 stages not begun); there are no labels yet" in said.err
    assert "go on with: laplacenet label --resume short" in said.err
    assert not (shell.folder / "short" / "labels.csv").exists()
    again = shell("label", "--resume", "short")  # its own limit is a second, too
    assert again.code == 3


def test_pictures_are_not_read_beyond_the_time_limit(shell: Shell) -> None:
    command = ("label", "photos", "--labels", "labels.csv", "--out", "late", *QUICK, "--for", "0.001s")
    before = {path: path.read_bytes() for path in (shell.folder / "run").iterdir() if path.is_file()}
    with shell.monkeypatch.context() as patch:
        patch.setattr("laplacenet.runtime.monitor.LEAST_READING_S", 0.0)
        for late in (command, ("label", "--resume", "run", "--for", "0.001s")):
            line = shell.runs_out_of_time(*late).err.splitlines()[-1]
            assert re.fullmatch(
                r"time is up; \d+ pictures have been read, no network has been trained; go on with: .*", line
            )
            assert int(line.split()[3]) < 60
    assert not (shell.folder / "late").exists()
    assert {path: path.read_bytes() for path in before} == before
    shell.succeeds("label", "--resume", "run")


def test_the_report_of_a_labeling_without_labels_says_so(shell: Shell) -> None:
    shell("label", "photos", "--labels", "labels.csv", "--out", "short", *QUICK, "--for", "1s")
    assert "short: holds no labeling" in shell.fails("report", "short")


def test_steps_that_were_asked_for_are_taken_in_the_end(shell: Shell) -> None:
    shell("label", "photos", "--labels", "labels.csv", "--out", "short", *QUICK, "--for", "1s")
    shell.succeeds("label", "--resume", "short", "--for", "10m")
    assert labels_of(shell.folder / "short") == labels_of(shell.folder / "run")
    summary = load_labeling(shell.folder / "short").summary
    assert summary.is_complete
    assert not any("unfinished" in note for note in summary.notes)


def test_threads_and_steps_are_settings_of_the_run(shell: Shell) -> None:
    settings = json.loads((shell.folder / "run" / "experiment.json").read_text())
    assert settings["threads"] >= 1
    assert settings["time"] == {"limit_s": None, "steps": 20, "suspects": False}


@pytest.mark.parametrize("name", ["labeling.json", "labeling.safetensors", "gallery.safetensors"])
@pytest.mark.parametrize("place", [0.02, 0.31, 0.5, 0.77, 0.99])
def test_a_flipped_bit_is_refused_in_one_line(shell: Shell, name: str, place: float) -> None:
    path = shell.folder / "run" / name
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1
    path.write_bytes(bytes(content))
    assert name in shell.fails("report", "run")
    if name != "gallery.safetensors":
        assert "laplacenet label --resume run" in shell.fails("next", "run")


@pytest.mark.parametrize("name", ["labeling.json", "labeling.safetensors"])
def test_damaged_labels_are_written_anew_by_a_resumed_run(shell: Shell, name: str) -> None:
    before = labels_of(shell.folder / "run")
    (shell.folder / "run" / name).write_bytes(b"damaged")
    shell.succeeds("label", "--resume", "run")
    assert labels_of(shell.folder / "run").keys() == before.keys()
    shell.succeeds("next", "run", "-n", "3")


def test_a_damaged_label_pass_is_refused_with_what_to_do(shell: Shell) -> None:
    path = next((shell.folder / "run" / "stages").glob("*/labels.safetensors"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    line = shell.fails("label", "--resume", "run")
    assert "damaged" in line
    assert "delete it" in line


def test_evaluate_judges_a_labeling_with_and_without_the_truth(shell: Shell) -> None:
    estimated = shell.succeeds("evaluate", "run").out
    assert "accuracy     " in estimated
    assert "95 % confidence interval" in estimated
    known = shell.succeeds("evaluate", "run", "--truth", "truth.csv").out
    assert "of 18 new labels" in known
    assert "calibration  off by" in known
    assert all(name in known for name in CLASSES)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("train", "--resume", "run"), "laplacenet label --resume run"),
        (("evaluate", "run", "--truth", "nowhere.csv"), "nowhere.csv: no such file or folder"),
        (("evaluate", "run", "--truth", "photos"), "give the true labels of the run's own rows"),
    ],
)
def test_the_wrong_kind_of_run_or_file_is_answered_with_the_right_one(
    shell: Shell, arguments: tuple[str, ...], expected: str
) -> None:
    assert expected in shell.fails(*arguments)


def test_label_files_add_up(shell: Shell) -> None:
    (shell.folder / "more.csv").write_text("050.png,steep\n")
    shell.succeeds(
        "label", "photos", "--labels", "labels.csv", "--labels", "more.csv", "--out", "both", *QUICK, "--steps", "2"
    )
    assert int(load_labeling(shell.folder / "both").is_given.sum()) == 43


def test_the_page_shows_the_beginning_of_what_next_lists(shell: Shell) -> None:
    lines = shell.succeeds("next", "run", "-n", "18").out.splitlines()
    assert shell.succeeds("next", "run", "-n", "5").out.splitlines() == lines[:6]
    page = (shell.folder / "run" / "report.html").read_text()
    assert lines[1].split(",")[0] in page
