"""Progress of a labeling on stderr: its stage, its steps and the time left."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console

from laplacenet.cli.progress import Display, counter, print_line, reading, warn
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

    @contextlib.contextmanager
    def embedding(self, name: str) -> Iterator[Monitor]:
        with counter(f"embedding {Path(name).name}") as tally:
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
    """A bar for the current stage on a terminal, elsewhere a line when a stage begins and every few seconds."""

    def __init__(self, console: Console, *, ends_at: float | None) -> None:
        super().__init__(console, "", n=1)
        self.ends_at, self.stage = ends_at, ""

    def show(self, record: StageEpoch) -> None:
        title = f"{TITLES[record.stage.split('-')[0]]} ({record.stage})"
        is_new = record.stage != self.stage
        if is_new:
            self.stage = record.stage
            self.expect(record.steps)
        is_notable = is_new or record.step == record.steps
        state = f"loss {record.loss:.3f}"
        self.update(title=title, n=record.steps, n_done=record.step, state=state, is_notable=is_notable)

    def time_left(self) -> str:
        """Of this stage, and at most of the whole labeling, which may well end before its time limit."""
        stage = super().time_left()
        if self.ends_at is None:
            return stage
        limit = f"at most {duration(max(0.0, self.ends_at - time.monotonic()))}"
        return f"{stage} in this stage, {limit} in all" if stage else f"{limit} left in all"
