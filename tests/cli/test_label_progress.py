"""Progress of a labeling: its stage, the time left in it, and how long the labeling may take at most."""

import io
import re

import pytest
from references_cli import Clock
from rich.console import Console

from laplacenet.cli.label_progress import StageDisplay
from laplacenet.labeling.stage_plan import stage_words
from laplacenet.labeling.stages import StageEpoch


def epoch(stage: str, step: int) -> StageEpoch:
    return StageEpoch(
        stage=stage,
        epoch=0,
        phase="supervised",
        step=step,
        steps=41,
        is_complete=True,
        loss=0.5,
        lr=0.1,
        n_unreachable=None,
        is_converged=None,
        class_shares=None,
        elapsed_s=1.0,
    )


def test_the_time_limit_is_the_most_a_labeling_takes_not_an_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, written = Clock(), io.StringIO()
    monkeypatch.setattr("laplacenet.cli.progress.time.monotonic", clock)
    with StageDisplay(Console(file=written, width=40), ends_at=34 * 3600.0) as display:
        for clock.now, stage, step in (
            (60.0, "final", 1),
            (70.0, "final", 11),
            (80.0, "final", 21),
            (90.0, "vote-1", 1),
        ):
            display.show(epoch(stage, step))
    assert written.getvalue().splitlines() == [
        "final network  1/41  loss 0.500  at most 33 h 59 min left",
        "final network  11/41  loss 0.500  at most 33 h 58 min left  30 s left in this stage",
        "final network  21/41  loss 0.500  at most 33 h 58 min left  20 s left in this stage",
        "extra network 1  1/41  loss 0.500  at most 33 h 58 min left",
    ]


def test_without_a_time_limit_only_the_stage_is_estimated() -> None:
    written = io.StringIO()
    with StageDisplay(Console(file=written, width=40), ends_at=None) as display:
        display.show(epoch("estimate", 1))
    assert written.getvalue() == "accuracy estimate  1/41  loss 0.500\n"


def test_a_stage_takes_no_longer_than_all_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, written = Clock(), io.StringIO()
    monkeypatch.setattr("laplacenet.cli.progress.time.monotonic", clock)
    with StageDisplay(Console(file=written, width=40), ends_at=68.0) as display:
        for clock.now, step in ((50.0, 1), (55.0, 11), (60.0, 21)):
            display.show(epoch("fold-0", step))
    assert written.getvalue().splitlines()[-1].endswith("at most 8 s left  8 s left in this stage")


def test_stages_are_named_in_plain_words_and_counted_from_one() -> None:
    names = ("estimate", "suspects-1", "fold-0", "final", "vote-1")
    assert [stage_words(name) for name in names] == [
        "accuracy estimate",
        "label check 1",
        "held-out fold 1",
        "final network",
        "extra network 1",
    ]


@pytest.mark.parametrize(
    ("width", "remarks"),
    [
        (120, "loss 0.500  at most 51 min 15 s left  12 s left in this stage"),
        (80, "loss 0.500  at most 51 min 15 s left"),
        (50, "loss 0.500"),
        (36, ""),
    ],
)
def test_a_terminal_of_any_width_shows_stage_bar_and_count(
    width: int, remarks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, written = Clock(), io.StringIO()
    monkeypatch.setattr("laplacenet.cli.progress.time.monotonic", clock)
    console = Console(file=written, force_terminal=True, color_system=None, width=width)
    with StageDisplay(console, ends_at=3_100.0) as display:
        for clock.now, step in ((5.0, 1), (15.0, 11), (25.0, 26)):
            display.show(epoch("estimate", step))
    line = last_frame(written.getvalue())
    assert len(line) <= width
    assert re.fullmatch(rf"accuracy estimate\s+[━╸╺ ]{{10,24}}\s+26/41\s*{remarks}", line)


def test_before_the_first_steps_a_terminal_says_that_training_begins_and_how_long_it_may_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, written = Clock(), io.StringIO()
    monkeypatch.setattr("laplacenet.cli.progress.time.monotonic", clock)
    with StageDisplay(Console(file=written, force_terminal=True, color_system=None, width=80), ends_at=52.0):
        pass
    line = last_frame(written.getvalue())
    assert line.startswith("training ")
    assert line.endswith("at most 52 s left")


def last_frame(written: str) -> str:
    """The last line on a terminal, without its control sequences."""
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written).replace("\r", "\n").split("\n")
    return [line for line in lines if line.strip()][-1].rstrip()
