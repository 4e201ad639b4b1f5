"""Progress of a labeling on stderr: its stage, its steps and the time left."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console

from laplacenet.cli.progress import Display, counter, print_line, reading, warn
from laplacenet.cli.wording import duration
from laplacenet.labeling.session import Progress
from laplacenet.labeling.stage_plan import stage_words
from laplacenet.labeling.stages import StageEpoch
from laplacenet.runtime import Monitor


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
        self.ends_at, self.stage = ends_at, ""
        super().__init__(console, "training")  # which stage it is, its first epoch tells

    def show(self, record: StageEpoch) -> None:
        is_new = record.stage != self.stage
        if is_new:
            self.stage = record.stage
            self.expect(record.steps)
        self.update(
            title=stage_words(record.stage),
            n=record.steps,
            n_done=record.step,
            state=f"loss {record.loss:.3f}",
            is_notable=is_new or record.step == record.steps,
        )

    def facts(self) -> tuple[str, ...]:
        """The time left for the whole labeling, which may well end before its time limit, and for this stage."""
        limit_s = None if self.ends_at is None else max(0.0, self.ends_at - time.monotonic())
        stage_s = self.left_s()
        if limit_s is not None and stage_s is not None:
            stage_s = min(stage_s, limit_s)
        limit = "" if limit_s is None else f"at most {duration(limit_s)} left"
        return self.state, limit, "" if stage_s is None else f"{duration(stage_s)} left in this stage"
