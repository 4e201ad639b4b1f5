"""The pages of methods are what the code and the records say, and the page on adding one names what there is."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from references_cli import Shell
from references_docs import METHOD_PAGES, ROOT, snippets, write_added_method
from references_experiments import record_of
from typer.testing import CliRunner

from laplacenet.cli.app import app
from laplacenet.experiments.paper.recipes import Cell
from laplacenet.experiments.paper.records import write_record
from laplacenet.experiments.paper.reproduce import Places, plan_run
from laplacenet.experiments.paper.variants import laplacenet
from laplacenet.reports.method_page import explains, own_fields, read_all_records, under_presets
from laplacenet.reports.methods_page import FAMILIES, write_methods_pages
from laplacenet.runtime import InputError
from laplacenet.training import METHODS, config_class, method_class
from laplacenet.training.methods.base import BaseMethod

ADDING = ROOT / "docs/add-a-method.md"
COMMAND = "run laplacenet methods --pages docs"
LARGEST_PICTURE = 150_000


def section(page: str, title: str) -> str:
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("docs")
    write_methods_pages(out, ROOT / "results/methods")
    return out


def test_the_pages_are_made_from_the_code_and_the_records(made: Path) -> None:
    written = sorted(path.relative_to(made) for path in made.rglob("*.md"))
    assert written == sorted(path.relative_to(ROOT / "docs") for path in [ROOT / "docs/methods.md", *METHOD_PAGES])
    for path in written:
        assert (ROOT / "docs" / path).read_text(encoding="utf-8") == (made / path).read_text(encoding="utf-8"), COMMAND


def test_the_pictures_are_those_of_the_records_and_small(made: Path) -> None:
    drawn = sorted(path.name for path in made.rglob("*.png"))
    assert drawn == sorted(path.name for path in (ROOT / "docs/methods").glob("*.png")), COMMAND
    assert "digits.png" in drawn
    for name in drawn:
        ours, shown = (
            np.asarray(Image.open(folder / "methods" / name).convert("RGB"), dtype=float)
            for folder in (made, ROOT / "docs")
        )
        assert ours.shape == shown.shape
        assert abs(ours - shown).mean() < 1, COMMAND  # fonts may differ
        assert (ROOT / "docs/methods" / name).stat().st_size < LARGEST_PICTURE


def test_every_method_belongs_to_one_family_and_has_a_link(made: Path) -> None:
    assert sorted(name for names in FAMILIES.values() for name in names) == sorted(METHODS)
    index = (made / "methods.md").read_text(encoding="utf-8")
    assert all(index.count(f"| [{name}](methods/{name}.md): ") == 1 for name in METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_page_has_idea_loss_state_command_settings_and_numbers(name: str, made: Path) -> None:
    page = (made / "methods" / f"{name}.md").read_text(encoding="utf-8")
    assert len(section(page, "Idea")) > 100
    assert section(page, "Loss").startswith("\n> ")
    assert section(page, "Kept between steps").strip()
    assert f"$ laplacenet train digits --labels 40 --method {name}\n" in section(page, "Train it")
    assert section(page, "Published test errors, %").strip()
    assert "digits, 40" in section(page, "Our test errors").replace("\u00a0", " ")
    prose, _, tables = section(page, "Settings").partition("\n| setting |")
    for field in own_fields(config_class(name)):
        assert explains([prose], field), f"no docstring of its settings says what {field} is"
        assert f"| `method.{field}` | " in tables


@pytest.mark.parametrize("page", METHOD_PAGES, ids=lambda page: page.stem)
def test_no_table_of_a_page_has_an_empty_column(page: Path) -> None:
    for table in re.findall(r"(?:^\|.*\n)+", page.read_text(encoding="utf-8"), re.M):
        rows = [line.strip("|\n").split("|") for line in table.splitlines()]
        assert len({len(row) for row in rows}) == 1
        assert all(any(cell.strip() for cell in column) for column in zip(*rows[2:], strict=True)), table


@pytest.mark.parametrize("page", METHOD_PAGES, ids=lambda page: page.stem)
def test_the_command_of_a_page_trains(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(tmp_path, monkeypatch, capsys)
    (snippet,) = snippets(page)
    assert snippet.kind == "console"
    for command in snippet.commands():
        program, *words = shlex.split(command)
        assert program == "laplacenet"
        shell.succeeds(*words)


def test_the_pages_say_what_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison stands on the index and on the pages of its methods."""
    monkeypatch.chdir(tmp_path)
    records, out = tmp_path / "results" / "methods", tmp_path / "docs"
    records.mkdir(parents=True)
    write_methods_pages(out, records)
    assert all("\nNone recorded yet.\n" in (out / f"methods/{name}.md").read_text() for name in METHODS)
    words = f"compare digits --methods supervised,fixmatch --labels 40 --steps 3 --device cpu --out {tmp_path}/out"
    answer = CliRunner().invoke(app, [*words.split(), "--record", str(records / "short.json")])
    assert answer.exit_code == 0, answer.output
    write_methods_pages(out, records)
    index = (out / "methods.md").read_text()
    assert "\n## Digits, 40 labels, 3 steps each\n" in index
    assert "(methods/short.png)" in index
    assert (out / "methods/short.png").is_file()
    assert "`results/methods/short.json`" in (out / "methods/fixmatch.md").read_text()
    assert "None recorded yet." in (out / "methods/uda.md").read_text()
    records.rename(tmp_path / "rd")
    answer = CliRunner().invoke(app, ["methods", "fixmatch", "--records", "rd"])
    assert "\nRecorded in `rd/short.json`.\n" in answer.output


def test_a_page_has_the_cells_under_a_preset_and_no_variants_of_them(tmp_path: Path) -> None:
    headline = laplacenet("cifar100", 4000, "13-cnn")
    cell = Cell("LaplaceNet", "cifar100/4000", headline)
    errors = {("fast", 0): 0.31, ("fast", 1): 0.33, ("digits", 0): 0.5}
    for (preset, split), error in errors.items():
        planned = plan_run(cell, split, Places(split_files={"cifar100": "s.npz"}), preset=preset)
        record = record_of(headline, split=split, test_error=error)
        write_record(tmp_path, replace(record, key=planned.key, experiment=planned.experiment))
    varied = plan_run(cell, 0, Places(), preset="fast", overrides=("train.lr=0.3",))
    record = record_of(headline, split=0, test_error=0.2)
    write_record(tmp_path, replace(record, key=varied.key, experiment=varied.experiment))
    (tmp_path / "methods").mkdir()
    found = under_presets("laplacenet", read_all_records(tmp_path / "methods"))
    rows = sorted((training, error) for _, training, error, _ in found)
    assert rows == [
        ("13-CNN, n = 1, 250 000 steps, preset digits", "50.00 %"),
        ("13-CNN, n = 2, 250 000 steps, preset fast", "32.00 ± 1.41 %"),
    ]
    assert not list(under_presets("supervised", read_all_records(tmp_path / "methods")))


def test_one_method_is_described_by_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/methods/fixmatch.md").read_text(encoding="utf-8")
    answer = CliRunner().invoke(app, ["methods", "fixmatch", "--records", str(ROOT / "results/methods")])
    assert answer.exit_code == 0
    assert answer.output.startswith("# fixmatch\n")
    assert answer.output in re.sub(r"<!--.*?-->\n+", "", page)
    monkeypatch.chdir(tmp_path)
    assert "there is no folder `results/methods`" in CliRunner().invoke(app, ["methods", "fixmatch"]).output
    elsewhere = CliRunner().invoke(app, ["methods", "fixmatch", "--records", "no/such/folder"])
    assert "--records no/such/folder: no such folder" in str(elsewhere.exception)
    unknown = CliRunner().invoke(app, ["methods", "fixmach"])
    assert isinstance(unknown.exception, InputError)
    assert "unknown method 'fixmach'; choose one of laplacenet, " in str(unknown.exception)


def test_pages_and_a_name_together_are_refused(tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["methods", "fixmatch", "--pages", str(tmp_path)])
    assert isinstance(answer.exception, InputError)
    assert "leave out NAME" in str(answer.exception)


def test_a_place_that_cannot_hold_the_pages_is_refused_by_its_option(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", Path("/proc/nowhere")):
        result = CliRunner().invoke(app, ["methods", "--pages", str(place)])
        assert isinstance(result.exception, InputError)
        assert str(result.exception).startswith(f"--pages {place}")


def test_the_methods_that_the_page_explains_are_those_of_the_engine() -> None:
    page = ADDING.read_text(encoding="utf-8")
    for part in ("learner", "judged", "plan_epoch", "draw_views", "draw_numbers", "loss", "after_step", "after_epoch"):
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
