"""Which runs of a comparison are due, in which order, and how long each is expected to take."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import filelock

from laplacenet.experiments.compare.folder import STEP_TIMES, ComparisonFolder
from laplacenet.experiments.finished_runs import ComparedRun, FailedRun, FinishedRun

ALLOWANCE = 1.1  # the ratio of a run's total time to its training time, until one has been measured
MEASURING_S = 10.0  # the time of measuring a method's steps


@dataclass(frozen=True, eq=False)
class Schedule(ComparisonFolder):
    """What follows from the finished runs of a folder: which runs are next, the tuned rates, the best methods."""

    def due_runs(self) -> list[ComparedRun]:
        """The unfinished runs of the first unfinished stage, without those that failed."""
        for stage in self._stages():
            left = [run for run in stage if not self.is_done(run) and not self.has_failed(run)]
            if left:
                return left
        return []

    def _stages(self) -> Iterator[list[ComparedRun]]:
        """Tuning, then the first seed of every method, then the other seeds; each stage may depend on the one before.

        Without finalists all seeds are one stage. A method waits until every one of its rates has been tried.
        """
        seeds = self.comparison.seeds
        yield self.tuning_runs
        methods = [method for method in self.comparison.methods if self._is_tuned(method)]
        if self.comparison.finalists is None:
            yield [run for seed in seeds for run in self._runs(seed, methods)]
            return
        yield self._runs(seeds[0], methods)
        finalists = self.ranking()[: self.comparison.finalists]
        yield [run for seed in seeds[1:] for run in self._runs(seed, finalists)]

    @contextlib.contextmanager
    def claim(self) -> Iterator[ComparedRun | None]:
        """The first due run that no other process works on; None where there is none."""
        for run in self.due_runs():
            lock = self._claim_lock(run)
            try:
                lock.acquire()
            except filelock.Timeout:
                continue
            try:
                if not self.is_done(run) and not self.has_failed(run):  # another process may have made it since
                    yield run
                    return
            finally:
                lock.release()
        yield None

    @property
    def tuning_runs(self) -> list[ComparedRun]:
        return self.comparison.tuning_runs

    def _runs(self, seed: int, methods: Sequence[str]) -> list[ComparedRun]:
        return [ComparedRun(method, seed, self.rate(method)) for method in methods]

    def rate(self, method: str) -> float | None:
        """The tuned learning rate, the first of equally good ones; None without tuning."""
        found = [self.result(run) for run in self.tuning_runs if run.method == method]
        return min(found, key=lambda result: result.error).run.lr if found else None

    def _is_tuned(self, method: str) -> bool:
        return all(self.is_done(run) for run in self.tuning_runs if run.method == method)

    def ranking(self) -> list[str]:
        """The methods by their error on the first seed."""
        runs = [ComparedRun(method, self.comparison.seeds[0]) for method in self.comparison.methods]
        results = [self.result(run) for run in runs if self.is_done(run)]
        return [result.run.method for result in sorted(results, key=lambda result: result.error)]

    def results(self) -> list[FinishedRun]:
        """Of all finished runs but those of tuning."""
        return [self.result(run) for run in self.comparison.final_runs if self.is_done(run)]

    def tuning_results(self) -> list[FinishedRun]:
        return [self.result(run) for run in self.tuning_runs if self.is_done(run)]

    def failures(self) -> list[FailedRun]:
        """Runs that failed during this command, in any of its processes."""
        runs = [*self.tuning_runs, *self.comparison.final_runs]
        return [self._failure(run) for run in runs if not self.is_done(run) and self.has_failed(run)]

    def expected_s(self, run: ComparedRun) -> float:
        """How long the run will take from here on: as long as the longest of its kind so far.

        Before there is one, its training time with an allowance for measuring, tests and saving; 0 where only the
        number of steps is known.
        """
        known = self.tuning_results() if run.is_tuning else self.results()
        own = [result.wall_s for result in known if result.run.method == run.method]
        for_s = self.comparison.for_s
        if run.is_tuning and self.comparison.tuning is not None:
            for_s = self.comparison.tuning.for_s
        if for_s is None:
            return max(own or [result.wall_s for result in known], default=0.0)
        measuring_s = 0.0 if self._step_times(run.method).is_file() else MEASURING_S
        return measuring_s + max((result.wall_s for result in known), default=ALLOWANCE * for_s)

    def _step_times(self, method: str) -> Path:
        return self.folder / STEP_TIMES / f"{method.replace(':', '.')}.json"
