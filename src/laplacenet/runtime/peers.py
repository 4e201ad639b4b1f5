"""Peers that no longer answer: where one process stalls or its machine is lost, the others end and say how to go on.

A process that dies closes its connections, and gloo tells the others at once. One that stalls does not, and what NCCL
replays from a captured graph waits on the device for as long as it takes. So each process counts upwards in the store
where all of them met, and looks whether the others do. Work that one process does alone may take as long as it likes.
"""

import atexit
import contextlib
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined] # told to no type checker

from laplacenet.runtime.errors import FULL, InputError, LostProcessError, one_line
from laplacenet.runtime.launch import Launch

SILENCE = "LAPLACENET_PEER_TIMEOUT"
SILENCE_S = 20.0
BEAT_EVERY_S = 1.0
ENDING_S = 2.0
CONNECTING = 1.5  # times as long: processes that have met connect within a second
LOST = "another process of this run has ended or no longer answers"
FAILED = 1  # the exit code
LEFT = 1 << 40  # more than anyone counts: a process that is done with its work

AGAIN = "go on with: the same command"

_advice: list[Callable[[], str]] = []
_at_interruption: list[str] = []


def lost() -> LostProcessError:
    """What to raise where another process is gone; outside `advising` nothing has begun."""
    return LostProcessError(LOST if _advice else f"{LOST}; {AGAIN}")


@contextlib.contextmanager
def advising(how: Callable[[], str]) -> Iterator[None]:
    """Whoever ends inside because another process is lost, by a signal, or on a full disk, says `how` to go on."""
    _advice.append(how)
    try:
        yield
    except LostProcessError as error:
        raise LostProcessError(f"{error}; {how()}") from error
    except KeyboardInterrupt:
        _at_interruption.append(how())
        raise
    except OSError as error:
        if error.errno in FULL:
            error.add_note(how())
        raise
    finally:
        _advice.remove(how)


def advice_at_interruption() -> str | None:
    """How to go on after the signal that has ended the work inside `advising`, if one has."""
    return _at_interruption[0] if _at_interruption else None


def forget_advice() -> None:
    """Of an earlier interruption in the same process."""
    _at_interruption.clear()


class PeerWatch:
    """Two threads: one counts and hears the others, which may block; one looks at the clock, which never does."""

    def __init__(self, launch: Launch, store: Store, *, silence_s: float) -> None:
        self.launch, self.store, self.silence_s = launch, store, silence_s
        self.others = [rank for rank in range(launch.size) if rank != launch.rank]
        self.counts = dict.fromkeys(self.others, -1)
        self.heard_at = dict.fromkeys(self.others, time.monotonic())
        self.have_left: set[int] = set()
        self.is_over, self.is_connected, self.is_needed = threading.Event(), threading.Event(), threading.Event()
        self.is_needed.set()  # while it is clear, silent peers are ignored
        self.all_there_at: float | None = None
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self._beat, self._look)]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()
        atexit.register(self.stop)  # a thread inside the store when Python ends would abort the process

    def stop(self) -> None:
        self.is_over.set()
        for thread in self.threads:
            if thread is not threading.current_thread():
                thread.join(timeout=ENDING_S)

    def outlast_others(self) -> None:
        """Wait until all others have left: for a process in which the store is, and with which it ends."""
        while set(self.others) - self.have_left and not self.is_over.wait(BEAT_EVERY_S / 10):
            pass

    def leave(self) -> None:
        """Stop, and let the others go on."""
        self.stop()
        with contextlib.suppress(RuntimeError, ConnectionError):  # the store is gone, and the others with it
            self.store.add(f"beat/{self.launch.rank}", LEFT)

    def _beat(self) -> None:
        while not self.is_over.wait(BEAT_EVERY_S):
            with contextlib.suppress(RuntimeError, ConnectionError):  # the store is gone: nobody is heard any more
                if self.all_there_at is None and min(self.counts.values()) > 0:
                    self.all_there_at = time.monotonic()
                self.store.add(f"beat/{self.launch.rank}", 1)
                for rank in self.others:
                    self._hear(rank)

    def _hear(self, rank: int) -> None:
        count = self.store.add(f"beat/{rank}", 0)
        if count == self.counts[rank]:
            return
        self.counts[rank], self.heard_at[rank] = count, time.monotonic()
        if count >= LEFT:
            self.have_left.add(rank)

    def _look(self) -> None:
        looked_at = time.monotonic()
        while not self.is_over.wait(BEAT_EVERY_S / 2):
            now = time.monotonic()
            if now - looked_at > self.silence_s / 2:  # this process itself was stopped
                self.heard_at = dict.fromkeys(self.others, now)
            looked_at = now
            awaited = [rank for rank in self.others if rank not in self.have_left]
            silent = [rank for rank in awaited if now - self.heard_at[rank] > self.silence_s]
            is_any_missing = bool(silent) or self._cannot_connect(now)
            if is_any_missing and self.is_needed.is_set() and not self.is_over.is_set():
                self._end(silent)

    def _cannot_connect(self, now: float) -> bool:
        """All processes are there, but one of them waits for a connection to another."""
        is_late = self.all_there_at is not None and now - self.all_there_at > CONNECTING * self.silence_s
        return is_late and not self.is_connected.is_set()

    def _end(self, silent: list[int]) -> None:
        """The first of those that are left speaks. Each ends those of its machine that stall: torchrun would wait 30 s
        for them."""
        if self.launch.rank == min(set(range(self.launch.size)) - self.have_left - set(silent)):
            how = _advice[-1]() if _advice else AGAIN
            print(f"error: {one_line(f'{LOST}; {how}')}", file=sys.__stderr__, flush=True)
        for rank in silent:
            end_sibling(rank)
        os._exit(FAILED)


def watch_peers(launch: Launch) -> PeerWatch:
    """Begin to watch, once all processes have met at the address that torchrun gave them."""
    silence_s = peer_timeout_s()
    watch = PeerWatch(launch, connect(launch, timeout_s=silence_s), silence_s=silence_s)
    watch.start()
    return watch


def connect(launch: Launch, *, timeout_s: float) -> Store:
    """A connection of our own to the store where the processes met; each restart has its own entries."""
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = TCPStore(host, port, is_master=False, timeout=timedelta(seconds=timeout_s))
    return PrefixStore(f"laplacenet/{launch.n_restarts}", store)


def claim_report(store: Store) -> bool:
    """Whether no other process of this machine has claimed to report an error before."""
    return bool(store.add(f"reports/{platform.node()}", 1) == 1)


def peer_timeout_s() -> float:
    text = os.environ.get(SILENCE, str(SILENCE_S))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 2 * BEAT_EVERY_S < seconds < float("inf"):
        raise InputError(f"{SILENCE}={text}: give seconds, more than {2 * BEAT_EVERY_S:.0f}")
    return seconds


def end_sibling(rank: int) -> None:
    """End the process of this number if it is on this machine: a child of the same torchrun; no other is touched."""
    known = {f"{name}={os.environ.get(name)}".encode() for name in ("MASTER_ADDR", "MASTER_PORT")}
    wanted = known | {f"RANK={rank}".encode()}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended, or is somebody else's
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getppid() and wanted <= set((folder / "environ").read_bytes().split(b"\0")):
                os.kill(int(folder.name), signal.SIGKILL)
