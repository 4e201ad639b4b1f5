"""What is seen of a run: a bar on a terminal, lines elsewhere, each remark once, and a watch that stops in time."""

import io
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from references_cli import Clock
from rich.console import Console

from laplacenet.cli.progress import Display, RunDisplay, Watch
from laplacenet.cli.wording import duration, percent
from laplacenet.experiments import EpochRecord
from laplacenet.runtime import InputError, Interruption
from laplacenet.runtime.durations import parse_duration

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
    with RunDisplay(Console(file=written, force_terminal=True, width=160), "digits", n_steps=40, n_done=10) as bar:
        bar.advance(10)
        bar.show(RECORD)
    assert "20/40" in written.getvalue()
    assert "loss 0.500  test error 2.50 %  pseudo-labels 97.50 % right" in written.getvalue()


def test_a_narrow_terminal_leaves_out_details_and_cuts_a_long_title_but_never_the_count() -> None:
    for width, expected in ((64, "loss 0.500  test error 2.50 %"), (48, "loss 0.500")):
        written = io.StringIO()
        console = Console(file=written, force_terminal=True, color_system=None, width=width)
        with RunDisplay(console, "digits", n_steps=40, n_done=10) as bar:
            bar.show(RECORD)
        assert written.getvalue().rstrip("\x1b[?25h\n").endswith(f"20/40  {expected}")
    written = io.StringIO()
    with Display(Console(file=written, force_terminal=True, color_system=None, width=40), "x" * 90, n=40) as tally:
        tally.advance(10)
    assert "xxxxx…  " in written.getvalue()
    assert "  10/40" in written.getvalue()


def test_elsewhere_lines_come_rarely_but_the_last_always() -> None:
    written = io.StringIO()
    with RunDisplay(Console(file=written, width=40), "digits", n_steps=40, n_done=0) as lines:
        for step in (10, 20, 30, 40):
            lines.advance(10)
            lines.show(replace(RECORD, step=step, is_converged=True))
    said = written.getvalue().splitlines()
    assert [line.split("  ")[1] for line in said] == ["10/40", "40/40"]
    assert not said[-1].endswith("left")


def test_the_time_left_is_shown_once_it_can_be_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, written = Clock(), io.StringIO()
    monkeypatch.setattr("laplacenet.cli.progress.time.monotonic", clock)
    with Display(Console(file=written, width=40), "digits", n=1_000) as lines:
        for clock.now in (120.0, 121.0, 122.0, 130.0):  # starting up takes two minutes, then each step a second or so
            lines.update(n_done=lines.n_done + 1, is_notable=True)
        lines.update(n_done=1_000, is_notable=True)
    assert written.getvalue().splitlines() == [
        "digits  1/1000",
        "digits  2/1000",
        "digits  3/1000  16 min 37 s left",
        "digits  4/1000  55 min 20 s left",
        "digits  1000/1000",
    ]


def test_a_resumed_run_is_estimated_by_the_steps_of_this_session(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("laplacenet.cli.progress.time.monotonic", clock)
    with Display(Console(file=io.StringIO()), "digits", n=1_000, n_done=900) as lines:
        for clock.now in (50.0, 55.0, 60.0):
            lines.advance(10)
        assert lines.time_left() == "35 s left"


def test_a_new_total_starts_a_new_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("laplacenet.cli.progress.time.monotonic", clock)
    with Display(Console(file=io.StringIO()), "reading") as tally:
        for clock.now in (1.0, 2.0, 9.0):
            tally.advance(1)
        tally.expect(30)
        assert (tally.n_done, tally.time_left()) == (0, "")
        for clock.now in (10.0, 11.0, 12.0):
            tally.advance(5)
        assert tally.time_left() == "3 s left"


def test_a_remark_is_made_once_a_run() -> None:
    written = io.StringIO()
    with RunDisplay(Console(file=written, width=40), "digits", n_steps=40, n_done=0) as lines:
        lines.show(RECORD)
        lines.show(replace(RECORD, epoch=4, step=30))
    assert written.getvalue().count("warning: epoch 3: the conjugate gradients did not converge") == 1
    assert "epoch 4" not in written.getvalue()


def test_the_watch_stops_on_a_signal_or_when_its_time_is_up() -> None:
    lines = RunDisplay(Console(file=io.StringIO()), "digits", n_steps=40, n_done=0)
    with Interruption() as interruption:
        watch = Watch(interruption, lines, limit_s=None)
        assert not watch.should_stop
        signal.raise_signal(signal.SIGTERM)
        assert watch.should_stop
    with Interruption() as interruption:
        assert Watch(interruption, lines, limit_s=0.0).should_stop
        assert not Watch(interruption, lines, limit_s=60.0).should_stop


def test_what_is_counted_is_a_bar_on_a_terminal_that_leaves_standard_output_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    written = io.StringIO()
    with Display(Console(file=written, force_terminal=True, width=160), "reading [b]\n", n=40) as tally:
        tally.advance(10)
        print("a,row")
        tally.advance(20)
    assert "reading [b]\\n" in written.getvalue()
    assert "30/40" in written.getvalue()
    assert capsys.readouterr().out == "a,row\n"


def test_what_is_counted_elsewhere_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    for console in (Console(file=written), Console(file=written, force_terminal=True)):
        with Display(console, "reading", is_live=False) as tally:
            tally.advance(1)
            monkeypatch.setattr("laplacenet.cli.progress.LINE_EVERY_S", -1.0)
            tally.advance(2)
            monkeypatch.undo()
            tally.advance(1)
    assert written.getvalue() == "reading  3\nreading  3\n"


def test_what_several_threads_count_is_counted_whole() -> None:
    with Display(Console(file=io.StringIO()), "reading") as tally, ThreadPoolExecutor(8) as pool:
        list(pool.map(tally.advance, [1] * 5_000))
    assert tally.n_done == 5_000


@pytest.mark.parametrize(("text", "expected"), [("90s", 90), ("9m", 540), ("2h", 7200), ("45", 45), ("0.5m", 30)])
def test_times_are_read_as_people_write_them(text: str, expected: float) -> None:
    assert parse_duration(text, option="--for") == expected


@pytest.mark.parametrize("text", ["", "m", "-5s", "0", "nan", "inf", "ten"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=f"^--for {text}: give a time such as 90s, 9m or 2h"):
        parse_duration(text, option="--for")


def test_numbers_are_worded_for_people() -> None:
    assert [duration(s) for s in (4.4, 59.6, 185.0, 7620.0)] == ["4 s", "1 min 00 s", "3 min 05 s", "2 h 07 min"]
    assert (percent(0.0325), percent(None)) == ("3.25 %", "unknown")
