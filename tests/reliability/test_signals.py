"""SIGINT and SIGTERM at any point of a run: exit code 130 or 143, and the command with which it goes on."""

import signal
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
from references_cli import Said, Shell
from references_runs import write_bars

from laplacenet.cli import app as commands
from laplacenet.experiments import judging
from laplacenet.experiments import task as tasks
from laplacenet.runtime import RunFolder, peers
from laplacenet.training import session
from laplacenet.training.checkpoint import checkpoint_step
from laplacenet.training.methods import laplacenet as method

TRAIN = (
    "train bars.npz --labels 9 --seed 3 --out run --set train.steps=12 --set train.batch_size=24"
    " --set train.labeled_batch_size=4"
)
unbroken: list[bytes] = []  # the weights, once they are needed
SIGNALS = pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    write_bars(tmp_path / "bars.npz")
    return Shell(tmp_path, monkeypatch, capsys)


def signaling(sent: signal.Signals, work: Callable[..., object]) -> Callable[..., object]:
    """The work, during which the signal comes, once."""
    left = [sent]

    def interrupted(*arguments: object, **named: object) -> object:
        if left:
            signal.raise_signal(left.pop())
        return work(*arguments, **named)

    return interrupted


def last_line(said: Said) -> str:
    assert "Traceback" not in said.err
    return said.err.strip().splitlines()[-1]


def ends_like_an_unbroken_run(shell: Shell) -> bool:
    shell.succeeds("train", "--resume", "run")
    if not unbroken:
        shell.succeeds(*TRAIN.replace("--out run", "--out unbroken").split())
        unbroken.append((shell.folder / "unbroken" / "model.safetensors").read_bytes())
    return (shell.folder / "run" / "model.safetensors").read_bytes() == unbroken[0]


@SIGNALS
def test_a_signal_during_the_label_pass_saves_and_says_how_to_go_on(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, sent: signal.Signals, code: int
) -> None:
    monkeypatch.setattr(method, "pseudo_label", signaling(sent, method.pseudo_label))
    said = shell(*TRAIN.split())
    assert said.code == code
    assert last_line(said) == "interrupted at step 2 of 12; go on with: laplacenet train --resume run"
    assert checkpoint_step(RunFolder(shell.folder / "run").checkpoint) == 2
    assert ends_like_an_unbroken_run(shell)


@SIGNALS
def test_a_signal_during_the_final_evaluation_saves_and_says_how_to_go_on(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, sent: signal.Signals, code: int
) -> None:
    monkeypatch.setattr(judging, "augmentation_invariance", signaling(sent, judging.augmentation_invariance))
    said = shell(*TRAIN.split())
    assert said.code == code
    assert last_line(said) == "interrupted at step 12 of 12; go on with: laplacenet train --resume run"
    assert not (shell.folder / "run" / "final.json").exists()
    assert ends_like_an_unbroken_run(shell)


@SIGNALS
def test_a_signal_while_data_are_loaded_ends_at_once_and_says_how_to_go_on(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, sent: signal.Signals, code: int
) -> None:
    shell.runs_out_of_time(*TRAIN.split(), "--for", "0.000001s")
    monkeypatch.setattr(tasks, "load_dataset", signaling(sent, tasks.load_dataset))
    said = shell("train", "--resume", "run")
    assert said.code == code
    assert last_line(said) == "error: interrupted; go on with: laplacenet train --resume run"
    assert ends_like_an_unbroken_run(shell)


def test_a_signal_while_a_checkpoint_is_written_lets_it_be_written(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "write_checkpoint", signaling(signal.SIGTERM, session.write_checkpoint))
    said = shell(*TRAIN.split())
    assert said.code == 143
    assert last_line(said) == "interrupted at step 0 of 12; go on with: laplacenet train --resume run"
    assert ends_like_an_unbroken_run(shell)


def test_whatever_a_signal_comes_to_inside_an_import_it_is_an_interruption(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(*_: object, **__: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RecursionError("maximum recursion depth exceeded") from None

    monkeypatch.setattr(commands, "app", cut_off)
    monkeypatch.setattr(peers, "_at_interruption", ["of an earlier command in this process"])
    said = shell("methods")
    assert said.code == 130
    assert last_line(said) == "error: interrupted; go on with: laplacenet methods"


def test_a_module_is_imported_when_all_of_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = ModuleType("begun")
    begun.__spec__ = ModuleSpec("begun", None)
    begun.__spec__._initializing = True
    monkeypatch.setitem(sys.modules, "begun", begun)
    assert not commands.is_imported("begun")
    assert not commands.is_imported("no_such_module")
    begun.__spec__._initializing = False
    assert commands.is_imported("begun")
