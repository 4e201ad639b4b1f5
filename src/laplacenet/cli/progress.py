"""What is seen of work while it goes on: a bar on a terminal, a line now and then elsewhere; all of it on stderr."""

import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

from laplacenet.cli.wording import duration, percent
from laplacenet.runtime import Interruption
from laplacenet.runtime.errors import one_line

if TYPE_CHECKING:
    from laplacenet.experiments import EpochRecord

LINE_EVERY_S = 5.0
Shown = TypeVar("Shown", bound="Display")


class Display:
    """Counts what is done: a bar on a terminal while it is open, elsewhere a line every few seconds.

    It is a monitor that never stops the work. `n` is None where nobody knows beforehand. Standard output is left alone:
    it may be a table that is written meanwhile. Where that goes to the terminal too, `is_live=False` asks for lines,
    which do not write over it. A `transient` bar leaves nothing behind.
    """

    should_stop = False

    def __init__(
        self,
        console: Console,
        title: str,
        *,
        n: int | None = None,
        n_done: int = 0,
        is_live: bool = True,
        shows_time_left: bool = False,
        transient: bool = False,
    ) -> None:
        self.console, self.title, self.n, self.n_done = console, one_line(title), n, n_done
        self.state, self.n_before = "", n_done
        self.is_live, self.shows_time_left = is_live and console.is_terminal, shows_time_left
        self.began_at = self.said_at = time.monotonic()
        self.counting = threading.Lock()  # pictures are decoded in threads
        self.progress = Progress(
            *columns(shows_time_left=shows_time_left),
            console=console,
            transient=transient,
            redirect_stdout=False,
            disable=not self.is_live,
        )
        self.task = self.progress.add_task(self.title, total=n, completed=n_done, state="")

    def __enter__(self: Shown) -> Shown:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def advance(self, n: int) -> None:
        with self.counting:
            self.n_done += n
            self.refresh()

    def update(
        self,
        *,
        title: str | None = None,
        n: int | None = None,
        n_done: int | None = None,
        state: str | None = None,
        is_notable: bool = False,
    ) -> None:
        """Change what is given; what is notable gets a line at once."""
        with self.counting:
            self.title = self.title if title is None else one_line(title)
            self.n = self.n if n is None else n
            self.n_done = self.n_done if n_done is None else n_done
            self.state = self.state if state is None else one_line(state)
            self.refresh(is_notable=is_notable)

    def refresh(self, *, is_notable: bool = False) -> None:
        self.progress.update(self.task, description=self.title, completed=self.n_done, total=self.n, state=self.state)
        now = time.monotonic()
        if not self.is_live and (is_notable or now - self.said_at >= LINE_EVERY_S):
            self.said_at = now
            print_line(self.console, "  ".join(self._parts()))

    def _parts(self) -> list[str]:
        count = f"{self.n_done}" if self.n is None else f"{self.n_done}/{self.n}"
        parts = [self.title, count, self.state]
        if self.shows_time_left and self.n is not None:
            rate_s = (time.monotonic() - self.began_at) / max(1, self.n_done - self.n_before)
            parts.append(f"{duration(rate_s * (self.n - self.n_done))} left")
        return [part for part in parts if part]


class RunDisplay(Display):
    """The steps of a run, with loss, test error and pseudo-label accuracy; and each kind of remark once a run.

    `said` are the kinds of remarks that earlier sessions made.
    """

    def __init__(self, console: Console, title: str, *, n_steps: int, n_done: int, said: Iterable[str] = ()) -> None:
        super().__init__(console, title, n=n_steps, n_done=n_done, shows_time_left=True)
        self.said = set(said)
        self.is_first = True

    def show(self, record: "EpochRecord") -> None:
        from laplacenet.experiments.run_records import remarks

        for kind, text in remarks(record).items():
            if kind not in self.said:
                warn(self.console, text)
                self.said.add(kind)
        is_notable = self.is_first or record.step == self.n
        self.update(n_done=record.step, state=state_of(record), is_notable=is_notable)
        self.is_first = False


class Watch:
    """The monitor of a run: it feeds the display and stops the run on a signal or when its time is up."""

    def __init__(
        self, interruption: Interruption, display: Display | None = None, *, limit_s: float | None = None
    ) -> None:
        self.interruption, self.display = interruption, display
        self.stops_at = None if limit_s is None else time.monotonic() + limit_s

    @property
    def should_stop(self) -> bool:
        is_late = self.stops_at is not None and time.monotonic() >= self.stops_at
        return is_late or self.interruption.signal is not None

    def advance(self, n: int) -> None:
        if self.display is not None:
            self.display.advance(n)


def columns(*, shows_time_left: bool) -> list[ProgressColumn]:
    text: Any = TextColumn("{task.fields[state]}", markup=False)
    shown = [TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), MofNCompleteColumn(), text]
    return [*shown, TimeRemainingColumn(compact=True), TextColumn("left")] if shows_time_left else shown


def counter(title: str, *, n: int | None = None, is_live: bool = True) -> Display:
    """The monitor of work that is counted; nothing is left of it when it is done."""
    return Display(Console(stderr=True), title, n=n, is_live=is_live, transient=True)


def reading(name: str, *, is_live: bool = True) -> Display:
    """The monitor of reading a data set, of which only its own name is said."""
    return counter(f"reading {Path(name).name}", is_live=is_live)


def display_for(title: str, *, n_steps: int, n_done: int, said: Iterable[str] = ()) -> RunDisplay:
    """`said` are the kinds of remarks that earlier sessions of the run made."""
    return RunDisplay(Console(stderr=True), title, n_steps=n_steps, n_done=n_done, said=said)


def state_of(record: "EpochRecord") -> str:
    parts = [f"loss {record.loss:.3f}"]
    if record.test_error is not None:
        parts.append(f"test error {percent(record.test_error)}")
    if record.pseudo_label_accuracy is not None:
        parts.append(f"pseudo-labels {percent(record.pseudo_label_accuracy)} right")
    return "  ".join(parts)


def warn(console: Console, text: str) -> None:
    print_line(console, f"warning: {text}")


def print_line(console: Console, text: str) -> None:
    """As it is, but in one line: no markup, no colors, no wrapping, no control characters."""
    console.print(one_line(text), markup=False, highlight=False, soft_wrap=True)
