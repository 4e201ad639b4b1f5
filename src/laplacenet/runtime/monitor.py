"""How a long computation reports its progress and is asked to stop."""

import signal
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Protocol, runtime_checkable

from laplacenet.runtime.errors import TimeLimitError
from laplacenet.runtime.launch import read_launch

USUAL: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
"""The default handlers of the signals, even if the shell has made the process ignore them."""
SAME_S = 0.5
"""Within it a second SIGINT is taken for the first one, forwarded."""
LEAST_READING_S = 3.0
"""For reading pictures, whatever the time limit: a small folder can always start its run."""


@runtime_checkable
class Monitor(Protocol):
    """Given to long computations: counts what is done and says whether to stop early."""

    @property
    def should_stop(self) -> bool: ...

    def advance(self, n: int) -> None: ...


@runtime_checkable
class TotalMonitor(Monitor, Protocol):
    """A monitor that shows how much there is to do."""

    def expect(self, n: int) -> None:
        """Work on `n` things begins, of which none is done yet."""


def expect(monitor: Monitor, n: int) -> None:
    """Give the monitor the total, if it can use one."""
    if isinstance(monitor, TotalMonitor):
        monitor.expect(n)


class NullMonitor:
    """Counts nothing and never stops the work."""

    should_stop = False

    def advance(self, n: int) -> None:
        pass


class TimedMonitor:
    """Ends the reading of pictures when its time is up, by a TimeLimitError.

    The last pictures may be late, since what remains after them takes seconds.
    """

    def __init__(self, monitor: Monitor, ends_at: float | None, *, what_then: str) -> None:
        """`ends_at` is by `time.monotonic`, None for no limit; `what_then` follows the number of pictures."""
        self.monitor, self.ends_at, self.what_then = monitor, ends_at, what_then
        self.n_done, self.is_late = 0, False

    @property
    def should_stop(self) -> bool:
        return self.monitor.should_stop

    def expect(self, n: int) -> None:
        expect(self.monitor, n)

    def advance(self, n: int) -> None:
        self.n_done += n
        if self.is_late:
            raise TimeLimitError(f"time is up; {self.n_done} pictures {self.what_then}")
        self.is_late = self.ends_at is not None and time.monotonic() >= self.ends_at
        self.monitor.advance(n)


def reading_ends_at(limit_s: float | None, started_at: float) -> float | None:
    """When to stop reading training data, because no time would be left to train; by `time.monotonic`."""
    return None if limit_s is None else max(started_at + limit_s, time.monotonic() + LEAST_READING_S)


def time_left(limit_s: float | None, started_at: float) -> float | None:
    """The time left for training after reading, which counts too."""
    return None if limit_s is None else max(0.0, limit_s - (time.monotonic() - started_at))


class Interruption:
    """Catches SIGINT and SIGTERM while it is open, so that the work can end at a step's boundary with a checkpoint.

    A second signal of the same kind has its usual effect at once, unless it is a SIGINT that follows so soon that it is
    the same one: programs that start others may forward what a terminal has sent to both.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._noted_at: dict[signal.Signals, float] = {}
        self._previous: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}

    @property
    def exit_code(self) -> int:
        """128 + the signal's number, as shells count: 130 for SIGINT, 143 for SIGTERM."""
        return 0 if self.signal is None else 128 + self.signal.value

    def __enter__(self) -> "Interruption":
        for caught in (signal.SIGINT, signal.SIGTERM):
            self._previous[caught] = signal.signal(caught, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for caught, previous in self._previous.items():
            signal.signal(caught, previous)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = found = signal.Signals(number)
        since_first_s = time.monotonic() - self._noted_at.setdefault(found, time.monotonic())
        if read_launch().size > 1:
            return  # torchrun forwards signals that its processes have already received from the terminal
        if found is signal.SIGTERM:
            signal.signal(number, USUAL[found])  # the second one ends the process even within a call of a library
        elif since_first_s >= SAME_S:
            signal.signal(number, USUAL[found])
            signal.raise_signal(number)
