"""The commands as a new user meets them: they do what they say, and their help's examples work."""

import csv
import json
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from references_cli import Shell, on_a_terminal
from references_docs import ROOT
from references_runs import N_TEST, N_TRAIN, write_bars

import laplacenet
from laplacenet.cli import options
from laplacenet.cli.export import FORMATS as EXPORTED_FORMATS
from laplacenet.cli.reproduce import RECIPES as REPRODUCIBLE
from laplacenet.data import DATASET_NAMES
from laplacenet.experiments import Task, read_epochs, read_experiment, read_outcome
from laplacenet.experiments.paper.recipes import RECIPES
from laplacenet.experiments.presets import PRESETS
from laplacenet.models.build import MODELS
from laplacenet.models.export import FORMATS
from laplacenet.runtime import InputError, RunFolder
from laplacenet.runtime.peers import advice_at_interruption, forget_advice
from laplacenet.training import Execution
from laplacenet.training.checkpoint import Snapshot, write_checkpoint
from laplacenet.training.methods import METHODS
from laplacenet.training.methods.presets import METHOD_PRESETS

TINY = ("--set", "train.steps=6", "--set", "train.batch_size=24", "--set", "train.labeled_batch_size=4")
COMMANDS = ("demo", "train", "evaluate", "predict", "data", "reproduce")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    write_bars(tmp_path / "bars.npz")
    return Shell(tmp_path, monkeypatch, capsys)


def test_the_version_is_said(shell: Shell) -> None:
    assert shell.succeeds("--version").out == f"laplacenet {laplacenet.__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(shell: Shell, command: str) -> None:
    assert examples(shell.succeeds(command, "--help").out)


def test_the_list_of_commands_has_whole_sentences(shell: Shell) -> None:
    said = shell.succeeds("--help").out
    assert "..." not in said.partition("Try it")[2]
    assert "the first one writes" not in said  # one sentence each


def test_the_help_names_every_network_and_every_preset(shell: Shell) -> None:
    said = shell.succeeds("train", "--help").out
    said = re.sub(r"-\s+", "-", said)  # a name may be broken at the end of a line
    assert all(re.search(rf"\b{name}\b", said) for name in (*MODELS, *PRESETS))


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys; sys.argv = ['laplacenet', 'train', '--help']; from laplacenet.cli import main\n"
    code += "try: main()\nfinally: print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "False"


def test_a_crash_in_compiled_code_says_where_it_happened() -> None:
    code = "import ctypes, sys\nfrom laplacenet.cli.app import app, main\n"
    code += "@app.command()\ndef crash() -> None: ctypes.string_at(0)\n"
    code += "sys.argv = ['laplacenet', 'crash']; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGSEGV
    assert "Segmentation fault" in done.stderr
    assert "in crash" in done.stderr


def test_names_that_are_checked_before_torch_is_there_are_those_that_exist() -> None:
    assert options.MODELS == MODELS
    assert (*PRESETS, *METHOD_PRESETS) == options.PRESETS
    assert ("figure-2", *RECIPES, "all") == REPRODUCIBLE
    assert tuple(METHODS) == options.METHODS
    assert DATASET_NAMES == options.DATASETS
    assert FORMATS == EXPORTED_FORMATS


def test_wrong_arguments_are_answered_before_torch_is_imported() -> None:
    commands = [
        ["train", "digits", "--preset", "digitz"],
        ["train", "digits", "--model", "13cnn"],
        ["train", "digits", "--method", "fixmatsh"],
        ["compare", "digits", "--methods", "uda,fixmatsh"],
        ["train", "cifar11"],
        ["data", "digitz"],
        ["export", "nowhere", "--format", "onyx"],
        ["train", "nowhere/pictures"],
        ["reproduce", "table-33"],
        ["reproduce", "table-3", "--splits", "a"],
        ["review", "nowhere"],
        ["report", "nowhere"],
        ["embed", "nowhere", "--out", "x.npz"],
        ["predict", "nowhere", "nowhere"],
        ["label", "nowhere"],
    ]
    code = "import sys; from laplacenet.cli.app import app, explain\n"
    code += f"for words in {commands}:\n"
    code += "    try: app(words, standalone_mode=False)\n    except Exception as error: print(explain(error))\n"
    code += "print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2"] * len(commands) + ["False"], done.stderr


def test_a_profile_says_where_the_time_went(shell: Shell) -> None:
    said = shell.succeeds("train", "bars.npz", "--labels", "9", "--profile", "--out", "runs/timed", *TINY)
    found = json.loads((shell.folder / "runs/timed/profile.json").read_text())
    assert {"importing", "reading", "hashing", "first checkpoint"} <= found["start"].keys()
    assert {"first block", "steps", "judging", "saving"} <= found["epoch"].keys()
    assert {"last judgments", "outcome", "curves"} <= found["end"].keys()
    assert found["total_s"] == pytest.approx(sum(seconds for _, seconds in found["marks"]))
    assert said.out.index("test error") < said.out.index("beside the steps of an epoch")


def test_training_ends_with_the_error_and_where_things_are(shell: Shell) -> None:
    said = shell.succeeds("train", "bars.npz", "--labels", "9", "--seed", "4", *TINY)
    folder = RunFolder.open(shell.folder / "runs" / "bars-4")
    outcome = read_outcome(folder)
    assert f"test error     {100 * outcome.test_error:.2f} %" in said.out
    assert "run folder     runs/bars-4" in said.out
    assert "bars  6/6  loss" in said.err
    assert (folder.path / "curves.png").read_bytes().startswith(b"\x89PNG")
    page = (ROOT / "docs/reproducing.md").read_text(encoding="utf-8").partition("## The run folder")[2]
    named = re.findall(r"`([\w.]+)`", "".join(re.findall(r"^\| (`.*?) \|", page, re.M)))
    assert len(named) == 8
    assert all((folder.path / name).exists() for name in named)
    experiment = read_experiment(folder)
    assert (experiment.seed, experiment.data.n_labeled, experiment.train.steps) == (4, 9, 6)
    assert Path(experiment.data.name).is_absolute()


def test_without_out_a_second_run_takes_the_next_free_name(shell: Shell) -> None:
    for _ in range(2):
        shell.succeeds("train", "bars.npz", "--labels", "9", *TINY)
    assert sorted(path.name for path in (shell.folder / "runs").iterdir()) == ["bars-0", "bars-0-2"]


def test_a_run_folder_alone_is_enough_to_judge_it_again(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = shell.succeeds("train", "bars.npz", "--labels", "9", "--out", "run", *TINY)
    (shell.folder / "elsewhere").mkdir()
    monkeypatch.chdir(shell.folder / "elsewhere")
    judged = shell.succeeds("evaluate", "../run")
    test_error, invariance = (
        re.search(rf"^{name} +([\d.]+ %)", judged.out, re.M) for name in ("test error", "invariance")
    )
    assert f"test error     {test_error[1]}" in trained.out
    assert f"invariance     {invariance[1]}" in trained.out
    assert len(re.findall(r"^  \d +[\d.]+ %$", judged.out, re.M)) == 3
    weaker = read_outcome(RunFolder.open(shell.folder / "run")).test_invariance_as_labeled
    assert f"({100 * weaker:.2f} % under the weaker views of labeled images)" in judged.out


def test_judging_says_how_far_it_is(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.succeeds("train", "bars.npz", "--labels", "9", "--out", "run", *TINY)
    monkeypatch.setattr("laplacenet.cli.progress.LINE_EVERY_S", 0.0)
    said = shell.succeeds("evaluate", "run")
    counts = [int(count) for count in re.findall(r"^evaluating  (\d+)$", said.err, re.M)]
    assert counts == sorted(set(counts))
    assert counts[-1] == 2 * N_TRAIN + 3 * N_TEST  # as they are and in views; of test pictures in two kinds of views
    seen, _ = on_a_terminal(shell.folder, "evaluate", "run")
    assert f"{counts[-1]}/?" in seen
    assert seen.endswith(said.out)


def test_a_run_stopped_by_its_time_limit_goes_on_with_resume(shell: Shell) -> None:
    stopped = shell.runs_out_of_time("train", "bars.npz", "--labels", "9", "--out", "run", "--for", "0.000001s", *TINY)
    assert "go on with: laplacenet train --resume run" in stopped.err
    shell.succeeds("train", "--resume", "run")
    unbroken = shell.succeeds("train", "bars.npz", "--labels", "9", "--out", "unbroken", *TINY)
    assert unbroken.out
    models = [(shell.folder / name / "model.safetensors").read_bytes() for name in ("run", "unbroken")]
    assert models[0] == models[1]


def test_pictures_to_train_on_are_not_read_beyond_the_time_limit(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for row in range(30):
        path = shell.folder / "photos" / f"class {row % 2}" / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), color=(200 * (row % 2), row, 0)).save(path)
    monkeypatch.setattr("laplacenet.runtime.monitor.LEAST_READING_S", 0.0)
    said = shell.runs_out_of_time("train", "photos", "--out", "run", "--for", "0.000001s", *TINY)
    assert "pictures have been read, nothing has been trained; go on with: the same command and a longer" in said.err
    assert not (shell.folder / "run").exists()


def test_checkpoints_come_as_often_as_asked_and_change_no_result(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[int] = []

    def save(folder: Path, snapshot: Snapshot, **rest: Any) -> None:
        saved.append(snapshot.position.step)
        write_checkpoint(folder, snapshot, **rest)

    monkeypatch.setattr("laplacenet.training.session.write_checkpoint", save)
    command = ("train", "bars.npz", "--labels", "9", *TINY)
    shell.succeeds(*command, "--out", "seldom")
    assert saved == [0, 6]
    saved.clear()
    shell.runs_out_of_time(*command, "--out", "often", "--checkpoint-every", "0.000001s", "--for", "0.000001s")
    shell.succeeds("train", "--resume", "often", "--checkpoint-every", "0.000001s")
    assert saved[-6:] == [1, 2, 3, 4, 5, 6]
    models = [(shell.folder / name / "model.safetensors").read_bytes() for name in ("seldom", "often")]
    assert models[0] == models[1]


@pytest.mark.parametrize(
    ("options", "every"), [("", 1), ("--preset digits", 1), ("--preset fast", 10), ("--preset fast --judge-every 2", 2)]
)
def test_the_preset_fast_is_judged_after_every_tenth_epoch_unless_told_otherwise(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, options: str, every: int
) -> None:
    seen: list[int] = []

    def run(*_: Any, execution: Execution, **__: Any) -> None:
        seen.append(execution.judge_every)
        raise InputError("far enough")

    monkeypatch.setattr("laplacenet.cli.training.run_session", run)
    said = shell("train", "bars.npz", "--labels", "9", "--out", "run", "--model", "small-cnn", *options.split())
    assert "far enough" in said.err
    assert seen == [every]


def test_an_interruption_while_the_result_is_shown_says_that_the_run_is_finished(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("laplacenet.cli.session.outcome_lines", interrupted)
    forget_advice()
    assert shell("train", "bars.npz", "--labels", "9", *TINY, "--out", "run").code == 130
    assert advice_at_interruption() == "the run is finished all the same"
    forget_advice()


def test_a_reader_who_has_left_before_the_result_is_no_error(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object, **__: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("laplacenet.cli.session.say", closed)
    said = shell("train", "bars.npz", "--labels", "9", *TINY, "--out", "run")
    assert said.code == 0
    assert "error" not in said.err.replace("test error", "")


def test_a_resumed_run_is_judged_as_often_as_it_began(shell: Shell) -> None:
    tested = []
    for name, stops in (("whole", False), ("resumed", True)):
        command = ("train", "bars.npz", "--labels", "9", *TINY, "--judge-every", "2", "--out", name)
        if stops:
            shell.runs_out_of_time(*command, "--checkpoint-every", "0.000001s", "--for", "0.000001s")
            shell.succeeds("train", "--resume", name)
        else:
            shell.succeeds(*command)
        lines = (shell.folder / name / "epochs.jsonl").read_text().splitlines()
        epochs = {epoch["epoch"]: epoch["test_error"] for epoch in map(json.loads, lines)}
        tested.append([number for number, error in epochs.items() if error is not None])
        assert len(tested[-1]) < len(epochs)
    assert tested[0] == tested[1]


def test_an_average_is_fitted_to_a_short_run_and_that_is_said_whether_or_not_the_method_is_named(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    decays: list[float] = []

    def run(task: Task, *_: Any, **__: Any) -> None:
        decays.append(vars(task.experiment.method)["ema_decay"])
        raise InputError("far enough")

    monkeypatch.setattr("laplacenet.cli.training.run_session", run)
    short = ("train", "bars.npz", "--preset", "fast", "--model", "small-cnn", "--set", "train.steps=500")
    fitted = "method.ema_decay is 0.9, not 0.99, to suit this run; --set method.ema_decay overrides it"
    for words in ((), ("--method", "laplacenet")):
        assert shell(*short, *words).err.splitlines() == [fitted, "error: far enough"]
    assert shell.fails(*short, "--set", "method.ema_decay=0.99") == "error: far enough"
    assert decays == [0.9, 0.9, 0.99]


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_run_with_a_checkpoint_and_the_command_that_resumes(
    shell: Shell, sent: signal.Signals, code: int
) -> None:
    command = [sys.executable, "-m", "laplacenet", "train", "bars.npz", "--labels", "9", "--out", "run"]
    long = ["--set", "train.steps=100000", "--set", "train.batch_size=12", "--set", "train.labeled_batch_size=4"]
    process = subprocess.Popen([*command, *long], stderr=subprocess.PIPE, text=True, cwd=shell.folder)
    folder = RunFolder(shell.folder / "run")
    waits_until = time.monotonic() + 600
    while not folder.epochs() and process.poll() is None and time.monotonic() < waits_until:
        time.sleep(0.05)
    assert folder.epochs()
    process.send_signal(sent)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in said
    assert "go on with: laplacenet train --resume run" in said
    manifest = json.loads((folder.checkpoint / "manifest.json").read_text())
    assert manifest["step"] == read_epochs(folder)[-1].step > 0


@pytest.mark.parametrize("content", ["0\n1\n2\n5\n", "index\n0\n1\n2\n5\n", "index,why\n0,a\n1,b\n2,c\n5,d\n"])
def test_labels_may_be_row_numbers_in_a_csv_file(shell: Shell, content: str) -> None:
    (shell.folder / "rows.csv").write_text(content)
    shell.succeeds("train", "bars.npz", "--labels", "rows.csv", "--out", "run", *TINY)
    assert read_outcome(RunFolder.open(shell.folder / "run")).n_labeled == 4


def test_predictions_are_a_table_of_files_labels_and_confidences(shell: Shell) -> None:
    shell.succeeds("train", "bars.npz", "--labels", "9", "--out", "run", *TINY)
    pictures = shell.folder / "pictures"
    pictures.mkdir()
    with np.load(shell.folder / "bars.npz") as arrays:
        for i in range(3):
            Image.fromarray(arrays["test_images"][i]).resize((32, 32), Image.Resampling.NEAREST).save(
                pictures / f"{i}.png"
            )
    (pictures / "broken.png").write_bytes(b"not a picture")
    said = shell.succeeds("predict", "run", "pictures")
    rows = list(csv.DictReader(said.out.splitlines()))
    assert [Path(row["path"]).name for row in rows] == ["0.png", "1.png", "2.png"]
    assert all(row["label"] in "012" and 1 / 3 <= float(row["confidence"]) <= 1 for row in rows)
    assert "broken.png: skipped" in said.err
    shell.succeeds("predict", "run", pictures / "1.png", "--out", "one.jsonl")
    (line,) = (shell.folder / "one.jsonl").read_text().splitlines()
    assert json.loads(line)["label"] == rows[1]["label"]


def test_predictions_for_arrays_are_the_networks_own(shell: Shell) -> None:
    shell.succeeds("train", "bars.npz", "--labels", "9", "--out", "run", *TINY)
    with np.load(shell.folder / "bars.npz") as arrays:
        np.savez(shell.folder / "test.npz", images=arrays["test_images"], labels=arrays["test_labels"])
        labels = arrays["test_labels"]
    shell.succeeds("predict", "run", "test.npz", "--out", "found.csv")
    found = [int(row["label"]) for row in csv.DictReader((shell.folder / "found.csv").read_text().splitlines())]
    error = float(np.mean(np.array(found) != labels))
    assert error == pytest.approx(read_outcome(RunFolder.open(shell.folder / "run")).test_error)


def test_the_data_command_counts_classes(shell: Shell) -> None:
    said = shell.succeeds("data", "bars.npz").out
    assert "60 (20 per class)" in said
    assert "8×8" in said


def test_the_demo_compares_both_runs_draws_them_and_does_no_run_twice(shell: Shell) -> None:
    arguments = ("demo", "--out", "demo", "--record", "results/digits.json", "--set", "train.steps=4")
    first = shell.succeeds(*arguments)
    assert re.search(r"LaplaceNet +[\d.]+ %", first.out)
    assert re.search(r"the given labels alone +[\d.]+ %", first.out)
    assert (shell.folder / "demo" / "demo.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads((shell.folder / "results" / "digits.json").read_text())
    (run,) = record["runs"]
    assert record["means"]["laplacenet_test_error"] == {"mean": run["laplacenet"]["test_error"], "std": None}
    assert run["laplacenet"]["n_labeled"] == run["supervised"]["n_labeled"] == 40
    assert run["supervised"]["pseudo_label_accuracy"] is None
    again = shell.succeeds(*arguments)
    assert again.out == first.out
    assert again.err == ""
    assert "other settings" in shell.fails("demo", "--out", "demo", "--set", "train.steps=5")


def examples(help_text: str) -> list[list[str]]:
    """The lines of a help text that call the program, as arguments."""
    lines = [line.strip() for line in help_text.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("laplacenet ")]


def test_the_examples_in_the_help_texts_work(shell: Shell) -> None:
    for name in ("cat/a.jpg", "dog/b.jpg"):
        (shell.folder / "photos" / name).parent.mkdir(parents=True)
        Image.new("RGB", (20, 30), color=(200, 0, 0)).save(shell.folder / "photos" / name)
    for command in ("train", "evaluate", "predict", "data"):
        for arguments in examples(shell.succeeds(command, "--help").out):
            if "--truth" in arguments:  # needs a run of label; tests/cli/test_label_command.py has one
                continue
            if "--resume" in arguments:  # the run of an example before it, which took its two steps
                assert "this run is finished" in shell.fails(*arguments)
                continue
            short = ("--set", "train.steps=2") if command == "train" else ()
            shell.succeeds(*arguments, *short)
    assert (shell.folder / "labels.csv").read_text().startswith("path,label,confidence,margin\ncat/a.jpg,")
