"""Finished runs of a comparison as JSON: all that its table, picture and record need, and where each was made."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

from laplacenet.experiments.experiment import Experiment, without_paths
from laplacenet.experiments.notation import from_json, to_json
from laplacenet.experiments.run_records import EpochRecord, Outcome
from laplacenet.runtime import InputError
from laplacenet.runtime.decoding import decode
from laplacenet.runtime.errors import first_line

Curve = tuple[tuple[int, float, float | None], ...]
"""Step, seconds of training, test error."""


@dataclass(frozen=True)
class ComparedRun:
    """One run of a comparison and its place below the folder; tuning runs are tested on held-out labels."""

    method: str
    seed: int
    lr: float | None = None
    is_tuning: bool = False

    @property
    def name(self) -> str:
        method = self.method.replace(":", ".")
        return f"tuning/{method}-{self.lr:g}" if self.is_tuning else f"runs/{method}-seed-{self.seed}"


@dataclass(frozen=True)
class FinishedRun:
    """The result of a run: its outcome (None if it diverged), its curve and its provenance.

    `wall_s` is all that it took, with tests and checkpoints; `origin` has the commit, the hardware, the date and the
    hashes of the data, which older runs do not have.
    """

    run: ComparedRun
    experiment: Experiment
    outcome: Outcome | None
    curve: Curve
    wall_s: float
    origin: dict[str, Any]

    @property
    def error(self) -> float:
        """1 for a run that diverged."""
        return 1.0 if self.outcome is None or self.outcome.test_error is None else self.outcome.test_error

    @property
    def train_s(self) -> float:
        return self.curve[-1][1] if self.curve else 0.0

    def to_json(self) -> dict[str, Any]:
        """Without the machine's paths."""
        return {
            "method": self.run.method,
            "seed": self.run.seed,
            "is_tuning": self.run.is_tuning,
            "lr": self.experiment.train.lr,
            "steps": self.experiment.train.steps,
            "split_key": self.experiment.data.split_key,
            "test_error": None if self.outcome is None else self.outcome.test_error,
            "has_diverged": self.outcome is None,
            "train_s": round(self.train_s, 3),
            "wall_s": round(self.wall_s, 3),
            "origin": self.origin,
            "experiment": to_json(without_paths(self.experiment)),
            "outcome": None if self.outcome is None else self.outcome.to_json(),
            "curve": [[step, round(seconds, 3), error] for step, seconds, error in self.curve],
        }


@dataclass(frozen=True)
class FailedRun:
    """A run that an error ended: which, the error's message, and when (seconds of the clock)."""

    method: str
    seed: int
    lr: float | None
    is_tuning: bool
    error: str
    failed_at: float

    @classmethod
    def of(cls, run: ComparedRun, error: Exception, *, failed_at: float) -> "FailedRun":
        said = f"{type(error).__name__}: {first_line(error)}"
        return cls(run.method, run.seed, run.lr, run.is_tuning, said, failed_at)

    @property
    def name(self) -> str:
        return ComparedRun(self.method, self.seed, self.lr, self.is_tuning).name

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class StoredRun:
    """What is read of a finished run's JSON; the rest of it is there for other readers."""

    method: str
    seed: int
    lr: float
    is_tuning: bool
    outcome: Outcome | None
    curve: Curve
    wall_s: float
    origin: dict[str, Any]


def read_finished_run(content: Any, *, source: str) -> FinishedRun:
    """What `FinishedRun.to_json` gave."""
    try:
        named = {field.name: content[field.name] for field in fields(StoredRun)}
        stored = decode(StoredRun, named, source="")
        experiment = from_json(content["experiment"], source="")
    except (KeyError, TypeError, InputError) as error:
        raise InputError(f"{source}: not a finished run of laplacenet compare ({error})") from error
    run = ComparedRun(stored.method, stored.seed, stored.lr, is_tuning=stored.is_tuning)
    return FinishedRun(run, experiment, stored.outcome, stored.curve, stored.wall_s, stored.origin)


def curve_of(epochs: Iterable[EpochRecord]) -> Curve:
    """Label passes and capture count as training, tests and checkpoints do not."""
    seconds, points = 0.0, []
    for epoch in epochs:
        seconds += epoch.n_steps * epoch.step_s + epoch.label_s + epoch.compile_s
        points.append((epoch.step, seconds, epoch.test_error))
    return tuple(points)
