"""The record of Figure 2: the test accuracies of every seed, read back and checked."""

from dataclasses import dataclass
from pathlib import Path

from laplacenet.evaluation import mean_and_std
from laplacenet.experiments.paper.figure_two import KIND, METHODS
from laplacenet.runtime import InputError, read_json
from laplacenet.runtime.decoding import decode

FOLDER, RECORD, PICTURE = "figure-2", "two-moons.json", "figure-2.png"


@dataclass(frozen=True)
class MoonsRun:
    """One seed: test accuracy with all labels, with the network's pseudo-labels, and with the graph's."""

    seed: int
    supervised: float
    network: float
    graph: float

    def __post_init__(self) -> None:
        for method in METHODS:
            if not 0 <= getattr(self, method) <= 1:
                raise InputError(f"{method} is {getattr(self, method)}; an accuracy lies between 0 and 1")


@dataclass(frozen=True)
class MoonsRecord:
    runs: tuple[MoonsRun, ...]

    def spread(self, method: str) -> tuple[float, float | None]:
        """Mean and deviation in percent."""
        return mean_and_std([100 * getattr(run, method) for run in self.runs])

    def advantage(self) -> tuple[float, float | None]:
        """How many points the graph is ahead of the network, seed by seed."""
        return mean_and_std([100 * (run.graph - run.network) for run in self.runs])


def read_moons(results: Path) -> MoonsRecord | None:
    path = results / FOLDER / RECORD
    if not path.is_file():
        return None
    content = read_json(path)
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise InputError(f"{path}: not a record of Figure 2")
    runs = content.get("runs")
    if not isinstance(runs, list) or not runs:
        raise InputError(f"{path}: a record of Figure 2 without a run")
    try:
        return MoonsRecord(tuple(decode(MoonsRun, run, source=f"runs[{i}]") for i, run in enumerate(runs)))
    except InputError as error:
        raise InputError(f"{path}: not a record of Figure 2 ({error})") from error
