"""Where a run's time goes."""

import time

import pytest

from laplacenet.runtime.timeline import Timeline, mark, summary, timeline

EPOCH = [
    ("between epochs", 0.5),
    ("features", 2.0),
    ("loading", 0.25),
    ("steps", 8.0),
    ("loading", 0.125),
    ("steps", 4.0),
]
FIRST = [("between epochs", 0.0), ("capturing", 9.0), ("loading", 1.0), ("steps", 3.0), ("judging", 1.0)]
START = [("importing", 3.0), ("reading", 2.0)]
END = [("saving the model", 0.5), ("last judgments", 1.5)]


def test_marks_are_taken_only_while_somebody_asks() -> None:
    mark("before")
    with timeline() as line, timeline(is_on=False) as unasked:
        mark("within")
    mark("after")
    assert [name for name, _ in line.spans()] == ["within"]
    assert unasked.spans() == []


def test_spans_add_up_to_the_time_since_the_process_began() -> None:
    line = Timeline()
    line.mark("begun")
    time.sleep(0.02)
    line.mark("slept")
    (_, until_now), (_, slept) = line.spans()
    assert until_now > 0
    assert slept >= 0.02
    assert until_now + slept == pytest.approx(line.marks[-1][1] - line.began_at)


def test_the_summary_tells_start_a_usual_epoch_and_end_apart() -> None:
    usual, slower = [*EPOCH, ("judging", 1.0)], [*EPOCH, ("judging", 3.0), ("saving", 6.0)]
    found = summary([*START, *FIRST, *usual, *usual, *slower, *END])
    assert found["start"] == dict(START)
    assert found["end"] == dict(END)
    assert found["compiling"] == 9.0
    assert (found["n_epochs"], found["n_usual_epochs"]) == (4, 3)
    assert found["epoch"] == {
        "between epochs": 0.5,
        "features": 2.0,
        "first block": 0.25,
        "steps": 12.0,
        "other blocks": 0.125,
        "judging": 1.0,
        "saving": 1.5,  # 6 s in one of four epochs
    }
    assert found["beside_steps_s"] == 0.5 + 2.0 + 0.25 + 0.125 + 1.0 + 1.5
    assert found["total_s"] == sum(seconds for _, seconds in [*START, *FIRST, *usual, *usual, *slower, *END])


def test_a_run_that_ends_before_its_first_epoch_has_a_start_only() -> None:
    found = summary(START)
    assert found["start"] == dict(START)
    assert found["end"] == {}
