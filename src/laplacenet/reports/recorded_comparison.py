"""A recorded comparison in any state: only tuned, partly run, or complete; and what it still lacks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from laplacenet.experiments.compare import Comparison, read_comparison, split_name
from laplacenet.experiments.finished_runs import FailedRun, FinishedRun, read_finished_run
from laplacenet.runtime import InputError
from laplacenet.runtime.decoding import decode
from laplacenet.runtime.files import read_unchanged


@dataclass(frozen=True)
class RecordedComparison:
    """What was asked for, and what of it is recorded in the file `path`: `tried` in tuning, `runs` and `failures`."""

    path: Path
    command: str
    asked: Comparison
    tried: tuple[FinishedRun, ...]
    runs: tuple[FinishedRun, ...]
    failures: tuple[FailedRun, ...]

    @property
    def name(self) -> str:
        """That of the file, without its ending."""
        return self.path.stem

    @cached_property
    def n_labeled(self) -> int | None:
        """In tuning the held-out labels are not among those of a run."""
        of_runs = [run.outcome.n_labeled for run in self.runs if run.outcome is not None]
        held_out = 0 if self.asked.tuning is None else self.asked.tuning.held_out
        of_tuning = [run.outcome.n_labeled + held_out for run in self.tried if run.outcome is not None]
        return next(iter([*of_runs, *of_tuning]), self.asked.base.data.n_labeled)

    @property
    def rates(self) -> tuple[float, ...]:
        return () if self.asked.tuning is None else self.asked.tuning.rates

    def attempt(self, method: str, rate: float) -> FinishedRun | None:
        """The tuning run of a method with this learning rate."""
        found = [run for run in self.tried if (run.run.method, run.run.lr) == (method, rate)]
        return found[0] if found else None

    def chosen(self, method: str) -> FinishedRun | None:
        """The tuning run that gave the method its learning rate, the first of equally good ones, once all are made."""
        attempts = [self.attempt(method, rate) for rate in self.rates]
        made = [attempt for attempt in attempts if attempt is not None]
        return min(made, key=lambda run: run.error) if made and len(made) == len(attempts) else None

    def run(self, method: str, seed: int) -> FinishedRun | None:
        found = [run for run in self.runs if (run.run.method, run.run.seed) == (method, seed)]
        return found[0] if found else None

    def runs_of(self, method: str) -> list[FinishedRun]:
        return [run for seed in self.asked.seeds if (run := self.run(method, seed)) is not None]

    @cached_property
    def ranking(self) -> tuple[str, ...]:
        """The methods with a run on the first seed, the best first; its error compares all of them."""
        first = [run for method in self.asked.methods if (run := self.run(method, self.asked.seeds[0])) is not None]
        return tuple(run.run.method for run in sorted(first, key=lambda run: run.error))

    @cached_property
    def by_error(self) -> tuple[str, ...]:
        """All methods: by the first seed's error if there are finalists, else as in `by_method`; then those not run."""
        ran = [method for method in self.asked.methods if self.runs_of(method)]
        if self.asked.finalists is None:
            ordered: Iterable[str] = by_method([run for method in ran for run in self.runs_of(method)])
        else:
            ordered = [*self.ranking, *(method for method in ran if method not in self.ranking)]
        return tuple(dict.fromkeys([*ordered, *self.asked.methods]))

    @cached_property
    def advanced(self) -> tuple[str, ...] | None:
        """The methods that are due on the seeds after the first; None while the finalists are not known."""
        if self.asked.finalists is None:
            return self.asked.methods
        if len(self.ranking) == len(self.asked.methods):
            return self.ranking[: self.asked.finalists]
        later = {run.run.method for run in self.runs if run.run.seed != self.asked.seeds[0]}
        return tuple(method for method in self.ranking if method in later) if later else None

    def missing_rates(self, method: str) -> list[float]:
        return [rate for rate in self.rates if self.attempt(method, rate) is None]

    def missing_on(self, seed: int) -> list[str] | None:
        """The methods without a run on this seed; None where it is not known yet which ones are due."""
        due = self.asked.methods if seed == self.asked.seeds[0] else self.advanced
        return None if due is None else [method for method in due if self.run(method, seed) is None]

    @property
    def has_curves(self) -> bool:
        return any(error is not None for run in self.runs for _, _, error in run.curve)

    def seed_name(self, seed: int) -> str:
        """Of a file with several splits each seed has its own."""
        has_own_split = self.asked.split_key is not None and "{" in self.asked.split_key
        return f"split {split_name(str(self.asked.split_key), seed)}" if has_own_split else f"seed {seed}"


def by_method(results: Sequence[FinishedRun]) -> dict[str, list[FinishedRun]]:
    """The best method first, by the mean error over the seeds that all methods have run: finalists have run more."""
    found: dict[str, list[FinishedRun]] = {}
    for result in results:
        found.setdefault(result.run.method, []).append(result)
    shared = set.intersection(*({result.run.seed for result in own} for own in found.values())) if found else set()

    def error(item: tuple[str, list[FinishedRun]]) -> float:
        return mean_error([result for result in item[1] if result.run.seed in shared or not shared])

    return dict(sorted(found.items(), key=error))


def mean_error(runs: Sequence[FinishedRun]) -> float:
    return sum(run.error for run in runs) / len(runs)


def read_recorded_comparisons(folder: Path) -> list[RecordedComparison]:
    """The records of `laplacenet compare --record` in this folder, by name."""
    return [read_recorded_comparison(path) for path in sorted(folder.glob("*.json"))] if folder.is_dir() else []


def read_recorded_comparison(path: Path) -> RecordedComparison:
    content, source = read_unchanged(path), str(path)
    try:
        return RecordedComparison(
            path=path,
            command=str(content["command"]),
            asked=read_comparison(content["comparison"], source=source),
            tried=_read_runs(content["tuning"], source=source),
            runs=_read_runs(content["runs"], source=source),
            failures=tuple(decode(FailedRun, entry, source=source) for entry in content.get("failed", [])),
        )
    except (KeyError, TypeError, ValueError) as error:
        missing = f"it has no {error}" if isinstance(error, KeyError) else error
        raise InputError(f"{path}: not a record of laplacenet compare ({missing})") from error


def _read_runs(entries: Iterable[Any], *, source: str) -> tuple[FinishedRun, ...]:
    return tuple(read_finished_run(entry, source=source) for entry in entries)
