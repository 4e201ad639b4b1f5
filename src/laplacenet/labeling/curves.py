"""How the training of a labeling went: a line of `epochs.jsonl` for every epoch of every stage."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from laplacenet.runtime import RunFolder


@dataclass(frozen=True)
class StageEpoch:
    """One epoch, or a piece of one.

    `steps` are all of the stage's. `class_shares` are those of the pseudo-labels among rows without a label, None in an
    epoch without pseudo-labels. `elapsed_s` counts the training of all stages so far.
    """

    stage: str
    epoch: int
    phase: str
    step: int
    steps: int
    is_complete: bool
    loss: float
    lr: float
    n_unreachable: int | None
    is_converged: bool | None
    class_shares: list[float] | None
    elapsed_s: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def read_curves(folder: Path) -> list[dict[str, Any]]:
    """The epochs of all stages in the order in which they were run; none where nothing was trained."""
    return RunFolder(folder).epochs()
