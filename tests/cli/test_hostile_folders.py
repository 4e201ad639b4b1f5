"""A run on a folder with files that cannot be read, and on lists that people keep: what is told, what is written."""

import csv
import os
from pathlib import Path

import pytest
from PIL import Image
from references_cli import Shell

TINY = ("--set", "train.steps=2", "--set", "train.batch_size=8", "--set", "train.labeled_batch_size=4")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    for i in range(12):
        path = tmp_path / "photos" / ("dark" if i < 6 else "bright") / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 16), (20 * i, 20 * i, 10 * i)).save(path)
    return Shell(tmp_path, monkeypatch, capsys)


def spoil(folder: Path) -> None:
    (folder / "dark" / "new\nline.png").touch()
    (folder / "bright" / "text.jpg").write_text("a text")
    os.mkfifo(folder / "bright" / "pipe.png")


def test_what_was_skipped_is_counted_in_one_line_and_listed_in_the_run_folder(shell: Shell) -> None:
    spoil(shell.folder / "photos")
    said = shell.succeeds("train", "photos", "--out", "run", *TINY)
    warnings = [line for line in said.err.splitlines() if "skipped" in line]
    assert len(warnings) == 1
    assert warnings[0].startswith("warning: 3 files were skipped and are listed in skipped.csv; the first, ")
    with (shell.folder / "run" / "skipped.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["path", "reason"]
    assert {row[0] for row in rows[1:]} == {"dark/new\nline.png", "bright/text.jpg", "bright/pipe.png"}
    assert "dark/new\\nline.png" in shell.succeeds("data", "photos").out


@pytest.mark.parametrize("command", ["train", "label"])
def test_how_many_pictures_are_read_is_said_now_and_then(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr("laplacenet.cli.progress.LINE_EVERY_S", -1.0)
    said = shell(command, "photos", "--model", "mlp", "--out", "run")
    *counts, error = said.err.splitlines()
    assert counts == [f"reading photos  {n}/12" for n in range(1, 13)]
    assert "model mlp cannot read inputs" in error
    assert shell.succeeds("data", "photos").err.splitlines() == counts


def test_no_terminal_obeys_the_name_of_a_run_folder(shell: Shell) -> None:
    hostile = "run\x1b[31m\n2"
    shell.succeeds("train", "photos", "--out", hostile, *TINY)
    for words in (("report", hostile), ("export", hostile, "--out", f"{hostile}.pt2"), ("evaluate", hostile)):
        said = shell.succeeds(*words)
        assert "\x1b" not in said.out + said.err
        assert not any(line.startswith("2") for line in (said.out + said.err).splitlines())


def test_the_record_of_a_demo_takes_no_other_file_with_it(shell: Shell) -> None:
    for name, content in (("labels.csv", "a,b"), ("mine.json", '{"kind": "mine"}'), ("list.json", "[]")):
        (shell.folder / name).write_text(content)
        assert f"--record {name}: is not a record of demo" in shell.fails("demo", "--record", name)
        assert (shell.folder / name).read_text() == content


def test_a_clean_folder_has_nothing_to_list(shell: Shell) -> None:
    said = shell.succeeds("train", "photos", "--strict", "--out", "run", *TINY)
    assert "skipped" not in said.err
    assert not (shell.folder / "run" / "skipped.csv").exists()


def test_strict_stops_before_anything_is_written(shell: Shell) -> None:
    spoil(shell.folder / "photos")
    said = shell.fails("train", "photos", "--strict", "--out", "run", *TINY)
    assert "3 files cannot be read, and every file must be; the first, bright/pipe.png: a pipe" in said
    assert not (shell.folder / "run").exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("labels.tsv", "path\tlabel\ndark/0.png\tdark\nbright/11.png\tbright\n"),
        ("labels.jsonl", '{"file":"0.png","label":"dark"}\n{"file":"photos/bright/11.png","label":"bright"}\n'),
        ("labels.txt", "photos/dark/0.png;dark\nphotos/bright/11.png;bright\n"),
    ],
)
def test_labels_may_come_as_tsv_json_lines_or_text(shell: Shell, name: str, text: str) -> None:
    (shell.folder / name).write_text(text)
    said = shell.succeeds("train", "photos", "--labels", name, "--out", "run", *TINY)
    assert "warning: only one label is given for class 'bright' and 1 other class" in said.err


def test_a_label_of_a_picture_that_cannot_be_read_stops_nothing(shell: Shell) -> None:
    spoil(shell.folder / "photos")
    (shell.folder / "labels.csv").write_text("dark/0.png,dark\nbright/11.png,bright\nbright/text.jpg,bright\n")
    shell.succeeds("train", "photos", "--labels", "labels.csv", "--out", "run", *TINY)


def test_nothing_is_trained_on_a_misread_list(shell: Shell) -> None:
    for text, said in (
        ("dark/0.png dark\nbright/11.png bright\n", "expected a file name and a label, with a comma, semicolon or tab"),
        ("dark/0.png,dark\ndark/0.png,bright\n", "is 'bright' here and 'dark' in line 1"),
        ("dark/0.png,dark\ny/1.png,dark\n", "line 2: 'y/1.png' is not among"),
        ("ghost/a.png,dark\nghost/b.png,dark\n", "none of the 2 names in it is among the 12 images"),
    ):
        (shell.folder / "labels.csv").write_text(text)
        line = shell.fails("train", "photos", "--labels", "labels.csv", "--out", "run", *TINY)
        assert said in line
        assert "labels.csv" in line
        assert not (shell.folder / "run").exists()
