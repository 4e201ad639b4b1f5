"""What reaches a terminal: clean, in any encoding, down a closed pipe; and an answer to a wrong path at once."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import typer
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from references_cli import Shell

from laplacenet.cli import app as ending
from laplacenet.cli import main, output
from laplacenet.cli.app import COMMANDS, app, explain
from laplacenet.cli.output import say
from laplacenet.data import ChannelStatistics
from laplacenet.models import ModelConfig, ModelDescription, save_model
from laplacenet.runtime import Group, InputError, RunError, TimeLimitError

HOSTILE = "\x1b]0;pwned\x07\nwarning: forged\u202e"
EMOJI = "\N{CAT FACE}"


def write_run(folder: Path, *class_names: str) -> None:
    folder.mkdir()
    (folder / "experiment.json").write_text("{}")
    description = ModelDescription(ModelConfig("small-cnn"), (1, 8, 8), class_names, ChannelStatistics((0.5,), (0.2,)))
    save_model(folder, description.build(seed=1), description)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_run(tmp_path / "run", EMOJI, "dog" + HOSTILE)
    (tmp_path / "photos").mkdir()
    for i in range(3):
        Image.new("L", (8, 8), color=i).save(tmp_path / "photos" / f"{i}.png")
    return tmp_path


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def exit_code_of(*words: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["laplacenet", *words])
        with pytest.raises(SystemExit) as ended:
            main()
    return int(ended.value.code or 0)


def test_names_of_files_that_are_skipped_cannot_write_to_the_terminal(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "photos" / f"{HOSTILE}.png").write_bytes(b"no picture")
    said = Shell(folder, monkeypatch, capsys).succeeds("predict", "run", "photos").err
    assert [line for line in said.splitlines() if "forged" in line] == [line for line in said.splitlines() if line]
    assert not set(said) & {"\x1b", "\x07", "\u202e"}


def test_names_of_classes_cannot_write_to_the_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "stdout", Terminal())
    write_run(folder / "hostile", "dog" + HOSTILE, HOSTILE)
    assert exit_code_of("predict", "hostile", "photos") == 0
    seen = sys.stdout.getvalue()  # type: ignore[attr-defined]
    assert not set(seen) & {"\x1b", "\x07", "\u202e"}
    assert seen.count("\\x1b]0;pwned") == 3


def test_output_works_in_any_encoding(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="ascii") for _ in range(2))
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    write_run(folder / "cats", EMOJI, EMOJI + "!")
    assert exit_code_of("predict", "cats", "photos") == 0
    assert exit_code_of("label", f"no-{EMOJI}") == 2
    err.flush()
    assert out.buffer.getvalue().count(b"\\U0001f431") == 3  # type: ignore[attr-defined]
    assert err.buffer.getvalue() == b"error: no-\\U0001f431: no such file or folder\n"  # type: ignore[attr-defined]


@pytest.mark.parametrize("words", ["predict run photos", "--help", "train --help", "--version", "evaluate nowhere"])
def test_a_closed_pipe_ends_a_command_without_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.chdir(folder)
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert exit_code_of(*words.split()) == (2 if "nowhere" in words else 0)


@pytest.mark.parametrize("closed", [(1,), (2,), (1, 2), (0, 1, 2)])
def test_closed_output_leaves_the_exit_code_to_the_work(tmp_path: Path, closed: tuple[int, ...]) -> None:
    """As a shell's `>&-` and `2>&-`, and as services start their programs."""
    code = (
        "import json, os, sys\n"
        "for number in json.loads(sys.argv[1]): os.close(number)\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'laplacenet', *sys.argv[2:]])"
    )
    for words, expected in {"--version": 0, "evaluate nowhere": 2}.items():
        command = [sys.executable, "-c", code, json.dumps(closed), *words.split()]
        done = subprocess.run(command, capture_output=True, cwd=tmp_path, check=False)
        assert done.returncode == expected, words
        assert b"Traceback" not in done.stderr


def test_a_table_for_closed_output_is_made_and_goes_nowhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "__stdout__", None)
    monkeypatch.setattr(sys, "stdout", None)
    try:
        assert exit_code_of("predict", "run", "photos") == 0
    finally:
        if sys.stdout is not None:
            sys.stdout.close()


@given(st.text())
def test_a_message_is_one_line_whatever_is_named_in_it(text: str) -> None:
    written = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", written)
        say(f"in {text}")
    assert written.getvalue().count("\n") == 1
    assert len(written.getvalue().splitlines()) == 1


WRONG = {
    "label nowhere": "nowhere: no such file or folder",
    "label . --labels nowhere.csv": "nowhere.csv: no such file or folder",
    "label . --device tpu": "unknown device 'tpu'",
    "label --resume nowhere": "nowhere: not a run folder",
    "train no/such/folder": "no data set, folder or file called 'no/such/folder'",
    "train --resume nowhere": "nowhere: not a run folder",
    "train digits --for ten": "--for ten: give a time",
    "predict nowhere a.png": "nowhere: not a run folder",
    "predict run nowhere.png": "nowhere.png: no such file or folder",
    "predict run photos --out labels.xml": "give a name that ends in .csv or .jsonl",
    "predict run photos --out photos/0.png": "give a name that ends in .csv or .jsonl",
    "next nowhere": "nowhere: not a run folder",
    "export nowhere": "nowhere: not a run folder",
    "evaluate nowhere": "nowhere: not a run folder",
    "data no/such/folder": "no data set, folder or file called 'no/such/folder'",
}


def test_a_wrong_path_or_argument_is_answered_without_importing_torch(folder: Path) -> None:
    code = (
        "import io, sys, contextlib, json\n"
        "from laplacenet.cli import main\n"
        "def answer(words):\n"
        "    sys.argv, err = ['laplacenet', *words.split()], io.StringIO()\n"
        "    with contextlib.redirect_stderr(err), contextlib.suppress(SystemExit): main()\n"
        "    return [err.getvalue(), 'torch' in sys.modules]\n"
        "print(json.dumps({words: answer(words) for words in json.loads(sys.argv[1])}))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, json.dumps(list(WRONG))], capture_output=True, cwd=folder, check=True
    )
    for words, (said, has_torch) in json.loads(result.stdout).items():
        assert WRONG[words] in said
        assert said.startswith("error: ")
        assert said.count("\n") == 1
        assert not has_torch, words


def test_an_out_file_that_is_an_input_or_of_the_run_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(folder, monkeypatch, capsys)
    (folder / "run" / "labels.csv").write_text("ours")
    (folder / "mine.csv").write_text("mine")
    refusal = shell.fails("predict", "run", "photos", "mine.csv", "--out", "mine.csv", "--overwrite")
    assert "is one of the inputs" in refusal
    refusal = shell.fails("predict", "run", "photos", "--out", "run/labels.csv", "--overwrite")
    assert "belongs to the run" in refusal
    assert (folder / "run" / "labels.csv").read_text() == "ours"


def test_a_name_that_is_too_long_is_invalid_input(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(folder, monkeypatch, capsys)
    for words in (["train", "digits", "--out"], ["predict", "run", "photos", "--out"], ["label"], ["evaluate"]):
        assert "File name too long" in shell.fails(*words, "x" * 300 + ".csv")


def noted(error: OSError, note: str) -> OSError:
    error.add_note(note)
    return error


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_output_that_goes_to_a_full_disk_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    full = Path("/dev/full").open("w")  # noqa: SIM115 - closing it fails too
    monkeypatch.setattr(sys, "stdout", full)
    assert exit_code_of("predict", "run", "photos") == 1
    reason = "error: standard output: No space left on device; free some space first"
    said = f"{reason}; go on with: laplacenet predict run photos"
    assert capsys.readouterr().err.splitlines()[-1] == said
    with pytest.raises(OSError, match="No space"):
        full.close()


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("a: no"), 2, "error: a: no\n"),
        (RunError("b: full"), 1, "error: b: full\n"),
        (TimeLimitError("time is up; go on with: c"), 3, "time is up; go on with: c\n"),
        (OSError(28, "Full", "d"), 1, "error: d: Full; free some space first; go on with: laplacenet next 'my run'\n"),
        (noted(OSError(28, "Full", "d"), "resume it"), 1, "error: d: Full; free some space first; resume it\n"),
        (OSError(5, "Input/output error", "d"), 1, "error: d: Input/output error\n"),
        (OSError(36, "File name too long", "e"), 2, "error: e: File name too long\n"),
        (typer.BadParameter("f is wrong."), 2, "error: f is wrong\n"),
    ],
)
def test_each_kind_of_end_has_its_exit_code(
    error: Exception, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["laplacenet", "next", "my run"])
    assert explain(error) == code
    assert capsys.readouterr().err.replace("Invalid value: ", "") == said
    with pytest.raises(ZeroDivisionError):
        explain(ZeroDivisionError())


def test_every_command_is_listed_in_a_group_and_has_an_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    listed = [command.__name__ for group in COMMANDS.values() for command in group]
    assert sorted(listed) == sorted(commands)
    shown = Shell(tmp_path, monkeypatch, capsys).succeeds("--help").out
    assert all(f"{title}:" in shown for title in COMMANDS)
    assert "--install-completion" in shown
    for name, command in commands.items():
        assert f"laplacenet {name}" in command.help.split("Example")[1]


def test_the_tests_have_torch_and_the_commands_import_it_late() -> None:
    assert torch.__version__
    code = "import sys, laplacenet.cli; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"


def test_a_closed_pipe_ends_one_process_of_several_without_waiting_for_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They may wait for this one, in the middle of their work."""
    asked: list[bool] = []
    monkeypatch.setattr(Group, "agree", lambda _, is_so: asked.append(is_so))
    monkeypatch.setattr(ending, "end_at_once", sys.exit)
    monkeypatch.setattr(output, "_is_pipe_closed", False)
    with pytest.raises(SystemExit):
        ending.leave_group(0)
    assert asked == [False]
    monkeypatch.setattr(output.sys, "stdout", io.StringIO())
    output.ignore_closed_pipe()
    with pytest.raises(SystemExit):
        ending.leave_group(0)
    assert asked == [False]
