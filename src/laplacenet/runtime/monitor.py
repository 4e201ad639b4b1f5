"""What a long computation tells the person who waits, and how it is asked to stop."""

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Protocol, runtime_checkable

from laplacenet.runtime.launch import read_launch

USUAL: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
"""What a signal does by itself, even where a shell has let the process ignore it."""


@runtime_checkable
class Monitor(Protocol):
    """Handed to long work: it counts what is done and knows whether to stop early."""

    @property
    def should_stop(self) -> bool: ...

    def advance(self, n: int) -> None: ...


class NullMonitor:
    """Counts nothing and never stops the work."""

    should_stop = False

    def advance(self, n: int) -> None:
        pass


class Interruption:
    """Catches SIGINT and SIGTERM while it is open, so that the work can end at a step's boundary with a checkpoint.

    A second signal of the same kind has the usual effect at once.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
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
        self.signal = signal.Signals(number)
        if read_launch().size == 1:  # torchrun passes on the signals that its processes have had from the terminal
            signal.signal(number, USUAL[self.signal])
