"""Processes watch one another: who falls silent is noticed, work that takes long is not mistaken for it."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from torch.distributed import HashStore  # type: ignore[attr-defined]

from laplacenet.runtime import InputError, Launch, LostProcessError
from laplacenet.runtime import peers as watching
from laplacenet.runtime.peers import PeerWatch, advising, peer_timeout_s


class Watch(PeerWatch):
    """Notes whom it would have ended for."""

    ended: tuple[list[int], str] | None = None
    made: ClassVar[list["Watch"]] = []

    def start(self) -> None:
        Watch.made.append(self)
        super().start()

    def _end(self, silent: list[int]) -> None:
        """It goes on to be heard: the others have yet to end."""
        self.ended = (silent, "".join(say() for say in watching._advice))
        self.is_needed.clear()


def until(is_so: Callable[[], bool], limit_s: float = 60.0) -> bool:
    ends_at = time.monotonic() + limit_s
    while not is_so() and time.monotonic() < ends_at:
        time.sleep(0.01)
    return is_so()


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(watching, "BEAT_EVERY_S", 0.02)
    yield
    while Watch.made:
        Watch.made.pop().stop()


def test_a_peer_that_falls_silent_is_noticed_by_all_others(often: None) -> None:
    store = HashStore()
    watches = [Watch(Launch(rank, 3, rank), store, silence_s=3.0) for rank in range(3)]
    for watch in watches:
        watch.is_connected.set()
    with advising(lambda: "go on like this"):
        for watch in watches:
            watch.start()
        assert until(lambda: all(min(watch.counts.values()) > 3 for watch in watches))
        assert all(watch.ended is None for watch in watches)
        watches[1].stop()
        assert until(lambda: watches[0].ended is not None and watches[2].ended is not None)
    assert watches[0].ended == watches[2].ended == ([1], "go on like this")


def test_a_peer_that_has_left_is_not_missed(often: None) -> None:
    """The processes of a comparison end one after another."""
    store = HashStore()
    watches = [Watch(Launch(rank, 3, rank), store, silence_s=60.0) for rank in range(3)]
    for watch in watches:
        watch.is_connected.set()
        watch.start()
    watches[0].leave()
    assert until(lambda: all(0 in watch.have_left for watch in watches[1:]))
    watches[1].stop()
    assert until(lambda: watches[2].counts[1] == watches[1].store.add("beat/1", 0))  # it was heard for the last time
    watches[2].heard_at[0] -= 100  # as if that were long ago
    time.sleep(0.5)
    assert watches[2].ended is None
    watches[2].heard_at[1] -= 100
    assert until(lambda: watches[2].ended is not None)
    assert watches[2].ended == ([1], "")


def test_nobody_is_missed_while_nothing_is_shared(often: None) -> None:
    """A script goes on in one process after the work of all; the others have ended."""
    watch = Watch(Launch(0, 2, 0), HashStore(), silence_s=60.0)
    watch.is_connected.set()
    watch.is_needed.clear()
    watch.start()
    assert until(lambda: watch.counts[1] == 0)
    watch.heard_at[1] -= 100  # as if that were long ago
    time.sleep(0.5)
    assert watch.ended is None
    watch.is_needed.set()
    assert until(lambda: watch.ended is not None)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")
def test_a_sibling_that_stalls_is_ended_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have stalled before it joined the others, so that nobody has heard of it."""
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "29999")
    monkeypatch.setattr(watching.os, "getppid", os.getpid)
    changes = ({"RANK": "1"}, {"RANK": "11"}, {"RANK": "1", "MASTER_PORT": "29998"})
    siblings = [subprocess.Popen(["sleep", "300"], env=os.environ | change) for change in changes]
    try:
        assert until(lambda: all(Path(f"/proc/{one.pid}/comm").read_text() == "sleep\n" for one in siblings))
        watching.end_sibling(1)
        assert siblings[0].wait(timeout=60) == -signal.SIGKILL
        assert siblings[1].poll() is siblings[2].poll() is None
    finally:
        for sibling in siblings:
            sibling.kill()
            sibling.wait()


def test_one_process_of_each_machine_reports() -> None:
    store = HashStore()
    assert watching.claim_report(store)
    assert not watching.claim_report(store)


def test_a_store_that_blocks_is_noticed(often: None) -> None:
    """The store is in the first process: where that stalls, whoever asks it waits."""
    is_over = threading.Event()

    class Stuck(HashStore):  # type: ignore[misc]
        def add(self, key: str, n: int) -> int:
            is_over.wait()
            return 0

    watch = Watch(Launch(1, 2, 1), Stuck(), silence_s=0.5)
    watch.start()
    try:
        assert until(lambda: watch.ended is not None)
    finally:
        is_over.set()
    assert watch.ended is not None
    assert watch.ended[0] == [0]


def test_processes_that_meet_but_cannot_connect_are_given_up(often: None) -> None:
    store = HashStore()
    watches = [Watch(Launch(rank, 2, rank), store, silence_s=1.0) for rank in range(2)]
    watches[1].is_connected.set()
    for watch in watches:
        watch.start()
    assert until(lambda: watches[0].ended is not None)
    assert watches[1].ended is None or watches[1].ended[0] == [0]
    watches[1].stop()


def test_whoever_loses_a_process_says_how_to_go_on() -> None:
    with pytest.raises(LostProcessError, match="gone; like this"), advising(lambda: "like this"):
        raise LostProcessError("gone")
    assert not watching._advice


def test_work_that_a_signal_ends_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that was given would be refused: its run folder is there already."""
    monkeypatch.setattr(watching, "_at_interruption", ["of a run before"])
    watching.forget_advice()
    assert watching.advice_at_interruption() is None
    with pytest.raises(KeyboardInterrupt), advising(lambda: "of all"), advising(lambda: "of the run"):
        raise KeyboardInterrupt
    assert watching.advice_at_interruption() == "of the run"


def test_work_that_a_full_disk_ends_says_how_to_go_on() -> None:
    with pytest.raises(OSError, match="No space") as caught, advising(lambda: "like this"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "run/labels.csv")
    assert caught.value.__notes__ == ["like this"]
    with pytest.raises(FileNotFoundError) as other, advising(lambda: "like this"):
        Path("nowhere").read_bytes()
    assert not hasattr(other.value, "__notes__")


def test_where_nothing_has_begun_the_same_command_goes_on() -> None:
    assert str(watching.lost()).endswith("go on with: the same command")
    with advising(lambda: "like this"):
        assert str(watching.lost()) == watching.LOST


@pytest.mark.parametrize("text", ["soon", "1", "-5", "inf", "nan"])
def test_a_timeout_that_is_none_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAPLACENET_PEER_TIMEOUT", text)
    with pytest.raises(InputError, match="LAPLACENET_PEER_TIMEOUT"):
        peer_timeout_s()
