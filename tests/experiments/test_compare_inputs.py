"""A comparison that goes on with other data, labels, files or options: refused in one line, or not affected by it."""

import contextlib
import errno
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from references_cli import Said, Shell
from references_runs import N_TRAIN, write_bars

from laplacenet.experiments.compare import ComparedRun, Workbench
from laplacenet.experiments.fitting import fit_method
from laplacenet.experiments.notation import override
from laplacenet.experiments.task import Task
from laplacenet.runtime import read_sealed, write_sealed

COMPARE = ["compare", "bars.npz", "--methods", "supervised,network-labels", "--steps", "2", "--device", "cpu"]
COMPARE += ["--set", "train.batch_size=24"]
BY_SPLITS = ["--labels", "splits.npz", "--split-key", "9/{split}", "--seeds", "2"]
WHOLE = [*COMPARE, *BY_SPLITS, "--out", "out", "--record", "record.json"]
SPLITS = {"9/0": np.arange(9), "9/1": np.arange(9, 18)}
OTHER_ROWS = np.arange(20, 29)
RUN, RUN_FILE = "runs/supervised-seed-0", "runs-supervised-seed-0.json"


@contextlib.contextmanager
def ends_after(n_runs: int) -> Iterator[None]:
    """The command ends after so many runs, as if all that was left had been done by others."""
    claim, counter = Workbench.claim, iter(range(100))

    @contextlib.contextmanager
    def interrupted(bench: Workbench) -> Iterator[ComparedRun | None]:
        with claim(bench) as run:
            yield run if next(counter) < n_runs else None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Workbench, "claim", interrupted)
        yield


def fresh_shell(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    write_bars(folder / "bars.npz")
    np.savez(folder / "splits.npz", **SPLITS)
    return Shell(folder, monkeypatch, capsys)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return fresh_shell(tmp_path, monkeypatch, capsys)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison with one run of four, and its record."""
    folder = tmp_path_factory.mktemp("begun")
    write_bars(folder / "bars.npz")
    np.savez(folder / "splits.npz", **SPLITS)
    with pytest.MonkeyPatch.context() as patch, ends_after(1):
        patch.chdir(folder)
        patch.setattr("sys.argv", ["laplacenet", *WHOLE])
        from laplacenet.cli import main

        with pytest.raises(SystemExit, match="0"):
            main()
    return folder


@pytest.fixture
def going_on(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    return Shell(tmp_path, monkeypatch, capsys)


def change_arrays(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    with np.load(folder / "bars.npz") as file:
        arrays = dict(file)
    change(arrays)
    np.savez(folder / "bars.npz", **arrays)


def change_splits(folder: Path, **rows: np.ndarray) -> None:
    np.savez(folder / "splits.npz", **{**SPLITS, **rows})


CHANGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "inverted images": (
        lambda folder: change_arrays(folder, lambda it: it.update(images=255 - it["images"])),
        "other training inputs",
    ),
    "fewer images": (
        lambda folder: change_arrays(folder, lambda it: it.update(images=it["images"][:45], labels=it["labels"][:45])),
        "other training inputs and other labels",
    ),
    "other test labels": (
        lambda folder: change_arrays(folder, lambda it: it.update(test_labels=(it["test_labels"] + 1) % 3)),
        "another test set",
    ),
    "other labels for the first seed": (lambda folder: change_splits(folder, **{"9/0": OTHER_ROWS}), "other labels"),
    "other labels for the second seed": (lambda folder: change_splits(folder, **{"9/1": OTHER_ROWS}), "other labels"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_other_data_than_the_comparison_began_with_is_refused(name: str, going_on: Shell) -> None:
    change, said = CHANGES[name]
    change(going_on.folder)
    before = (going_on.folder / "record.json").read_bytes()
    assert f"out: was begun with {said}; restore what has changed, or choose another --out" in going_on.fails(*WHOLE)
    assert (going_on.folder / "record.json").read_bytes() == before


def test_a_record_of_other_data_is_refused_and_nothing_of_it_is_kept(going_on: Shell) -> None:
    shutil.rmtree(going_on.folder / "out")
    change, said = CHANGES["inverted images"]
    change(going_on.folder)
    refused = going_on.fails(*WHOLE)
    assert f"record.json: runs/supervised-seed-0 was made with {said}; restore what has changed" in refused
    assert not list((going_on.folder / "out" / "finished").iterdir())
    with ends_after(0):
        going_on.succeeds(*COMPARE, *BY_SPLITS, "--out", "out", "--record", "another.json")


def test_a_record_from_before_there_were_hashes_is_accepted(going_on: Shell) -> None:
    shutil.rmtree(going_on.folder / "out")
    content = read_sealed(going_on.folder / "record.json")
    for run in content["runs"]:
        assert run["origin"].pop("data").keys() == {"inputs", "test", "labels"}
    write_sealed(going_on.folder / "record.json", content)
    with ends_after(1):
        going_on.succeeds(*WHOLE)
    runs = json.loads((going_on.folder / "record.json").read_text())["runs"]
    assert ["data" in run["origin"] for run in runs] == [False, True]


def test_hidden_labels_may_change_since_no_result_depends_on_them(going_on: Shell) -> None:
    seen = np.concatenate(list(SPLITS.values()))
    is_hidden = ~np.isin(np.arange(N_TRAIN), seen)
    change_arrays(going_on.folder, lambda it: it.update(labels=np.where(is_hidden, 0, it["labels"])))
    with ends_after(0):
        going_on.succeeds(*WHOLE)


def test_labels_that_a_later_seed_lacks_are_missed_before_any_run(shell: Shell) -> None:
    np.savez(shell.folder / "splits.npz", **{"9/0": SPLITS["9/0"]})
    assert "no split '9/1'; its 1 keys are 9/0" in shell.fails(*WHOLE)
    assert not (shell.folder / "out" / "runs").exists()


def test_data_of_ones_own_may_lie_elsewhere_on_another_machine(going_on: Shell, tmp_path: Path) -> None:
    shutil.rmtree(going_on.folder / "out")
    (tmp_path / "data").mkdir()
    shutil.move(tmp_path / "bars.npz", tmp_path / "data" / "bars.npz")
    moved = [word.replace("bars.npz", "data/bars.npz") for word in WHOLE]
    with ends_after(1):
        going_on.succeeds(*moved)
    content = (tmp_path / "record.json").read_text()
    assert [run["method"] for run in json.loads(content)["runs"]] == ["supervised", "network-labels"]
    assert str(tmp_path) not in content


def test_a_run_under_way_goes_on_where_its_data_was_moved(shell: Shell, tmp_path: Path) -> None:
    words = [*COMPARE, *BY_SPLITS, "--out", "out"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("laplacenet.experiments.run.save_model", lambda *_: 1 / 0)  # it ends just before its end
        with ends_after(1):
            assert shell(*words).code == 1
    assert (tmp_path / "out/runs/supervised-seed-0/checkpoint").is_dir()
    (tmp_path / "data").mkdir()
    shutil.move(tmp_path / "bars.npz", tmp_path / "data" / "bars.npz")
    with ends_after(1):
        shell.succeeds(*(word.replace("bars.npz", "data/bars.npz") for word in words))


def test_the_record_in_the_folder_alone_lets_another_machine_go_on(going_on: Shell, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "out")
    (tmp_path / "out").mkdir()
    shutil.move(tmp_path / "record.json", tmp_path / "out" / "record.json")
    with ends_after(1):
        going_on.succeeds(*COMPARE, *BY_SPLITS, "--out", "out")
    runs = json.loads((tmp_path / "out" / "record.json").read_text())["runs"]
    assert [run["method"] for run in runs] == ["supervised", "network-labels"]


def test_runs_that_a_record_gained_meanwhile_are_not_overwritten(
    going_on: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine wrote into the same file, or the user put a newer copy there."""
    words = [*COMPARE, *BY_SPLITS, "--record", "record.json"]
    before = (tmp_path / "record.json").read_bytes()
    with ends_after(2):
        going_on.succeeds(*words, "--out", "elsewhere")
    newer = (tmp_path / "record.json").read_bytes()
    (tmp_path / "record.json").write_bytes(before)
    epochs = Workbench.epochs

    def epochs_meanwhile(*arguments: Any) -> Iterator[Any]:
        (tmp_path / "record.json").write_bytes(newer)
        yield from epochs(*arguments)

    monkeypatch.setattr(Workbench, "epochs", epochs_meanwhile)
    with ends_after(1):
        going_on.succeeds(*words, "--out", "out")
    runs = json.loads((tmp_path / "record.json").read_text())["runs"]
    assert [run["method"] for run in runs] == ["supervised", "network-labels", "supervised"]


@pytest.mark.parametrize("damage", ["cut", "other values", "other kinds", "a run of no method", "not a list"])
def test_a_record_that_is_damaged_is_refused_and_left_alone(damage: str, going_on: Shell, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    content = json.loads(path.read_text())
    del content["checksum"]  # as older versions wrote it: what is wrong must be seen in it
    run = content["runs"][0]
    changes: dict[str, Callable[[], Any]] = {
        "other values": lambda: run.update(wall_s="long"),
        "other kinds": lambda: run.update(origin=[1], curve=[[1, 2]]),
        "a run of no method": lambda: run.update(method="no such\0method"),
        "not a list": lambda: content.update(runs={"a": 1}),
    }
    changes.get(damage, lambda: None)()
    text = json.dumps(content)
    path.write_text(text[: len(text) // 2] if damage == "cut" else text)
    before = path.read_bytes()
    said = going_on.fails(*WHOLE)
    assert "record.json: " in said
    assert "choose another --record" in said
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("option", "kind", "said"),
    [
        ("--out", "file", "--out it: is not a folder"),
        ("--out", "pipe", "--out it: is not a folder"),
        ("--out", "below a file", "--out it/in: cannot be written to (Not a directory); choose another --out"),
        ("--out", "nowhere", "--out /proc/none: cannot be written to"),
        ("--record", "folder", "--record it: is a folder; name a file"),
        ("--record", "pipe", "--record it: not a regular file"),
        ("--record", "below a file", "--record it/in: cannot be written"),
        ("--record", "nowhere", "--record /proc/none: cannot be written"),
    ],
)
def test_places_that_cannot_be_written_are_refused_before_any_run(
    option: str, kind: str, said: str, shell: Shell
) -> None:
    place = shell.folder / "it"
    make = {"folder": place.mkdir, "pipe": lambda: os.mkfifo(place), "nowhere": lambda: None}
    make.get(kind, place.touch)()
    name = {"below a file": "it/in", "nowhere": "/proc/none"}.get(kind, "it")
    others = [] if option == "--out" else ["--out", "out"]
    assert said in shell.fails(*COMPARE, "--labels", "9", *others, option, name)
    assert not (shell.folder / "out" / "runs").exists()


def test_a_folder_among_the_inputs_is_refused(shell: Shell) -> None:
    shutil.move(shell.folder / "bars.npz", shell.folder / "data.npz")
    (shell.folder / "data").mkdir()
    shutil.move(shell.folder / "data.npz", shell.folder / "data" / "bars.npz")
    words = [word.replace("bars.npz", "data/bars.npz") for word in COMPARE]
    assert "lies inside the folder to write to" in shell.fails(*words, "--labels", "9", "--out", "data")


def test_a_record_is_written_through_a_link_and_leaves_files_beside_it_alone(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "record.json").symlink_to(tmp_path / "elsewhere.json")
    for name in ("record.json.tmp", "elsewhere.json.tmp"):
        (tmp_path / name).write_text("of the user")
    with ends_after(1):
        shell.succeeds(*COMPARE, "--labels", "9", "--out", "out", "--record", "record.json")
    assert (tmp_path / "record.json").is_symlink()
    assert len(json.loads((tmp_path / "elsewhere.json").read_text())["runs"]) == 1
    assert {(tmp_path / name).read_text() for name in ("record.json.tmp", "elsewhere.json.tmp")} == {"of the user"}


TUNED = ["--tune", "1s", "--held-out", "3", "--rates"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seeds", "1000000000000"], "--seeds 1000000000000: give a number between 1 and 1000"),
        (["--methods", ",,"], "--methods: name at least one method"),
        ([*TUNED, "0.1,0.1"], "--rates 0.1,0.1: name each rate once"),
        ([*TUNED, "0.1,0.10000001"], "--rates 0.1,0.1: name each rate once"),
        ([*TUNED, "0.1,0.2", "--set", "train.lr=0.3"], "the learning rate is chosen among --rates"),
        (["--set", "method.name=vat"], "name the methods with --methods"),
        (["--set", "supervised:method.name=vat"], "name the methods with --methods"),
        (["--set", "seed=3"], "--seeds says how many there are"),
        (["--set", "supervised:data.n_labeled=12"], "all methods see the same data"),
        (["--set", "supervised:method.bogus=1"], "supervised: --set method.bogus=1: unknown field 'bogus'"),
        (["--set", "method.temperature=1"], "supervised: --set method.temperature=1: unknown field 'temperature'"),
        (["--set", "vat:method.radius=1"], "vat is not among --methods supervised,network-labels"),
        (["--set", "supervised:train.steps=12"], "all methods get the same time or the same steps"),
    ],
)
def test_options_that_would_make_the_runs_unequal_or_be_ignored_are_refused(
    words: list[str], said: str, shell: Shell
) -> None:
    assert said in shell.fails(*COMPARE, "--labels", "9", "--out", "out", *words)
    assert not (shell.folder / "out").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--labels 10", "10 labels cannot be shared equally"),
        ("--labels 9 --tune 1s --rates 0.1 --held-out 9", "--held-out 9: only 6 labels can be held out"),
        ("--labels 9 --model 13-cnn", "model 13-cnn cannot read"),
    ],
)
def test_a_refused_comparison_leaves_its_folder_free_for_the_corrected_one(words: str, said: str, shell: Shell) -> None:
    assert said in shell.fails(*COMPARE, "--out", "out", *words.split())
    assert not (shell.folder / "out").exists()
    with ends_after(0):
        shell.succeeds(*COMPARE, "--labels", "9", "--out", "out")


def broken(*_: object, **__: object) -> None:
    raise RuntimeError("no such kernel")


def test_a_clock_that_is_set_back_does_not_let_a_failing_run_be_tried_for_ever(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(10**6, 0, -1000))
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    monkeypatch.setattr("laplacenet.experiments.compare.workbench.start_run", broken)
    said = shell(*COMPARE, "--labels", "9", "--out", "out", "--limit", "60s")
    assert said.code == 1
    assert said.err.count("RuntimeError: no such kernel") == 4  # of each run the traceback and a line at the end
    monkeypatch.undo()
    monkeypatch.chdir(shell.folder)
    monkeypatch.setattr(time, "time", lambda: 1.0)  # long before the failures
    with ends_after(1):
        again: Said = shell.succeeds(*COMPARE, "--labels", "9", "--out", "out")
    assert "failed" not in again.err


def test_a_full_disk_ends_the_comparison_in_one_line(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other run could go on; this one is resumed once there is room."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("laplacenet.experiments.compare.workbench.start_run", full)
        said = shell(*COMPARE, "--labels", "9", "--out", "out")
    assert said.code == 1
    assert said.err.startswith("error: out/runs/supervised-seed-0: no space left on device; the run has not begun")
    assert said.err.count("\n") == 1
    assert not (shell.folder / "out" / "failed").exists()
    with ends_after(1):
        shell.succeeds(*COMPARE, "--labels", "9", "--out", "out")


@pytest.fixture
def outdated(going_on: Shell) -> Shell:
    """The finished run had seven views, which is no longer what one would be made with."""
    finished, record = going_on.folder / "out" / "finished" / RUN_FILE, going_on.folder / "record.json"
    for path, runs in ((finished, lambda it: [it]), (record, lambda it: it["runs"])):
        content = read_sealed(path)
        for run in runs(content):
            run["experiment"]["method"]["n_views"] = 7
        write_sealed(path, content)
    return going_on


def test_finished_runs_with_settings_that_are_no_longer_the_default_are_told(outdated: Shell) -> None:
    with ends_after(0):
        said = outdated.succeeds(*WHOLE)
    assert "supervised: earlier runs had other settings than new ones will have: method.n_views is 7" in said.err
    assert "--again" in said.err
    assert [run["experiment"]["method"]["n_views"] for run in read_sealed(outdated.folder / "record.json")["runs"]] == [
        7
    ]


def test_such_runs_are_made_again_when_asked_for_and_the_old_ones_are_kept(outdated: Shell) -> None:
    with ends_after(1):
        said = outdated.succeeds(*WHOLE, "--again")
    assert "set aside in out/earlier" in said.err
    with ends_after(0):
        assert "other settings" not in outdated.succeeds(*WHOLE).err
    (made,) = read_sealed(outdated.folder / "record.json")["runs"]
    (earlier,) = (outdated.folder / "out" / "earlier").glob("*.json")
    assert earlier.with_suffix("").is_dir()
    old = read_sealed(earlier)
    assert (made["method"], old["method"]) == ("supervised", "supervised")
    assert (made["experiment"]["method"]["n_views"], old["experiment"]["method"]["n_views"]) == (2, 7)
    assert made["origin"]["date"] >= old["origin"]["date"]


@pytest.fixture
def begun_otherwise(going_on: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """The run has a checkpoint but no result yet, and made anew it would have five views."""
    out = going_on.folder / "out"
    for path in (out / "finished" / RUN_FILE, going_on.folder / "record.json", out / RUN / "final.json"):
        path.unlink()
    fit = fit_method
    monkeypatch.setattr(
        "laplacenet.experiments.compare.workbench.fit_method",
        lambda task, settings: override_task(fit(task, settings), "method.n_views=5"),
    )
    return going_on


def override_task(task: Task, setting: str) -> Task:
    return replace(task, experiment=override(task.experiment, [setting]))


def test_a_run_that_began_with_other_settings_keeps_them_and_that_is_told(begun_otherwise: Shell) -> None:
    with ends_after(1):
        said = begun_otherwise.succeeds(*WHOLE)
    assert (
        "supervised: earlier runs had other settings than new ones will have: method.n_views is 2, here 5" in said.err
    )
    (made,) = read_sealed(begun_otherwise.folder / "record.json")["runs"]
    assert made["experiment"]["method"]["n_views"] == 2


def test_a_run_that_began_with_other_settings_is_begun_again_when_asked_for(begun_otherwise: Shell) -> None:
    with ends_after(1):
        said = begun_otherwise.succeeds(*WHOLE, "--again")
    assert "set aside" in said.err
    (made,) = read_sealed(begun_otherwise.folder / "record.json")["runs"]
    assert made["experiment"]["method"]["n_views"] == 5
    (earlier,) = (begun_otherwise.folder / "out" / "earlier").iterdir()
    assert (earlier / "experiment.json").is_file()


def test_a_command_that_makes_no_run_leaves_the_records_own_command(going_on: Shell) -> None:
    record = going_on.folder / "record.json"
    before = read_sealed(record)
    with ends_after(0):
        going_on.succeeds(*WHOLE, "--limit", "60s")
    after = read_sealed(record)
    assert {name: after[name] for name in ("command", "date")} == {name: before[name] for name in ("command", "date")}


def test_a_threshold_out_of_reach_is_told_before_the_runs(shell: Shell) -> None:
    command = "compare digits --methods fixmatch,supervised --labels 40 --steps 2 --out out --device cpu --model 13-cnn"
    command += " --set model.unit_length=true --set train.weight_decay=0.05"
    with ends_after(0), pytest.MonkeyPatch.context() as patch:
        patch.setattr("laplacenet.experiments.task.require_trainable", lambda *_, **__: None)  # digits have 8 pixels
        said = shell.succeeds(*command.split())
    assert "warning: fixmatch: method.threshold = 0.95 can hardly be reached" in said.err
    assert "supervised: method" not in said.err
