"""What is seen of a labeling while it goes on: its stage, its steps and the time left, on stderr."""

import time

from rich.console import Console

from laplacenet.cli.progress import Display
from laplacenet.cli.wording import duration
from laplacenet.labeling.curves import StageEpoch

SAID_OF_STAGES = {
    "estimate": "learning, a part of the labels hidden",
    "suspects": "looking for wrong labels",
    "final": "learning from all labels",
    "vote": "another network, to vote",
}


class StageDisplay(Display):
    """A bar for the stage under way on a terminal, elsewhere a line when a stage begins and every few seconds."""

    def __init__(self, console: Console, *, ends_at: float | None) -> None:
        super().__init__(console, "", n=1)
        self.ends_at, self.stage = ends_at, ""

    def show(self, record: StageEpoch) -> None:
        title = f"{SAID_OF_STAGES[record.stage.split('-')[0]]} ({record.stage})"
        is_notable = record.stage != self.stage or record.step == record.steps
        self.stage = record.stage
        state = f"loss {record.loss:.3f}{self._left()}"
        self.update(title=title, n=record.steps, n_done=record.step, state=state, is_notable=is_notable)

    def _left(self) -> str:
        """Of the whole labeling; unknown where no time was set."""
        if self.ends_at is None:
            return ""
        return f"  {duration(max(0.0, self.ends_at - time.monotonic()))} left in all"
