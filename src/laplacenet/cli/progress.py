"""Progress on stderr: a bar on a terminal, elsewhere a line every few seconds."""

import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task
from rich.table import Table
from rich.text import Text

from laplacenet.cli.wording import duration, percent
from laplacenet.runtime import Interruption
from laplacenet.runtime.errors import one_line

if TYPE_CHECKING:
    from laplacenet.experiments import EpochRecord

LINE_EVERY_S = 5.0
TEST_ERROR = "test error"
LEAST_TIMED_S, LEAST_TIMED = 2.0, 2
"""Seconds and counts behind an estimate of the time left; from less it would be a guess."""
NARROWEST_BAR, WIDEST_BAR = 10, 24
GAP = "  "
"""Between the parts of a line."""
Shown = TypeVar("Shown", bound="Display")


class Pace:
    """How fast something is counted, by `time.monotonic`.

    The clock starts at the first count, which is not timed itself: it often takes far longer than those that follow,
    since memory is allocated and kernels are compiled.
    """

    def __init__(self) -> None:
        self.n_first: int | None = None
        self.started_at = 0.0

    def count(self, n_done: int) -> None:
        if self.n_first is None:
            self.n_first, self.started_at = n_done, time.monotonic()

    def left_s(self, n_done: int, n: int) -> float | None:
        """The time for the rest; None while there is too little to estimate it from."""
        n_timed = 0 if self.n_first is None else n_done - self.n_first
        elapsed_s = time.monotonic() - self.started_at
        if n_timed < LEAST_TIMED or elapsed_s < LEAST_TIMED_S:
            return None
        return elapsed_s / n_timed * (n - n_done)


class OneLine(Progress):
    """A task on one line of the terminal; rich would cut off all parts of it alike where they do not fit."""

    def get_renderables(self) -> Iterable[Table]:
        for task in self.tasks:
            yield fitted_line(task, self.console.width)


def fitted_line(task: Task, width: int) -> Table:
    """Title, bar and count, with as many of the task's facts as fit; only a title that leaves no room is cut."""
    count, facts = MofNCompleteColumn().render(task), list(filter(None, task.fields["facts"]))
    title_width = cell_len(task.description)
    left = width - title_width - NARROWEST_BAR - count.cell_len - 2 * len(GAP)
    while facts and cell_len(GAP.join(["", *facts])) > left:
        facts.pop()
    said = GAP.join(facts)
    left -= cell_len(said) + (len(GAP) if said else 0)
    bar = BarColumn(min(WIDEST_BAR, NARROWEST_BAR + max(0, left))).render(task)
    line = Table.grid(padding=(0, len(GAP), 0, 0))
    line.add_column(no_wrap=True, max_width=max(1, title_width + min(0, left)))
    rest: list[RenderableType] = [bar, count, Text(said)] if said else [bar, count]
    for _ in rest:
        line.add_column(no_wrap=True)
    line.add_row(Text(task.description), *rest)
    return line


class Display:
    """Counts work as it is done: a bar on a terminal, elsewhere a line every few seconds.

    It is a monitor that never stops the work. `n` is None where the total is not known. Only stderr is written to:
    standard output may be a table in the making. If that goes to the same terminal, `is_live=False` asks for lines in
    place of a bar, which would overwrite it. A `transient` bar disappears at the end.
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
        transient: bool = False,
    ) -> None:
        self.console, self.title, self.n, self.n_done = console, one_line(title), n, n_done
        self.state, self.pace = "", Pace()
        self.details: tuple[str, ...] = ()
        self.is_live = is_live and console.is_terminal
        self.said_at = time.monotonic()
        self.counting = threading.Lock()  # pictures are decoded in threads
        self.progress = OneLine(console=console, transient=transient, redirect_stdout=False, disable=not self.is_live)
        self.task = self.progress.add_task(self.title, total=n, completed=n_done, facts=self.facts())

    def __enter__(self: Shown) -> Shown:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def expect(self, n: int) -> None:
        """Work on `n` things begins, of which none is done yet."""
        with self.counting:
            self.n, self.n_done, self.pace = n, 0, Pace()

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
        details: Iterable[str] = (),
        is_notable: bool = False,
    ) -> None:
        """Change what is given; what is notable gets a line at once. On a narrow terminal details are left out."""
        with self.counting:
            self.title = self.title if title is None else one_line(title)
            self.n = self.n if n is None else n
            self.n_done = self.n_done if n_done is None else n_done
            if state is not None:
                self.state, self.details = one_line(state), tuple(map(one_line, details))
            self.refresh(is_notable=is_notable)

    def refresh(self, *, is_notable: bool = False) -> None:
        self.pace.count(self.n_done)
        facts = self.facts()
        self.progress.update(self.task, description=self.title, completed=self.n_done, total=self.n, facts=facts)
        now = time.monotonic()
        if not self.is_live and (is_notable or now - self.said_at >= LINE_EVERY_S):
            self.said_at = now
            count = f"{self.n_done}" if self.n is None else f"{self.n_done}/{self.n}"
            print_line(self.console, GAP.join(filter(None, (self.title, count, *facts))))

    def facts(self) -> tuple[str, ...]:
        """What is said after the count, the most important first."""
        return self.state, self.time_left(), *self.details

    def time_left(self) -> str:
        """Empty while it cannot be estimated, and at the end."""
        left_s = self.left_s()
        return "" if left_s is None else f"{duration(left_s)} left"

    def left_s(self) -> float | None:
        return None if self.n is None or self.n_done >= self.n else self.pace.left_s(self.n_done, self.n)


class RunDisplay(Display):
    """The steps of a run, with loss, test error and pseudo-label accuracy. Each kind of remark is made once per run.

    `said` are the kinds of remarks already made in earlier sessions; `error_name` is what a test error is to be called.
    """

    def __init__(
        self,
        console: Console,
        title: str,
        *,
        n_steps: int,
        n_done: int,
        said: Iterable[str] = (),
        error_name: str = TEST_ERROR,
    ) -> None:
        super().__init__(console, title, n=n_steps, n_done=n_done)
        self.said, self.error_name = set(said), error_name
        self.is_first = True

    def show(self, record: "EpochRecord") -> None:
        from laplacenet.experiments.run_records import remarks

        for kind, text in remarks(record).items():
            if kind not in self.said:
                warn(self.console, text)
                self.said.add(kind)
        is_notable = self.is_first or record.step == self.n
        self.update(
            n_done=record.step,
            state=f"loss {record.loss:.3f}",
            details=details_of(record, self.error_name),
            is_notable=is_notable,
        )
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


def counter(title: str, *, n: int | None = None, is_live: bool = True) -> Display:
    """A monitor that shows a count, which disappears at the end."""
    return Display(Console(stderr=True), title, n=n, is_live=is_live, transient=True)


def reading(name: str, *, is_live: bool = True) -> Display:
    """A monitor for reading a data set; it shows the last part of a path only."""
    return counter(f"reading {Path(name).name}", is_live=is_live)


def display_for(
    title: str, *, n_steps: int, n_done: int, said: Iterable[str] = (), error_name: str = TEST_ERROR
) -> RunDisplay:
    """`said` are the kinds of remarks already made in earlier sessions of the run."""
    return RunDisplay(Console(stderr=True), title, n_steps=n_steps, n_done=n_done, said=said, error_name=error_name)


def details_of(record: "EpochRecord", error_name: str = TEST_ERROR) -> list[str]:
    parts = []
    if record.test_error is not None:
        parts.append(f"{error_name} {percent(record.test_error)}")
    if record.pseudo_label_accuracy is not None:
        parts.append(f"pseudo-labels {percent(record.pseudo_label_accuracy)} right")
    if record.used_guesses is not None:
        parts.append(f"guesses {percent(record.used_guesses)} used")
    return parts


def warn(console: Console, text: str) -> None:
    print_line(console, f"warning: {text}")


def print_line(console: Console, text: str) -> None:
    """Print a text unchanged on one line: no markup, no colors, no wrapping, no control characters."""
    console.print(one_line(text), markup=False, highlight=False, soft_wrap=True)
