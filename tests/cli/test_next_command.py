"""`laplacenet next` and `laplacenet report` of a labeling, as they are typed."""

import csv
import io
import json
from pathlib import Path

import pytest
from references_cli import Shell
from references_labeling_pages import made_up_labeling, made_up_pictures

from laplacenet.cli.options import last_entry
from laplacenet.labeling.acquisition import select_next
from laplacenet.labeling.outcome import save_gallery, shown_rows
from laplacenet.labeling.result import save_labeling

LABELING = made_up_labeling()


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    for name, labeling in (("run", LABELING), ("vectors", made_up_labeling(kind="embeddings"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "experiment.json").write_text("{}")
        save_labeling(tmp_path / name, labeling)
    rows = shown_rows(LABELING)
    save_gallery(tmp_path / "run", rows, made_up_pictures(LABELING, rows))
    (tmp_path / "empty").mkdir()
    return Shell(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("line", [b'{"n": Infinity}', b"[" * 100_000, b"null", b'{"n": []}', b"\xff", b""])
def test_a_damaged_last_answer_has_no_number(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "answers.jsonl").write_bytes(line + b"\n")
    assert last_entry(tmp_path / "answers.jsonl") == 0


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_list_to_fill_in_goes_to_standard_output(shell: Shell) -> None:
    rows = table(shell.succeeds("next", "run", "-n", "7").out)
    assert [row["path"] for row in rows] == [LABELING.names[row] for row in select_next(LABELING, 7).rows]
    assert {row["label"] for row in rows} == {""}
    assert all(row["guess"] in LABELING.summary.class_names and 0 <= float(row["confidence"]) <= 1 for row in rows)
    assert all(row["guess"] in row["why"] for row in rows)
    assert all("like 0" not in row["why"] for row in rows)


def test_suspects_have_a_list_of_their_own(shell: Shell) -> None:
    rows = table(shell.succeeds("next", "run", "--suspects").out)
    suspect = {LABELING.names[row] for row in LABELING.is_suspect.nonzero().squeeze(1).tolist()}
    assert {row["path"] for row in rows} == suspect
    assert all(row["why"].startswith("given as ") for row in rows)


def test_a_file_is_not_overwritten_unless_told_to(shell: Shell) -> None:
    shell.succeeds("next", "run", "--out", "next.csv")
    before = (shell.folder / "next.csv").read_bytes()
    assert "next.csv: exists already" in shell.fails("next", "run", "-n", "3", "--out", "next.csv")
    assert (shell.folder / "next.csv").read_bytes() == before
    shell.succeeds("next", "run", "-n", "3", "--out", "next.csv", "--overwrite")
    assert len(table((shell.folder / "next.csv").read_text())) == 3


def test_label_studio_gets_tasks_and_is_told_the_view(shell: Shell) -> None:
    said = shell.succeeds("next", "run", "-n", "4", "--format", "label-studio", "--out", "tasks.json")
    tasks = json.loads((shell.folder / "tasks.json").read_text())
    assert len(tasks) == 4
    assert all(task["data"]["image"].startswith("/data/local-files/?d=photos/") for task in tasks)
    assert '<Choice value="class 1"/>' in said.err
    other = shell.succeeds("next", "run", "-n", "1", "--format", "label-studio", "--url-prefix", "https://x.example/")
    assert json.loads(other.out)[0]["data"]["image"].startswith("https://x.example/photos/")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("next empty", "not a run folder"),
        ("next run -n 0", "-n"),
        ("next run --format xml", "choose one of csv, label-studio"),
        ("next run --out next.json", "ends in .csv"),
        ("next run --format label-studio --out tasks.csv", "ends in .json"),
        ("next run --url-prefix https://x.example/", "--format label-studio"),
        ("next run --out no/such/next.csv", "cannot be written"),
        ("next vectors --format label-studio", "this run labeled embeddings"),
    ],
)
def test_a_mistake_is_answered_in_one_line(shell: Shell, arguments: str, said: str) -> None:
    assert said in shell.fails(*arguments.split())


def test_the_page_is_made_again_from_the_run(shell: Shell) -> None:
    said = shell.succeeds("report", "run")
    assert said.out.strip() == "run/report.html"
    page = (shell.folder / "run" / "report.html").read_text(encoding="utf-8")
    assert "holiday photos" in page
    assert "laplacenet next run -n 50" in page
