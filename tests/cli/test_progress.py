"""What is seen of a run: a bar on a terminal, lines elsewhere, each remark once, and a watch that stops in time."""

import io
import signal
from dataclasses import replace

import pytest
from rich.console import Console

from laplacenet.cli.options import seconds
from laplacenet.cli.progress import Bar, Lines, Watch
from laplacenet.cli.wording import duration, percent
from laplacenet.experiments import EpochRecord
from laplacenet.runtime import InputError, Interruption

RECORD = EpochRecord(
    epoch=3,
    phase="semi-supervised",
    step=20,
    n_steps=10,
    is_complete=True,
    loss=0.5,
    lr=0.1,
    test_error=0.025,
    pseudo_label_accuracy=0.975,
    is_converged=False,
    n_iterations=100,
    n_unreachable=0,
    recall=None,
    label_s=0.1,
    step_s=0.01,
    compile_s=0.0,
    elapsed_s=2.0,
)


def test_a_terminal_shows_a_bar_with_loss_error_and_pseudo_labels() -> None:
    written = io.StringIO()
    with Bar(Console(file=written, force_terminal=True, width=160), "digits", n_steps=40, n_done=10) as bar:
        bar.advance(10)
        bar.show(RECORD)
    assert "20/40" in written.getvalue()
    assert "loss 0.500  test error 2.50 %  pseudo-labels 97.50 % right" in written.getvalue()


def test_elsewhere_lines_come_rarely_but_the_last_always() -> None:
    written = io.StringIO()
    with Lines(Console(file=written, width=40), "digits", n_steps=40, n_done=0) as lines:
        for step in (10, 20, 30, 40):
            lines.advance(10)
            lines.show(replace(RECORD, step=step, is_converged=True))
    said = written.getvalue().splitlines()
    assert [line.split("  ")[1] for line in said] == ["10/40", "40/40"]
    assert said[-1].endswith("0 s left")


def test_a_remark_is_made_once_a_run() -> None:
    written = io.StringIO()
    with Lines(Console(file=written, width=40), "digits", n_steps=40, n_done=0) as lines:
        lines.show(RECORD)
        lines.show(replace(RECORD, epoch=4, step=30))
    assert written.getvalue().count("warning: epoch 3: the conjugate gradients did not converge") == 1
    assert "epoch 4" not in written.getvalue()


def test_the_watch_stops_on_a_signal_or_when_its_time_is_up() -> None:
    lines = Lines(Console(file=io.StringIO()), "digits", n_steps=40, n_done=0)
    with Interruption() as interruption:
        watch = Watch(interruption, lines, limit_s=None)
        assert not watch.should_stop
        signal.raise_signal(signal.SIGTERM)
        assert watch.should_stop
    with Interruption() as interruption:
        assert Watch(interruption, lines, limit_s=0.0).should_stop
        assert not Watch(interruption, lines, limit_s=60.0).should_stop


@pytest.mark.parametrize(("text", "expected"), [("90s", 90), ("9m", 540), ("2h", 7200), ("45", 45), ("0.5m", 30)])
def test_times_are_read_as_people_write_them(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "m", "-5s", "0", "nan", "inf", "ten"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="90s, 9m or 2h"):
        seconds(text)


def test_numbers_are_worded_for_people() -> None:
    assert [duration(s) for s in (4.4, 59.6, 185.0, 7620.0)] == ["4 s", "1 min 00 s", "3 min 05 s", "2 h 07 min"]
    assert (percent(0.0325), percent(None)) == ("3.25 %", "unknown")
