"""Progress of a labeling: its stage, the time left in it, and how long the labeling may take at most."""

import io

import pytest
from references_cli import Clock
from rich.console import Console

from laplacenet.cli.label_progress import StageDisplay
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
        "training on all labels (final)  1/41  loss 0.500  at most 33 h 59 min left in all",
        "training on all labels (final)  11/41  loss 0.500  30 s left in this stage, at most 33 h 58 min in all",
        "training on all labels (final)  21/41  loss 0.500  20 s left in this stage, at most 33 h 58 min in all",
        "training another network to vote (vote-1)  1/41  loss 0.500  at most 33 h 58 min left in all",
    ]


def test_without_a_time_limit_only_the_stage_is_estimated() -> None:
    written = io.StringIO()
    with StageDisplay(Console(file=written, width=40), ends_at=None) as display:
        display.show(epoch("estimate", 1))
    assert written.getvalue() == "training, some labels held out (estimate)  1/41  loss 0.500\n"
