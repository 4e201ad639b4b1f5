"""What a user may get wrong in the first ten minutes: one line each, exit code 2, and what would be accepted."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from PIL import Image
from references_cli import Shell
from references_runs import write_bars

from laplacenet.cli.app import app

TINY = ("--set", "train.steps=2", "--set", "train.batch_size=24", "--set", "train.labeled_batch_size=4")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    write_bars(tmp_path / "bars.npz")
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 and no more")
    (tmp_path / "empty").mkdir()
    (tmp_path / "compared").mkdir()
    (tmp_path / "compared" / "comparison.json").write_text("{}")
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "experiment.json").write_text("{}")
    (tmp_path / "0").touch()
    (tmp_path / "rows.txt").write_text("0\n1\n99999\n")
    (tmp_path / "names.csv").write_text("file,label\na.png,cat\n")
    (tmp_path / "half_written.py").write_text("class Foo:\n    def method(self\n")
    (tmp_path / "failing.py").write_text("n = 0\nprint(1 / n)\n")
    (tmp_path / "note.pdf").write_text("no split")
    np.savez(tmp_path / "splits.npz", first=np.array([0, 1, 2]), second=np.array([3, 4, 5]))
    return Shell(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("report empty", "empty: neither a run folder nor a folder of records"),
        ("report compared", "compared: a comparison of laplacenet compare, whose table is comparison.md there"),
        ("report --results empty --out begun", "--out begun: is the folder of a run"),
        ("lable empty", "No such command 'lable'. Did you mean 'label'? See laplacenet --help"),
        ("label empty --features no.onnx", "error: --features no.onnx: no such file"),
        ("train cifar11", "choose one of cifar10, cifar100, mini-imagenet, digits, two-moons"),
        ("train no/such/folder", "no data set, folder or file called"),
        ("train empty", "no pictures"),
        ("train broken.npz", "broken.npz: not a readable .npz file"),
        ("train cifar10", "--data-dir, or fetch it with: laplacenet data cifar10 --download --data-dir data"),
        ("train cifar10 --data-dir nowhere", "--data-dir nowhere: no such folder"),
        ("train digits --labels 41", "--labels 41: 41 labels cannot be shared equally by 10 classes"),
        ("train digits --labels 5000", "--labels 5000: 5000 labels are 500 for each class"),
        ("train digits --labels 0", "--labels 0: give at least one label"),
        ("train digits --labels -10", "--labels -10: give at least one label"),
        ("compare digits --steps 0", "Invalid value for '--steps'"),
        ("train digits --labels forty", "--labels forty: no such file; give a number"),
        ("train digits --labels rows.txt", "rows.txt"),
        ("train digits --labels names.csv", "names.csv"),
        ("train digits --labels note.pdf", "a split is read from a .npz, .txt or .csv file"),
        ("train digits --labels splits.npz", "its 2 keys are first, second"),
        ("train digits --labels splits.npz --split-key third", "no split 'third'"),
        ("train digits --labels 40 --split-key first", "--labels is a number"),
        ("train digits --split-key first", "give the file with --labels"),
        ("train digits --model 13cnn", "unknown model '13cnn'; choose one of 13-cnn, wrn-28-2"),
        ("train digits --model 13-cnn", "shape 1×8×8; choose --model small-cnn (from 2 px), patch-cnn (from 8 px)"),
        ("train digits --model mlp", "model mlp cannot read inputs of shape 1×8×8; choose --model small-cnn"),
        ("train two-moons --model small-cnn", "shape 2; choose --model mlp"),
        ("train digits --preset cifar", "unknown preset 'cifar'; choose one of digits"),
        ("train digits --preset two-moons", "is for vectors, and digits holds pictures; choose digits or pictures"),
        ("train digits --preset cifar10", "model 13-cnn cannot read inputs of shape 1×8×8"),
        ("train digits --recipe digits", "--recipe"),
        ("train digits --set train.step=5", "unknown field 'step'; choose one of steps"),
        ("train digits --set steps=5", "unknown field 'steps'; write train.steps"),
        ("train digits --method fixmatch --set threshold=0.5", "unknown field 'threshold'; write method.threshold"),
        ("train digits --set speed=5", "unknown field 'speed'; choose one of name, seed"),
        ("train digits --set method.unit_length=1", "unknown field 'unit_length'; choose one of name, n_views, mixup"),
        ("train digits --method uda --set method.name=fixmatch", "method.name cannot be set this way; use --method"),
        ("train digits --method half_written:Foo", "half_written.py, line 2: '(' was never closed"),
        ("train digits --method failing:Foo", "failing.py, line 2: ZeroDivisionError: division by zero"),
        ("reproduce table-3 --row LaplaceNet --set method.name=uda", "cannot be set this way; use --row"),
        ("reproduce table-3 --row LaplaceNet --set train.steps=9", "cannot be set this way; use --steps"),
        ("compare digits --methods half_written:Foo --steps 1", "half_written.py, line 2: '(' was never closed"),
        ("train digits --set train.steps", "write section.field=value"),
        ("train digits --set train.steps=-5", "must be at least 1"),
        ("train digits --set augment.pad=8", "augment.pad = 8, but the images are 8×8"),
        ("train digits --set train.small_share=2", "train.small_share = 2.0; it must lie between 0 and 1"),
        ("train digits --set train.small_scale=0", "train.small_scale = 0.0; it must lie above 0 and be at most 1"),
        (
            "train digits --set train.small_share=0.5 --set train.small_scale=0.1",
            "shape 1×1×1; choose a train.small_scale above 0.1, or --model small-cnn (from 2 px)",
        ),
        ("train two-moons --set train.optimizer=muon", "mlp has none, or uses weight norm; choose sgd or"),
        ("train digits --set train.weight_decay=1e38", "train.weight_decay = 1e+38; it must lie between 0 and 1e+37"),
        ("reproduce figure-2 --splits 0-9999999999", "--splits 0-9999999999: give numbers up to 9999"),
        ("reproduce table-3 --splits 99999", "--splits 99999: give numbers up to 9999"),
        ("reproduce figure-2 --results bars.npz", "--results bars.npz: is not a folder"),
        ("reproduce --list --results bars.npz", "bars.npz: no such folder; --results names the one that holds"),
        ("train two-moons --set method.cutmix_share=0.5", "method.cutmix_share: only pictures have parts to paste"),
        ("train digits --set method.cutmix_share=2", "method.cutmix_share = 2.0; it must lie between 0 and 1"),
        ("train two-moons --set train.small_share=0.5", "only pictures can be shrunk; leave it out for vectors"),
        ("train digits --device gpu", "unknown device 'gpu'; choose auto, cpu, cuda or cuda:N"),
        ("train digits --seed one", "--seed"),
        ("train digits --for ever", "--for ever: give a time such as 90s, 9m or 2h"),
        ("train digits --checkpoint-every 0", "--checkpoint-every 0: give a time such as 90s, 9m or 2h"),
        ("train digits --checkpoint-every often", "--checkpoint-every often: give a time"),
        ("reproduce table-3 --checkpoint-every -1s", "--checkpoint-every -1s: give a time"),
        ("train digits --out bars.npz", "is a file; name a folder"),
        ("train digits --out .", "holds other files; choose another --out"),
        ("train digits --out . --overwrite", "not a run folder, so --overwrite leaves it alone"),
        ("train --resume nowhere", "nowhere: not a run folder"),
        ("train --resume empty", "empty: not a run folder"),
        ("train --speed fast", "; see laplacenet train --help"),
        ("trian", "trian"),
        ("evaluate nowhere", "nowhere: not a run folder"),
        ("evaluate", "run"),
        ("predict nowhere picture.png", "nowhere: not a run folder"),
        ("predict begun", "pictures"),
        ("data cifar11", "choose one of cifar10"),
        ("data broken.npz", "broken.npz"),
        ("data digits --size 16", "only the images of a folder"),
        ("demo --seeds 0", "--seeds"),
        ("demo --set method.name=uda", "use laplacenet train --method"),
        ("demo --set train.lr=fast", "'fast' is not a number"),
        ("reproduce table-99", "table-99"),
    ],
)
def test_a_mistake_is_answered_in_one_line(shell: Shell, arguments: str, said: str) -> None:
    assert said in shell.fails(*arguments.split())
    assert not (shell.folder / "runs").exists()


FRESH = {
    "train": "data --labels --split-key --model --pretrained --method --preset --set --seed --out --overwrite --strict",
    "label": "pictures --labels --merge-classes --out --test --features --weights --size --model --no-flip --steps"
    " --batch --prior --no-suspects --set --seed --strict --overwrite",
}
BESIDE_RESUME = {
    "train": "--resume --device --compile --data-dir --download --for --checkpoint-every --judge-every --profile",
    "label": "--resume --device --for --checkpoint-every",
}
OF_FRESH_RUNS = [(command, name) for command, names in FRESH.items() for name in names.split()]


@pytest.mark.parametrize(("command", "name"), OF_FRESH_RUNS)
def test_a_setting_of_a_fresh_run_is_refused_by_name_beside_resume(shell: Shell, command: str, name: str) -> None:
    (parameter,) = (one for one in parameters(command) if name in (*one.opts, *one.secondary_opts))
    given = [] if parameter.param_type_name == "argument" else [name]
    value = {"--model": "mlp", "--method": "uda", "--preset": "digits"}.get(name, "0")  # a default counts too
    given += [] if getattr(parameter, "is_flag", False) else [value]
    said = shell.fails(command, "--resume", "begun", *given)
    assert said == f"error: --resume takes all settings from its run folder; leave out {name}"


@pytest.mark.parametrize("command", FRESH)
def test_every_option_either_goes_with_resume_or_is_refused(command: str) -> None:
    known = {*FRESH[command].split(), *BESIDE_RESUME[command].split()}
    assert {(one.secondary_opts or one.opts)[0] for one in parameters(command)} == known


def test_what_is_no_setting_goes_with_resume(shell: Shell) -> None:
    words = "--device cpu --compile --data-dir empty --download --for 9m --checkpoint-every 9m"
    words += " --judge-every 2 --profile"
    assert "empty: not a run folder" in shell.fails("train", "--resume", "empty", *words.split())
    assert "empty: not a run folder" in shell.fails("label", "--resume", "empty", "--device", "cpu", "--for", "9m")


def parameters(command: str) -> list[Any]:
    return list(typer.main.get_command(app).commands[command].params)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_said_before_any_work(shell: Shell) -> None:
    assert "this machine has no CUDA device; choose auto or cpu" in shell.fails("train", "digits", "--device", "cuda")


def test_without_a_command_the_help_is_shown(shell: Shell) -> None:
    assert "laplacenet demo" in shell.succeeds().out


def test_a_run_is_not_overwritten_unless_told_to(shell: Shell) -> None:
    command = ("train", "bars.npz", "--labels", "9", "--out", "run", *TINY)
    shell.succeeds(*command)
    assert "run: exists already" in shell.fails(*command)
    shell.succeeds(*command, "--overwrite")
    assert "finished; there is nothing to resume" in shell.fails("train", "--resume", "run")


def test_a_prior_for_other_classes_is_refused_before_a_run_is_overwritten(shell: Shell) -> None:
    command = ("train", "bars.npz", "--labels", "9", "--out", "run", *TINY)
    shell.succeeds(*command)
    said = shell.fails(*command, "--set", "graph.prior=0.5,0.5", "--overwrite")
    assert "graph.prior has 2 entries; give one for each of the 3 classes" in said
    assert (shell.folder / "run" / "final.json").is_file()
    labels = ("--method", "supervised", "--set", "graph.prior=0.5,0.5", "--overwrite")
    shell.succeeds(*command, *labels)  # it looks at no graph, and such runs of earlier versions must stay usable
    shell.succeeds("evaluate", "run")


def test_a_run_folder_may_have_the_name_of_its_data_set(shell: Shell) -> None:
    command = ("train", "digits", "--labels", "40", "--out", "digits", *TINY, "--set", "train.batch_size=24")
    command = (*command, "--set", "train.labeled_batch_size=10", "--model", "small-cnn")
    shell.succeeds(*command)
    shell.succeeds(*command, "--overwrite")


def test_options_of_the_papers_report_are_refused_for_a_run(shell: Shell) -> None:
    shell.succeeds("train", "bars.npz", "--labels", "9", "--out", "run", *TINY)
    assert "--out is for the report on the paper" in shell.fails("report", "run", "--out", "elsewhere")
    assert "curves.png" in shell.succeeds("report", "run").out


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("demo.png", "demo --out . --set train.steps=2"),
        ("methods.md", "methods --pages . --records empty"),
        ("methods/uda.md", "methods --pages . --records empty"),
        ("figure-2/figure-2.png", "reproduce figure-2 --results ."),
        ("figure-2/figure-2.svg", "reproduce figure-2 --results ."),
    ],
)
def test_a_file_that_the_command_did_not_write_is_not_replaced(shell: Shell, name: str, arguments: str) -> None:
    path = shell.folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    assert f"{path.name}" in shell.fails(*arguments.split())
    assert path.read_text() == "mine"


def test_a_picture_among_pages_that_the_command_did_not_make_is_not_replaced(shell: Shell) -> None:
    records = Path(__file__).parents[2] / "results" / "methods"
    picture = shell.folder / "pages" / "methods" / "digits.png"
    picture.parent.mkdir(parents=True)
    picture.write_text("mine")
    assert "digits.png was not made by this command" in shell.fails(
        "methods", "--pages", "pages", "--records", str(records)
    )
    assert [*picture.parent.iterdir()] == [picture]
    assert picture.read_text() == "mine"


def test_a_page_that_is_no_file_is_refused(shell: Shell) -> None:
    (shell.folder / "methods.md").mkdir()
    assert "methods.md was not made by this command" in shell.fails("methods", "--pages", ".", "--records", "empty")
    (shell.folder / "methods.md").rmdir()
    (shell.folder / "methods.md").symlink_to("nowhere")
    assert "methods.md was not made by this command" in shell.fails("methods", "--pages", ".", "--records", "empty")


def test_the_demo_knows_its_picture_by_any_of_its_runs(shell: Shell) -> None:
    (shell.folder / "laplacenet-0").mkdir()
    (shell.folder / "demo.png").write_text("mine")
    assert "demo.png: there is no run of demo beside it; move it away" in shell.fails("demo", "--out", ".")
    (shell.folder / "supervised-0").mkdir()
    (shell.folder / "supervised-0" / "experiment.json").write_text("{}")
    assert "error: supervised-0/experiment.json" in shell("demo", "--out", ".", "--set", "train.steps=4").err


def test_the_record_of_the_demo_lies_in_none_of_its_runs(shell: Shell) -> None:
    said = shell.fails("demo", "--out", "runs", "--record", "runs/laplacenet-0/final.json")
    assert "--record runs/laplacenet-0/final.json: lies in a run folder" in said
    assert not (shell.folder / "runs").exists()
    assert "--record empty: is a folder" in shell.fails("demo", "--record", "empty")
    assert "--record empty: is a folder" in shell.fails("demo", "--out", "empty", "--record", "empty")
    shell.succeeds("demo", "--out", "empty", "--record", "empty/laplacenet-and-labels.json", "--set", "train.steps=2")


def test_a_record_of_the_demo_that_cannot_be_written_is_refused_before_training(shell: Shell) -> None:
    (shell.folder / "file").touch()
    assert "--record file/x.json: cannot be written" in shell.fails("demo", "--record", "file/x.json")
    assert not (shell.folder / "runs").exists()


def test_an_unfinished_run_has_no_model_to_judge_or_use(shell: Shell) -> None:
    said = shell.runs_out_of_time("train", "bars.npz", "--labels", "9", "--out", "run", "--for", "0.000001s", *TINY)
    assert said.err.splitlines()[-1].startswith("time is up at step 0 of 2; go on with: laplacenet train --resume")
    assert "model.json" in shell.fails("evaluate", "run")
    assert "model.json" in shell.fails("predict", "run", "bars.npz")


def test_pictures_that_cannot_be_used_are_refused_by_name(shell: Shell) -> None:
    shell.succeeds("train", "bars.npz", "--labels", "9", "--out", "run", *TINY)
    np.savez(shell.folder / "wide.npz", images=np.zeros((2, 8, 9), dtype=np.uint8))
    Image.new("L", (8, 8)).save(shell.folder / "fine.png")
    (shell.folder / "torn.png").write_bytes(b"\x89PNG\r\n")
    assert "no-such.png: no such file or folder" in shell.fails("predict", "run", "fine.png", "no-such.png")
    assert "torn.png: not a picture" in shell.fails("predict", "run", "torn.png")
    assert "empty: no pictures" in shell.fails("predict", "run", "empty")
    assert "wide.npz: its images are 1×8×9" in shell.fails("predict", "run", "wide.npz")
    assert "ends in .csv or .jsonl" in shell.fails("predict", "run", "fine.png", "--out", "labels.xml")
    assert "cannot be written" in shell.fails("predict", "run", "fine.png", "--out", "no/such/labels.csv")


def test_a_run_whose_data_went_away_names_them_and_can_be_told_where_they_are(shell: Shell) -> None:
    shell.succeeds("train", "bars.npz", "--labels", "9", "--out", "run", *TINY)
    before = shell.succeeds("evaluate", "run").out
    (shell.folder / "bars.npz").rename(shell.folder / "empty" / "bars.npz")
    assert "bars.npz" in shell.fails("evaluate", "run")
    assert "nowhere: no such folder" in shell.fails("evaluate", "run", "--data-dir", "nowhere")
    assert shell.succeeds("evaluate", "run", "--data-dir", "empty").out == before


def test_a_run_that_diverges_ends_with_1_and_one_line(shell: Shell) -> None:
    said = shell("train", "bars.npz", "--labels", "9", *TINY, "--set", "train.lr=1e30")
    assert said.code == 1
    assert said.err.strip().splitlines()[-1].startswith("error: the loss became")
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    "arguments",
    [
        "train itself",
        "train itself.npz",
        "train bars.npz --labels itself.txt",
        "label itself --labels names.csv",
        "label itself.npz",
        "label empty --labels itself.csv",
        "predict itself bars.npz",
        "data itself",
        "report itself",
        "next itself",
        "evaluate itself",
    ],
)
def test_a_link_to_itself_is_refused_in_one_line(shell: Shell, arguments: str) -> None:
    for name in ("itself", "itself.npz", "itself.txt", "itself.csv"):
        (shell.folder / name).symlink_to(shell.folder / name)
    assert "itself" in shell.fails(*arguments.split())


@pytest.mark.parametrize(
    ("arguments", "after"),
    [
        (["train", "", "--labels", "40"], "train"),
        (["label", "empty", "--out", ""], "--out"),
        (["label", "empty", "--out="], "--out="),
        ([""], "laplacenet"),
    ],
)
def test_an_empty_argument_is_not_this_folder(shell: Shell, arguments: list[str], after: str) -> None:
    assert f"error: nothing is given after {after}; is a variable of the shell not set?" in shell.fails(*arguments)
