"""Records: one small JSON file for a finished run, enough to fill the paper's tables and figures without its folder.

A record says of which experiment, split and schedule it is; runs of different schedules, kinds of splits or settings
lie in different files and are never averaged together. Where a machine keeps its files is left out.
"""

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laplacenet.experiments.experiment import Experiment, without_paths
from laplacenet.experiments.notation import from_json, to_json
from laplacenet.experiments.paper.variants import PAPER_STEPS
from laplacenet.experiments.run_records import EpochRecord, Outcome, last_known
from laplacenet.runtime import InputError, write_sealed
from laplacenet.runtime.decoding import Decoder
from laplacenet.runtime.files import read_unchanged

FORMAT = 1
SPLIT_SOURCES = ("published", "balanced")
PATTERN = "*/*/*/*-split[0-9]*-steps*.json"  # other kinds of results may be in the same folder
MAX_POINTS = 60


@dataclass(frozen=True)
class CurvePoint:
    """An epoch's end."""

    step: int
    loss: float
    test_error: float | None
    pseudo_label_accuracy: float | None


@dataclass(frozen=True)
class RunKey:
    """Which run: experiment, label split, schedule, and what was set otherwise than the recipe says.

    `base_steps` stands for the paper's 250 000; an experiment that scales the steps takes a multiple of it.
    """

    name: str
    split: int
    split_source: str
    base_steps: int
    overrides: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.split_source not in SPLIT_SOURCES:
            raise InputError(f"split_source is {self.split_source!r}; it must be one of {', '.join(SPLIT_SOURCES)}")
        if self.split < 0 or self.base_steps < 1:
            raise InputError(f"split {self.split} at {self.base_steps} steps; splits count from 0, steps from 1")

    @property
    def is_full(self) -> bool:
        return self.base_steps == PAPER_STEPS

    @property
    def path(self) -> Path:
        """Where the run's folder lies below the runs, and its record (with `.json`) below the results."""
        leaf = f"{self.split_source}-split{self.split:02d}-steps{self.base_steps}"
        if self.overrides:
            leaf += "-set-" + hashlib.blake2b("\n".join(self.overrides).encode(), digest_size=4).hexdigest()
        return Path(self.name) / leaf


@dataclass(frozen=True)
class Record:
    """`outcome` is what the run folder's `final.json` says; of a run that diverged, what was last known."""

    key: RunKey
    experiment: Experiment
    provenance: dict[str, Any]
    outcome: Outcome
    curve: tuple[CurvePoint, ...]
    diverged_at_step: int | None = None

    def __post_init__(self) -> None:
        shares = ("test_error", "best_test_error", "pseudo_label_accuracy")
        for name in shares:
            _require_share(name, getattr(self.outcome, name))
        if len(self.curve) > MAX_POINTS:
            raise InputError(f"the curve has {len(self.curve)} points; at most {MAX_POINTS} are kept")
        if any(a.step >= b.step for a, b in zip(self.curve, self.curve[1:], strict=False)):
            raise InputError("the steps of the curve must ascend")
        for point in self.curve:
            _require_share("a point of the curve", point.test_error)


def make_record(
    key: RunKey,
    experiment: Experiment,
    outcome: Outcome,
    *,
    epochs: Sequence[EpochRecord],
    provenance: dict[str, Any],
    diverged_at_step: int | None = None,
) -> Record:
    return Record(
        key=key,
        experiment=without_paths(experiment),
        provenance=provenance,
        outcome=outcome,
        curve=thin_curve(epochs),
        diverged_at_step=diverged_at_step,
    )


def thin_curve(epochs: Sequence[EpochRecord], n: int = MAX_POINTS) -> tuple[CurvePoint, ...]:
    """At most `n` epochs, the first and the last among them: those that were tested if possible, others in between."""
    parts: dict[int, list[EpochRecord]] = {}
    for epoch in epochs:
        parts.setdefault(epoch.epoch, []).append(epoch)
    points = [whole_epoch(lines) for lines in parts.values()]
    ends = (0, len(points) - 1)
    is_kept = [point.test_error is not None or i in ends for i, point in enumerate(points)]
    tested = [i for i, kept in enumerate(is_kept) if kept]
    others = [i for i, kept in enumerate(is_kept) if not kept]
    chosen = sorted([*tested, *spread_evenly(others, n - len(tested))]) if len(tested) < n else spread_evenly(tested, n)
    return tuple(points[i] for i in chosen)


def spread_evenly(items: Sequence[int], n: int) -> list[int]:
    """At most `n` of them; from two on, the first and the last are among them."""
    if len(items) <= n:
        return [*items]
    return [items[round(i * (len(items) - 1) / max(1, n - 1))] for i in range(n)]


def whole_epoch(parts: Sequence[EpochRecord]) -> CurvePoint:
    """An interrupted epoch lies in several lines: its labels were judged in the first, all else stands in the last."""
    return CurvePoint(
        step=parts[-1].step,
        loss=parts[-1].loss,
        test_error=parts[-1].test_error,
        pseudo_label_accuracy=last_known(parts, "pseudo_label_accuracy"),
    )


def record_path(results: Path, key: RunKey) -> Path:
    return results / key.path.with_name(key.path.name + ".json")


def write_record(results: Path, record: Record) -> Path:
    path = record_path(results, record.key)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_sealed(path, {"format": FORMAT, **dataclasses.asdict(record), "experiment": to_json(record.experiment)})
    return path


def read_records(results: Path) -> list[Record]:
    """All records below `results`, in the order of their paths; one that is damaged is refused by name."""
    if not results.is_dir():
        raise InputError(f"{results}: no such folder; --results names the one that holds the records")
    return [read_record(path) for path in sorted(results.glob(PATTERN))]


def read_record(path: Path) -> Record:
    content = read_unchanged(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f"{path}: not a record of format {FORMAT}")
    read = Decoder("", {}).value
    try:
        return Record(
            key=read(RunKey, content["key"], "key"),
            experiment=from_json(content["experiment"], source="experiment"),
            provenance=read(dict[str, Any], content["provenance"], "provenance"),
            outcome=read(Outcome, content["outcome"], "outcome"),
            curve=read(tuple[CurvePoint, ...], content["curve"], "curve"),
            diverged_at_step=read(int | None, content["diverged_at_step"], "diverged_at_step"),
        )
    except KeyError as error:
        raise InputError(f"{path}: not a record, it has no {error.args[0]!r}") from error
    except InputError as error:
        raise InputError(f"{path}: not a record ({error})") from error


def _require_share(name: str, value: float | None) -> None:
    if value is not None and not 0 <= value <= 1:
        raise InputError(f"{name} is {value!r}; it must lie between 0 and 1")
