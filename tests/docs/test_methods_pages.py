"""The page of methods is what the code says, and the page on adding one names what there is."""

from pathlib import Path

import pytest
from references_cli import Shell
from references_docs import ROOT, write_added_method
from typer.testing import CliRunner

from laplacenet.cli.app import app
from laplacenet.reports.methods_page import methods_page
from laplacenet.runtime import InputError
from laplacenet.training import METHODS, config_class, method_class
from laplacenet.training.methods.base import BaseMethod

ADDING = ROOT / "docs/add-a-method.md"


def test_the_page_of_methods_is_made_from_the_code_and_the_records() -> None:
    page = (ROOT / "docs/methods.md").read_text(encoding="utf-8")
    assert page == methods_page(ROOT / "results/methods"), "run laplacenet methods --page > docs/methods.md"
    assert all(f"## {name}\n" in page for name in METHODS)


def test_the_page_says_of_every_method_what_is_published_and_what_is_recorded(tmp_path: Path) -> None:
    """A comparison stands there as a table of its own and in the sections of its methods."""
    (tmp_path / "methods").mkdir()
    page = methods_page(tmp_path / "methods")
    assert page.count("\n- Recorded: nothing yet.\n") == len(METHODS)
    assert all("\n- Published" in section for section in page.split("\n## ")[1:])
    record = tmp_path / "methods" / "digits.json"
    words = f"compare digits --methods supervised,fixmatch --labels 40 --steps 3 --device cpu --out {tmp_path}/out"
    answer = CliRunner().invoke(app, [*words.split(), "--record", str(record)])
    assert answer.exit_code == 0, answer.output
    page = methods_page(tmp_path / "methods")
    assert "## Side by side: digits, 40 labels, 3 steps\n\n| method |" in page
    assert page.count("- Recorded on digits with 40 labels: ") == 2
    assert page.count("\n- Recorded: nothing yet.\n") == len(METHODS) - 2


def test_one_method_is_described_by_its_section_of_the_page() -> None:
    page = (ROOT / "docs/methods.md").read_text(encoding="utf-8")
    answer = CliRunner().invoke(app, ["methods", "fixmatch", "--records", str(ROOT / "results/methods")])
    assert answer.exit_code == 0
    assert answer.output.startswith("## fixmatch\n")
    assert answer.output in page
    unknown = CliRunner().invoke(app, ["methods", "fixmach"])
    assert isinstance(unknown.exception, InputError)
    assert "unknown method 'fixmach'; choose one of laplacenet, " in str(unknown.exception)


def test_the_methods_that_the_page_explains_are_those_of_the_engine() -> None:
    page = ADDING.read_text(encoding="utf-8")
    for part in ("learner", "judged", "plan_epoch", "draw_views", "draw_numbers", "loss", "after_step"):
        assert hasattr(BaseMethod, part)
        assert f"| `{part}(" in page


def test_the_example_trains_stops_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(tmp_path, monkeypatch, capsys)
    write_added_method(tmp_path)
    method = "pseudo_label:PseudoLabel"
    words = ["train", "digits", "--method", method, "--set", "train.steps=4", "--set", "method.weight=0.5"]
    shell.runs_out_of_time(*words, "--out", "run", "--for", "0.001s")
    shell.succeeds("train", "--resume", "run")
    shell.succeeds("evaluate", "run")
    assert config_class(method)().name == method
    assert method_class(method).__name__ == "PseudoLabel"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_module:Method", "No module named 'no_such_module'"),
        ("pathlib:Path", "must be a subclass of BaseMethod"),
        ("pathlib:Nothing", "must be a subclass of BaseMethod"),
        ("path lib:Path", "write it as package.module:Class"),
        (":Path", "write it as package.module:Class"),
    ],
)
def test_a_class_that_cannot_be_imported_is_refused(name: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        method_class(name)
