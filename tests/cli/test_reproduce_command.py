"""`laplacenet reproduce` and `laplacenet report` as they are typed: what runs, what is skipped, what is refused."""

import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from references_experiments import TINY, TINY_SPLIT, headline_with_views, record_of, shorten_figure_two, write_tiny_data
from typer.testing import CliRunner

from laplacenet.cli.app import app
from laplacenet.cli.reproduction import Request, parse_split_files, parse_splits, requested_runs
from laplacenet.experiments.paper.plan import SHORT_STEPS, whole_plan
from laplacenet.experiments.paper.records import read_records, write_record
from laplacenet.experiments.paper.reproduce import Places, plan_runs
from laplacenet.experiments.paper.series import RecordBook
from laplacenet.experiments.presets import preset_named
from laplacenet.runtime import InputError, RunError, TimeLimitError, read_json
from laplacenet.training.checkpoint import Snapshot, write_checkpoint


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_data(tmp_path_factory.mktemp("data"))


def laplacenet(*words: str | Path, exit_code: int = 0) -> str:
    """What a command prints; its fault is raised."""
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == exit_code, result.output
    return result.output


def tiny(data: Path, work: Path, *words: str) -> list[str | Path]:
    settings = [word for setting in TINY for word in ("--set", setting)]
    places = ["--data-dir", data, "--runs", work / "runs", "--results", work / "results", "--device", "cpu"]
    return ["reproduce", *words, *settings, *places]


def test_the_list_shows_every_cell_with_its_cost_and_what_is_recorded(tmp_path: Path) -> None:
    shown = laplacenet("reproduce", "--list", "--results", tmp_path)
    for name in ("figure-2", "table-3", "table-9", "figure-4", "class-weighting"):
        assert f"\n{name}\n" in f"\n{shown}"
    (headline,) = (line for line in shown.splitlines() if "31.64" in line)
    assert headline.split() == ["LaplaceNet", "31.64", "±", "0.02", "14", "min", "05", "s", "-"]
    assert "not measured" in shown
    _, _, column, only, *_ = laplacenet(
        *("reproduce", "table-3", "--list", "--column", "cifar100/4000", "--row", "LaplaceNet", "--results", tmp_path)
    ).splitlines()
    assert (column, only.split()) == ("  cifar100/4000", headline.split())


def test_the_list_of_all_tables_fits_a_terminal_and_leaves_other_methods_to_the_list_of_one(tmp_path: Path) -> None:
    write_record(tmp_path, record_of(headline_with_views(3)))
    write_record(tmp_path, record_of(headline_with_views(3), base_steps=SHORT_STEPS))
    shown = laplacenet("reproduce", "--list", "--results", tmp_path)
    assert max(len(line) for line in shown.splitlines() if line.startswith("    ")) <= 80
    assert any(line.endswith("1 full, 1 short") for line in shown.splitlines() if "31.64" in line)
    assert "  12 other methods: laplacenet reproduce table-3 --list\n" in shown
    assert "UDA" not in shown
    assert "UDA, equal" in laplacenet("reproduce", "table-4", "--list", "--results", tmp_path)


def test_the_list_under_a_preset_shows_its_costs_and_records(tmp_path: Path) -> None:
    plain = record_of(headline_with_views(3))
    laid = replace(plain, experiment=replace(preset_named("fast"), name=plain.key.name))
    key = replace(plain.key, base_steps=preset_named("fast").train.steps, overrides=("preset=fast",))
    for split, source in ((0, "published"), (3, "published"), (3, "balanced")):
        write_record(tmp_path, replace(laid, key=replace(key, split=split, split_source=source)))
    write_record(
        tmp_path, replace(plain, key=replace(key, split=4))
    )  # an earlier form of the preset had other settings
    write_record(tmp_path, replace(laid, key=replace(key, base_steps=100)))
    words = ("reproduce", "table-3", "--list", "--preset", "fast", "--column", "cifar100/4000", "--results", tmp_path)
    shown = laplacenet(*words).splitlines()
    assert [line.split()[-1] for line in shown if line.startswith("    ")] == ["3", "-"]
    assert "4 min 11 s" in shown[3]
    assert not any("UDA" in line for line in shown)
    assert "with these settings" in " ".join(shown)
    (line,) = (line for line in laplacenet(*words, "--steps", "100").splitlines() if "LaplaceNet" in line)
    assert line.split()[-1] == "1"


def test_the_list_says_where_a_setting_does_not_apply_and_refuses_one_that_applies_nowhere(tmp_path: Path) -> None:
    words = ("reproduce", "table-3", "--list", "--column", "cifar100/4000", "--results", tmp_path)
    ours, baseline = laplacenet(*words, "--set", "method.ema_decay=0.99").splitlines()[3:5]
    assert "14 min" in ours
    assert baseline.endswith("does not apply  -")
    with pytest.raises(InputError, match="unknown model 'x'"):
        laplacenet(*words, "--set", "model.name=x")


def test_other_methods_are_run_where_their_row_or_preset_is_asked_for() -> None:
    def asked(**changes: Any) -> list[str]:
        unset = dict.fromkeys(("row", "steps", "preset", "data_dir"))
        places = {"runs": Path("runs"), "results": Path("results"), "split_files": ()}
        common = {"name": "table-4", "column": "cifar100/4000", "splits": "0", "settings": ()}
        runs, _ = requested_runs(Request(**{**unset, **places, **common, **changes}))
        return [run.experiment.name.split("/")[-1] for run in runs]

    assert asked() == ["laplacenet"]
    assert asked(row="UDA") == ["uda-original", "uda-equal"]
    assert asked(row="UDA", preset="equal") == ["uda-equal"]
    assert asked(preset="original") == ["laplacenet", "mixmatch-original", "uda-original", "fixmatch-original"]
    assert len(asked(name="few-labels", column="cifar100/400")) == 4


def test_the_list_of_all_is_the_plan_in_its_order_with_what_came_out(tmp_path: Path) -> None:
    write_record(tmp_path, record_of(headline_with_views(3), test_error=0.3116))
    with_other_settings = record_of(headline_with_views(1), base_steps=SHORT_STEPS, test_error=0.5)
    key = replace(with_other_settings.key, overrides=("train.lr=0.1",))
    write_record(tmp_path, replace(with_other_settings, key=key))
    lost = record_of(headline_with_views(5), base_steps=SHORT_STEPS, diverged_at_step=90)
    write_record(tmp_path, lost)
    first, *others, _, total = laplacenet("reproduce", "all", "--list", "--results", tmp_path).splitlines()
    n_planned = len(plan_runs(whole_plan(), Places()))
    assert first.split()[:6] == ["1", "cifar100-4000/13-cnn/laplacenet", "split", "0", "250000", "steps"]
    assert first.endswith("test error 31.16 %")
    assert len(others) == n_planned - 1
    (other,) = (line for line in others if not line.endswith(" -"))
    assert lost.key.name in other
    assert other.endswith("diverged after step 90")
    assert total.startswith(f"{n_planned} runs, the most informative first: 2 recorded, {n_planned - 2} to do")


def test_a_cell_is_run_recorded_listed_reported_and_not_run_again(data: Path, tmp_path: Path) -> None:
    split_file = str(data / "cifar100_splits.npz")
    words = ("table-3", "--column", "cifar100/4000", "--row", "LaplaceNet", "--steps", "2", "--splits", "0-1")
    command = tiny(data, tmp_path, *words, "--split-file", split_file, "--set", TINY_SPLIT)
    first = laplacenet(*command)
    assert "2 runs: 0 recorded already, 2 to do" in first
    assert first.count("test error") >= 2
    assert "2 recorded already, 0 to do" in laplacenet(*command)
    records = read_records(tmp_path / "results")
    assert [(record.key.split, record.key.base_steps, record.key.split_source) for record in records] == [
        (0, 2, "published"),
        (1, 2, "published"),
    ]
    assert laplacenet("report", "--results", tmp_path / "results", "--out", tmp_path / "out").strip().endswith("html")
    assert "nothing recorded yet" in (tmp_path / "out" / "report.md").read_text()


def published_lists(data: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The splits of CIFAR-100 as a file and as a folder."""
    splits, lists = data / "cifar100_splits.npz", tmp_path / "labels" / "cifar100"
    with np.load(splits) as arrays:
        for key in arrays:
            count, number = key.split("/")
            path = lists / f"{count}_balanced_labels" / f"{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{row}_fine{row % 4}.png fine{row % 4}\n" for row in arrays[key]))
    return splits, lists


def test_published_lists_give_the_same_run_as_their_row_numbers(data: Path, tmp_path: Path) -> None:
    splits, lists = published_lists(data, tmp_path)
    words = ("table-3", "--column", "cifar100/4000", "--row", "LaplaceNet", "--steps", "2", "--set", TINY_SPLIT)
    outcomes = []
    for place in (splits, lists):
        out = tmp_path / place.stem
        laplacenet(*tiny(data, out, *words, "--split-file", f"cifar100={place}"))
        (record,) = read_records(out / "results")
        outcomes.append((record.key, record.outcome.test_error, record.curve))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0].split_source == "published"


def test_a_run_goes_on_with_the_same_labels_from_another_place(data: Path, tmp_path: Path) -> None:
    splits, lists = published_lists(data, tmp_path)
    words = ("table-3", "--column", "cifar100/4000", "--row", "LaplaceNet", "--steps", "3", "--set", TINY_SPLIT)
    command = [*tiny(data, tmp_path, *words), "--checkpoint-every", "0.000001s"]
    with pytest.raises(TimeLimitError):
        laplacenet(*command, "--split-file", splits, "--for", "0.000001s")
    assert "test error" in laplacenet(*command, "--split-file", lists)
    assert "1 recorded already" in laplacenet(*command, "--split-file", splits)


def test_splits_that_are_missing_are_refused_before_the_first_run(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laplacenet.cli.reproduction.carry_out", None)
    _, lists = published_lists(data, tmp_path)
    shutil.rmtree(lists / "10000_balanced_labels")
    words = ("table-3", "--column", "cifar100/10000", "--steps", "3", "--split-file", f"cifar100={lists}")
    with pytest.raises(InputError, match=r"no split '10000/00'; its \d+ keys are"):
        laplacenet(*tiny(data, tmp_path / "work", *words))
    assert not (tmp_path / "work").exists()


def test_a_split_that_was_cut_short_is_refused_before_the_first_run(data: Path, tmp_path: Path) -> None:
    for place in published_lists(data, tmp_path):
        words = ("table-3", "--row", "LaplaceNet", "--steps", "3", "--split-file", f"cifar100={place}")
        with pytest.raises(InputError, match="its split 4000/00 has 8 rows, not 4000; give a complete one"):
            laplacenet(*tiny(data, tmp_path / "work", *words, "--column", "cifar100/4000"))
        assert not (tmp_path / "work").exists()


def test_a_split_that_was_cut_short_is_refused_where_an_earlier_version_recorded_it(data: Path, tmp_path: Path) -> None:
    write_record(tmp_path / "results", record_of(headline_with_views(3), n_labeled=8))
    words = ("reproduce", "table-3", "--column", "cifar100/4000", "--row", "LaplaceNet", "--data-dir", data)
    with pytest.raises(InputError, match="its split 4000/00 has 8 rows, not 4000"):
        laplacenet(*words, "--split-file", data / "cifar100_splits.npz", "--results", tmp_path / "results")


def test_a_list_that_calls_a_row_by_another_class_is_refused_before_training(data: Path, tmp_path: Path) -> None:
    _, lists = published_lists(data, tmp_path)
    path = lists / "8_balanced_labels" / "00.txt"
    path.write_text(path.read_text().replace("fine1", "fine2"))
    words = ("table-3", "--column", "cifar100/4000", "--row", "LaplaceNet", "--steps", "3", "--set", TINY_SPLIT)
    with pytest.raises(InputError, match="the list says that row 1 is 'fine2', but in this data set it is 'fine1'"):
        laplacenet(*tiny(data, tmp_path / "work", *words, "--split-file", lists))
    assert not (tmp_path / "work").exists()


def test_a_presets_steps_hold_unless_others_are_asked_for(data: Path) -> None:
    asked = Request("table-8", "cifar100/4000", None, "0", None, "fast", (), data, (), Path("runs"), Path("results"))
    for steps, expected in ((None, preset_named("fast").train.steps), (100, 100)):
        runs, _ = requested_runs(replace(asked, steps=steps))
        assert {run.experiment.train.steps for run in runs} == {run.key.base_steps for run in runs} == {expected}


def test_runs_are_tested_after_every_epoch_unless_told_otherwise_and_always_at_the_end(
    data: Path, tmp_path: Path
) -> None:
    cell = ("table-3", "--column", "cifar100/4000", "--row", "LaplaceNet", "--set", "data.n_labeled=8")
    is_tested, errors = [], []
    for name, options in (("always", ()), ("seldom", ("--judge-every", "3"))):
        laplacenet(*tiny(data, tmp_path / name, *cell, "--steps", "90", *options))
        found = (tmp_path / name / "runs").rglob("epochs.jsonl")
        (file,) = (one for one in found if not one.parent.name.startswith("checkpoint"))
        epochs = [json.loads(line) for line in file.read_text().splitlines()]
        is_tested.append([epoch["test_error"] is not None for epoch in epochs])
        errors.append(epochs[-1]["test_error"])
    n_epochs = len(is_tested[0])
    assert is_tested[0] == [True] * n_epochs
    assert is_tested[1] == [i % 3 == 0 or i == n_epochs for i in range(1, n_epochs + 1)]
    assert n_epochs % 3, "or the last epoch would be tested anyway"
    assert errors[0] == errors[1]


def test_time_runs_out_with_a_checkpoint_and_the_same_command_goes_on(data: Path, tmp_path: Path) -> None:
    settings = ("table-3", "--column", "cifar100/4000", "--row", "LaplaceNet", "--set", "data.n_labeled=8")
    with pytest.raises(TimeLimitError, match="give the same command again"):
        laplacenet(*tiny(data, tmp_path, *settings, "--steps", "400", "--for", "1.5s"))
    assert read_records(tmp_path) == []
    (checkpoint,) = (tmp_path / "runs").rglob("checkpoint")
    moved = tmp_path / "elsewhere"
    shutil.copytree(tmp_path / "runs", moved / "runs")
    with pytest.raises(TimeLimitError, match="runs left to do: 1"):
        laplacenet(*tiny(data, moved, *settings, "--steps", "400", "--for", "1.5s"))
    assert (checkpoint / "manifest.json").read_text() != (
        moved / checkpoint.relative_to(tmp_path) / "manifest.json"
    ).read_text()


@pytest.fixture
def full_from_step_one(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """The disk takes the start of a run and no later checkpoint, until the list is empty."""
    errors: list[Exception] = [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "disk/state")]

    def save(folder: Path, snapshot: Snapshot, **rest: Any) -> None:
        if snapshot.position.step and errors:
            raise errors[0]
        write_checkpoint(folder, snapshot, **rest)

    monkeypatch.setattr("laplacenet.training.session.write_checkpoint", save)
    return errors


def one_cell(data: Path, work: Path) -> list[str | Path]:
    words = ("table-3", "--column", "cifar100/4000", "--row", "LaplaceNet", "--set", "data.n_labeled=8", "--steps", "2")
    return tiny(data, work, *words, "--checkpoint-every", "0.000001s")


def test_a_full_disk_ends_with_one_line_and_the_same_command_goes_on(
    data: Path, tmp_path: Path, full_from_step_one: list[Exception]
) -> None:
    command = one_cell(data, tmp_path)
    with pytest.raises(RunError) as caught:
        laplacenet(*command)
    assert str(caught.value) == (
        "disk/state: no space left on device; the run can be resumed from its last good checkpoint (step 0)"
        " with: the same command"
    )
    full_from_step_one.clear()
    assert "test error" in laplacenet(*command)


def test_a_bug_keeps_its_traceback_and_says_below_it_how_to_go_on(
    data: Path, tmp_path: Path, full_from_step_one: list[Exception]
) -> None:
    full_from_step_one[0] = ZeroDivisionError("a bug")
    with pytest.raises(ZeroDivisionError) as caught:
        laplacenet(*one_cell(data, tmp_path))
    (note,) = caught.value.__notes__
    assert note.endswith("from its last good checkpoint (step 0) with: the same command")


def test_a_finished_run_without_room_for_its_record_is_recorded_by_the_same_command(data: Path, tmp_path: Path) -> None:
    command = one_cell(data, tmp_path)
    in_the_way = tmp_path / "results" / "cifar100-4000"
    in_the_way.parent.mkdir()
    in_the_way.touch()
    with pytest.raises(RunError, match=r"results.*: .*; the run is finished; the same command records it"):
        laplacenet(*command)
    in_the_way.unlink()
    assert "test error" in laplacenet(*command)


def test_figure_2_uses_the_splits_as_seeds_and_is_not_made_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_figure_two(monkeypatch)
    command = ("reproduce", "figure-2", "--results", tmp_path, "--splits")
    assert "test accuracy" in laplacenet(*command, "3")
    record = tmp_path / "figure-2" / "two-moons.json"
    assert [run["seed"] for run in read_json(record)["runs"]] == [3]
    written = record.read_bytes()
    assert "recorded already" in laplacenet(*command, "3")
    assert record.read_bytes() == written
    picture = record.with_name("figure-2.svg")
    picture.unlink()
    assert "pictures" in laplacenet(*command, "3")
    assert picture.is_file()
    assert "mean of 2 seeds" in laplacenet(*command, "1")
    assert [run["seed"] for run in read_json(record)["runs"]] == [1, 3]


@pytest.mark.parametrize("content", ["{}", '{"kind": "figure-2", "runs": []}', "no JSON"])
def test_an_invalid_record_of_figure_2_is_refused_and_not_replaced(content: str, tmp_path: Path) -> None:
    record = tmp_path / "figure-2" / "two-moons.json"
    record.parent.mkdir()
    record.write_text(content)
    with pytest.raises(InputError, match=r"two-moons\.json: .*; move it away or choose another --results"):
        laplacenet("reproduce", "figure-2", "--results", tmp_path)
    assert record.read_text() == content


def test_a_folder_in_the_place_of_figure_2s_record_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    record = tmp_path / "figure-2" / "two-moons.json"
    record.mkdir(parents=True)
    with pytest.raises(InputError, match=r"two-moons\.json: is not a file; move it away"):
        laplacenet("reproduce", "figure-2", "--results", tmp_path)
    assert list(record.parent.iterdir()) == [record]


@pytest.mark.parametrize(
    "words",
    [
        *("--steps 10", "--set train.lr=1", "--device cpu", "--for 9m", "--column c", "--row r", "--data-dir ."),
        *("--split-file f", "--compile", "--checkpoint-every 9s", "--runs other", "--preset digits"),
    ],
)
def test_figure_2_refuses_options_that_it_does_not_use(words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"leave out {words.split(maxsplit=1)[0]}$"):
        laplacenet("reproduce", "figure-2", *words.split(), "--results", tmp_path)
    assert not (tmp_path / "figure-2").exists()


@pytest.mark.parametrize("option", ["--results", "--runs"])
def test_places_that_cannot_be_written_to_are_refused_before_any_training(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setattr("laplacenet.cli.reproduction.carry_out", None)
    (tmp_path / "file").write_text("mine")
    command = [*one_cell(data, tmp_path / "work"), option, tmp_path / "file"]
    with pytest.raises(InputError, match=f"{option} .*file: is not a folder"):
        laplacenet(*command)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "mine"


def test_another_folder_in_the_place_of_a_run_is_refused_by_its_option(data: Path, tmp_path: Path) -> None:
    command = one_cell(data, tmp_path)
    laplacenet(*command)
    (run,) = (tmp_path / "runs").rglob("experiment.json")
    shutil.rmtree(run.parent)
    run.parent.mkdir()
    (run.parent / "mine.txt").write_text("mine")
    shutil.rmtree(tmp_path / "results")
    with pytest.raises(InputError, match="holds other files; choose another --runs"):
        laplacenet(*command)


@pytest.mark.parametrize("content", ["{}", "<<<<<<< HEAD\n{}"])
def test_a_damaged_record_is_refused_and_not_replaced(data: Path, tmp_path: Path, content: str) -> None:
    command = one_cell(data, tmp_path)
    laplacenet(*command)
    (path,) = (tmp_path / "results").rglob("*.json")
    path.write_text(content)
    with pytest.raises(InputError, match=f"{path.name}: .*; move it away or choose another --results"):
        laplacenet(*command)
    assert path.read_text() == content
    path.unlink()
    assert "0 recorded already, 1 to do" in laplacenet(*command)


def test_a_record_under_the_name_of_another_run_is_refused_and_not_replaced(data: Path, tmp_path: Path) -> None:
    command = one_cell(data, tmp_path)
    laplacenet(*command)
    (path,) = (tmp_path / "results").rglob("*.json")
    (record,) = read_records(tmp_path / "results")
    other = write_record(tmp_path / "elsewhere", replace(record, key=replace(record.key, split=7)))
    path.write_bytes(content := other.read_bytes())
    with pytest.raises(InputError, match="holds the record of another run; move it away"):
        laplacenet(*command)
    assert path.read_bytes() == content


def test_a_preset_is_laid_over_a_cell_and_recorded_apart(data: Path, tmp_path: Path) -> None:
    words = ("table-3", "--column", "cifar100/4000", "--row", "LaplaceNet", "--steps", "2", "--preset", "pictures")
    split = ("--split-file", str(data / "cifar100_splits.npz"), "--set", TINY_SPLIT)
    laplacenet(*tiny(data, tmp_path, *words, *split))
    (record,) = read_records(tmp_path / "results")
    assert record.key.overrides == ("preset=pictures", TINY_SPLIT, *TINY)
    assert record.experiment.graph == preset_named("pictures").graph
    assert record.experiment.train.steps == 2
    assert not RecordBook([record]).series(headline_with_views(3))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a table or figure, or all"),
        (["table-2"], "unknown table or figure 'table-2'"),
        (["table-3", "--column", "cifar100/1"], "has no column 'cifar100/1'"),
        (["table-3", "--row", "TM"], "has no row 'TM'; choose one of LaplaceNet, Supervised baseline"),
        (["table-3", "--splits", "a"], "give numbers such as 0, 0-4"),
        (["table-3", "--steps", "0"], "^--steps 0: give at least one"),
        (["table-4", "--preset", "equal", "--set", "method.n_views=2"], "^MixMatch: --set method.n_views=2: unknown"),
        (["table-3", "--row", "VAT", "--set", "method.n_views=2"], "^--set method.n_views=2: unknown field"),
        (["table-8", "--data-dir", "/nowhere"], "--data-dir /nowhere: no such folder"),
        (["table-8", "--split-file", "none.npz"], "none.npz: no such file"),
        (
            ["table-8", "--split-file", "."],
            "a folder without lists; give an .npz file, or a folder with files such as 4000_bal",
        ),
        (["all", "--steps", "5", "--column", "x"], "leave out --column, --steps"),
        (["table-8", "--for", "soon"], "give a time such as"),
        (["--list", "--row", "LaplaceNet"], "choose within a table or figure; name it"),
        (["table-3", "--list", "--column", "cifar100/1"], "has no column 'cifar100/1'"),
        (["all", "--list", "--row", "LaplaceNet"], "leave out --row"),
        (["all", "--splits", "1"], "leave out --splits"),
        (["table-3", "--preset", "two-moons"], "--preset two-moons is for vectors, and cifar10 holds pictures"),
        (["table-3", "--preset", "quick"], "unknown preset 'quick'"),
        (["table-3", "--list", "--preset", "quick"], "unknown preset 'quick'"),
        (["table-3", "--list", "--steps", "0"], "--steps 0: give at least one"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(words: list[str], said: str, tmp_path: Path) -> None:
    places = [] if "--data-dir" in words else ["--data-dir", str(tmp_path)]
    with pytest.raises(InputError, match=said) as caught:
        laplacenet("reproduce", *words, *places, "--results", tmp_path)
    assert "\n" not in str(caught.value)


def test_split_files_of_several_data_sets_say_whose_they_are(data: Path) -> None:
    file = str(data / "cifar10_splits.npz")
    assert parse_split_files((file,), {"cifar10"}) == {"cifar10": file}
    assert parse_split_files((f"cifar10={file}",), {"cifar10", "cifar100"}) == {"cifar10": file}
    with pytest.raises(
        InputError, match="say which one it is for: --split-file cifar10=FILE --split-file cifar100=FILE"
    ):
        parse_split_files((file,), {"cifar10", "cifar100"})
    with pytest.raises(InputError, match="cifar10 is given twice; put all its lists into one folder"):
        parse_split_files((f"cifar10={file}", f"cifar10={file}"), {"cifar10"})
    with pytest.raises(InputError, match="digits is not requested"):
        parse_split_files((f"digits={file}",), {"cifar10"})


def test_splits_are_numbers_lists_and_ranges() -> None:
    assert parse_splits("0-4") == [0, 1, 2, 3, 4]
    assert parse_splits("3,0-1,3") == [3, 0, 1]
    for text in ("", "-1", "2-1", "1-", "x"):
        with pytest.raises(InputError, match="--splits"):
            parse_splits(text)
