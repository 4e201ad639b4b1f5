"""What is seen of a labeling while it goes on: its stage, its steps and the time left, on stderr."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console

from laplacenet.cli.progress import Display, print_line, reading, warn
from laplacenet.cli.wording import duration
from laplacenet.labeling.session import Progress
from laplacenet.labeling.stages import StageEpoch
from laplacenet.runtime import Monitor

TITLES = {
    "estimate": "training, some labels held out",
    "suspects": "looking for wrong labels",
    "fold": "training beside the features, some labels held out",
    "final": "training on all labels",
    "vote": "training another network to vote",
}


class TerminalProgress(Progress):
    """A labeling on stderr."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[Monitor]:
        with reading(name) as tally:
            yield tally

    def warn(self, text: str) -> None:
        warn(self.console, text)

    def chose(self, sentences: Sequence[str]) -> None:
        print_line(self.console, "chose: " + " ".join(sentences))

    @contextlib.contextmanager
    def training(self, ends_at: float | None) -> Iterator[Callable[[StageEpoch], None]]:
        with StageDisplay(self.console, ends_at=ends_at) as display:
            yield display.show


class StageDisplay(Display):
    """A bar for the stage under way on a terminal, elsewhere a line when a stage begins and every few seconds."""

    def __init__(self, console: Console, *, ends_at: float | None) -> None:
        super().__init__(console, "", n=1)
        self.ends_at, self.stage = ends_at, ""

    def show(self, record: StageEpoch) -> None:
        title = f"{TITLES[record.stage.split('-')[0]]} ({record.stage})"
        is_notable = record.stage != self.stage or record.step == record.steps
        self.stage = record.stage
        state = f"loss {record.loss:.3f}{self._left()}"
        self.update(title=title, n=record.steps, n_done=record.step, state=state, is_notable=is_notable)

    def _left(self) -> str:
        """Of the whole labeling; unknown where no time was set."""
        if self.ends_at is None:
            return ""
        return f"  {duration(max(0.0, self.ends_at - time.monotonic()))} left in all"
