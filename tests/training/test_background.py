"""Work beside the steps: one piece at a time, its errors raised by whoever waits."""

import threading

import pytest

from laplacenet.training.background import BackgroundWork


def test_work_is_done_in_another_thread_and_has_ended_after_the_wait() -> None:
    done: list[int] = []
    work, gate = BackgroundWork(), threading.Event()

    def slow() -> None:
        gate.wait()
        done.append(threading.get_ident())

    work.start(slow)
    assert done == []
    gate.set()
    work.wait()
    assert done != [threading.get_ident()]
    assert len(done) == 1


def test_an_error_is_raised_once_and_by_the_next_wait() -> None:
    work, error = BackgroundWork(), OSError(28, "No space left on device", "state")

    def fail() -> None:
        raise error

    work.start(fail)
    with pytest.raises(OSError, match="No space") as caught:
        work.wait()
    assert caught.value is error
    work.wait()


def test_the_next_piece_begins_when_the_one_before_has_ended_and_not_after_an_error() -> None:
    work, order = BackgroundWork(), []
    gate = threading.Event()

    def first() -> None:
        gate.wait()
        order.append("first")
        raise ValueError("first")

    work.start(first)
    threading.Timer(0.05, gate.set).start()
    with pytest.raises(ValueError, match="first"):
        work.start(lambda: order.append("second"))
    work.wait()
    assert order == ["first"]


def test_joining_leaves_the_error_to_the_wait() -> None:
    work = BackgroundWork()

    def fail() -> None:
        raise ValueError("kept")

    work.start(fail)
    work.join()
    with pytest.raises(ValueError, match="kept"):
        work.wait()
