"""What is seen of a run while it goes on: a bar on a terminal, a line now and then elsewhere; all of it on stderr."""

import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeVar, runtime_checkable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from laplacenet.cli.wording import duration, percent
from laplacenet.experiments import EpochRecord
from laplacenet.experiments.run_records import remarks
from laplacenet.runtime import Interruption
from laplacenet.runtime.errors import one_line

LINE_EVERY_S = 5.0
Shown = TypeVar("Shown", bound="Live")


@runtime_checkable
class Display(Protocol):
    """Shows steps and epochs."""

    def __enter__(self) -> "Display": ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def advance(self, n: int) -> None: ...
    def show(self, record: EpochRecord) -> None: ...


class Live:
    """Has a bar that is seen while it is open."""

    progress: Progress

    def __enter__(self: Shown) -> Shown:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()


class Bar(Live):
    """Live on a terminal: steps, loss, test error, pseudo-label accuracy, time left."""

    def __init__(self, console: Console, title: str, *, n_steps: int, n_done: int, said: Iterable[str] = ()) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=console,
        )
        self.task = self.progress.add_task(title, total=n_steps, completed=n_done, state="")
        self.notes = Notes(console, said)

    def advance(self, n: int) -> None:
        self.progress.advance(self.task, n)

    def show(self, record: EpochRecord) -> None:
        self.notes.say(record)
        self.progress.update(self.task, state=state_of(record))


class Lines:
    """Where nobody watches: the first epoch, the last, and one every few seconds between."""

    def __init__(self, console: Console, title: str, *, n_steps: int, n_done: int, said: Iterable[str] = ()) -> None:
        self.console, self.title, self.n_steps, self.n_done = console, title, n_steps, n_done
        self.n_before = n_done
        self.began_at = time.monotonic()
        self.said_at = float("-inf")
        self.notes = Notes(console, said)

    def __enter__(self) -> "Lines":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def advance(self, n: int) -> None:
        self.n_done += n

    def show(self, record: EpochRecord) -> None:
        self.notes.say(record)
        if record.step < self.n_steps and time.monotonic() - self.said_at < LINE_EVERY_S:
            return
        self.said_at = time.monotonic()
        rate_s = (self.said_at - self.began_at) / max(1, self.n_done - self.n_before)
        left = duration(rate_s * (self.n_steps - record.step))
        print_line(self.console, f"{self.title}  {record.step}/{self.n_steps}  {state_of(record)}  {left} left")


class Notes:
    """What should be known of the graph: each kind of remark once a run; `said` are those of earlier sessions."""

    def __init__(self, console: Console, said: Iterable[str] = ()) -> None:
        self.console = console
        self.said = set(said)

    def say(self, record: EpochRecord) -> None:
        for kind, text in remarks(record).items():
            if kind not in self.said:
                warn(self.console, text)
                self.said.add(kind)


class Watch:
    """The monitor of a run: it feeds the display and stops the run on a signal or when its time is up."""

    def __init__(self, interruption: Interruption, display: Display, *, limit_s: float | None) -> None:
        self.interruption, self.display = interruption, display
        self.stops_at = None if limit_s is None else time.monotonic() + limit_s

    @property
    def should_stop(self) -> bool:
        is_late = self.stops_at is not None and time.monotonic() >= self.stops_at
        return is_late or self.interruption.signal is not None

    def advance(self, n: int) -> None:
        self.display.advance(n)


class Tally(Live):
    """The monitor of work that is counted: a bar on a terminal while it lasts, elsewhere a line now and then.

    `n` is None where nobody knows beforehand. Standard output is left alone, for it may be a table that is written
    meanwhile; where that goes to the terminal too, `is_live=False` says lines, which do not write over it.
    """

    should_stop = False

    def __init__(self, console: Console, title: str, *, n: int | None = None, is_live: bool = True) -> None:
        self.console, self.title, self.n, self.n_done = console, one_line(title), n, 0
        self.is_live = is_live and console.is_terminal
        self.said_at = time.monotonic()
        self.counting = threading.Lock()  # pictures are decoded in threads
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
            disable=not self.is_live,
        )
        self.task = self.progress.add_task(self.title, total=n)

    def advance(self, n: int) -> None:
        with self.counting:
            self.n_done += n
            self.progress.update(self.task, completed=self.n_done)
            if not self.is_live and time.monotonic() - self.said_at >= LINE_EVERY_S:
                self.said_at = time.monotonic()
                of_all = "" if self.n is None else f"/{self.n}"
                print_line(self.console, f"{self.title}  {self.n_done}{of_all}")


def reading(name: str, *, is_live: bool = True) -> Tally:
    """The monitor of reading a data set, of which only its own name is said."""
    return Tally(Console(stderr=True), f"reading {Path(name).name}", is_live=is_live)


def display_for(title: str, *, n_steps: int, n_done: int, said: Iterable[str] = ()) -> Display:
    """`said` are the kinds of remarks that earlier sessions of the run made."""
    console = Console(stderr=True)
    kind = Bar if console.is_terminal else Lines
    return kind(console, title, n_steps=n_steps, n_done=n_done, said=said)


def state_of(record: EpochRecord) -> str:
    parts = [f"loss {record.loss:.3f}"]
    if record.test_error is not None:
        parts.append(f"test error {percent(record.test_error)}")
    if record.pseudo_label_accuracy is not None:
        parts.append(f"pseudo-labels {percent(record.pseudo_label_accuracy)} right")
    return "  ".join(parts)


def warn(console: Console, text: str) -> None:
    print_line(console, f"warning: {text}")


def print_line(console: Console, text: str) -> None:
    """As it is: no markup, no colors, no wrapping."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
