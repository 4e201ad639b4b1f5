"""How records decide a claim: a few comparisons, the same for all claims.

Experiments are compared under one schedule, on the label splits that all were run on. A difference counts once it
exceeds the noise: twice the standard error of a difference between two means of n runs, with the deviation of one run
that the paper's tables show (0.25 points of error, 0.06 of invariance). What lies within the noise, or was not run,
leaves the claim open; what was run is shown all the same.
"""

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from laplacenet.experiments.experiment import Experiment
from laplacenet.experiments.paper.figure_two import METHODS
from laplacenet.experiments.paper.recipes import experiment_in, find_recipe
from laplacenet.experiments.paper.series import (
    Measure,
    RecordBook,
    Series,
    Spread,
    invariance_on_test,
    invariance_on_train,
    last_error,
    schedule,
    steps_of,
)

NAMES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "mini-imagenet": "Mini-ImageNet"}
ERROR_DEVIATION = 0.25  # of one run, in points
INVARIANCE_DEVIATION: dict[Measure, float] = {invariance_on_test: 0.06, invariance_on_train: 0.06}
DIVERGED_BY = 5.0  # points above the base's error that count as diverged where the loss stays a number


class Verdict(enum.StrEnum):
    REPRODUCED = "reproduced"
    DIRECTION = "direction confirmed at a shortened schedule"
    NOT_RUN = "not yet run"
    CONTRADICTED = "contradicted"


@dataclass(frozen=True)
class Finding:
    verdict: Verdict
    evidence: str


@dataclass(frozen=True)
class Part:
    """What one comparison found: whether it holds (None: open), and whether the schedule was the paper's."""

    holds: bool | None
    is_full: bool
    text: str


Comparison = Callable[[RecordBook], list[Part]]
Value = Callable[..., float]
Bounds = Callable[[float], tuple[float, float]]
MISSING = Part(None, is_full=False, text="")


def decide(parts: Sequence[Part]) -> Finding:
    """All of a claim's parts must hold; one that fails contradicts it."""
    evidence = "; ".join(part.text for part in parts if part.text) or "no run recorded"
    failed = [part for part in parts if part.holds is False]
    if failed:
        where = "" if any(part.is_full for part in failed) else "at a shortened schedule: "
        return Finding(Verdict.CONTRADICTED, where + evidence)
    if any(part.holds is None for part in parts):
        is_undecided = all(part.text for part in parts)
        so_far = "undecided: " if is_undecided else "so far: " if any(part.text for part in parts) else ""
        return Finding(Verdict.NOT_RUN, so_far + evidence)
    return Finding(Verdict.REPRODUCED if all(part.is_full for part in parts) else Verdict.DIRECTION, evidence)


def both(*comparisons: Comparison) -> Comparison:
    return lambda book: [part for compare in comparisons for part in compare(book)]


def gap(first: float, second: float) -> float:
    return first - second


def beyond_noise(noise: float) -> tuple[float, float]:
    return -noise, noise


def at_least(bound: float) -> Bounds:
    return lambda noise: (bound, bound)


def rows(
    recipe: str,
    *names: str,
    of: str = "",
    value: Value = gap,
    bounds: Bounds = beyond_noise,
    measure: Measure = last_error,
) -> Comparison:
    """A value made of the means of some rows of a recipe, in each column, or in those `of` a data set or of one name.

    It holds from the upper bound on and fails below the lower one, under the best schedule that all rows have.
    """

    def compare(book: RecordBook, column: str) -> Part:
        found = _spreads(book, [experiment_in(recipe, name, column) for name in names], measure)
        if not found:
            return MISSING
        best, spreads = found[0]
        deviation = INVARIANCE_DEVIATION.get(measure, ERROR_DEVIATION)
        noise = 2 * deviation * math.sqrt(2 / min(spread.n for spread in spreads))
        holds = _holds(value(*(spread.mean for spread in spreads)), *bounds(noise))
        shown = ", ".join(f"{name} {spread.mean:.2f}" for name, spread in zip(names, spreads, strict=True))
        what = f"{column_title(column)}: {'invariance of ' if measure in INVARIANCE_DEVIATION else ''}{shown}"
        note = f", within the noise of {noise:.2f}" if holds is None and bounds is beyond_noise else ""
        return Part(holds, best.is_full, f"{what} ({schedule(best)}{note}{_shorter(found)})")

    return lambda book: [compare(book, column) for column in columns_of(recipe, of)]


def _spreads(book: RecordBook, experiments: list[Experiment], measure: Measure) -> list[tuple[Series, list[Spread]]]:
    """Of all experiments, under each schedule that gives every one a number, the best first."""
    found = []
    for together in book.together(experiments):
        spreads = [spread for series in together if (spread := series.spread(measure)) is not None]
        if len(spreads) == len(experiments):
            found.append((together[0], spreads))
    return found


def _holds(value: float, low: float, high: float) -> bool | None:
    return True if value >= high else False if value < low else None


def _shorter(found: Sequence[tuple[Series, list[Spread]]]) -> str:
    """Where the paper's schedule is missing, shorter ones show where the means are going."""
    best, others = found[0][0], found[1:]
    return "".join(
        f"; {', '.join(f'{spread.mean:.2f}' for spread in spreads)} with {steps_of(series)}"
        for series, spreads in others
        if not best.is_full and series.split_source == best.split_source
    )


def against(
    experiment: Experiment,
    theirs: str,
    accepts: Callable[[float], bool],
    *,
    name: str = "",
    measure: Measure = last_error,
    needs_full: bool = True,
) -> Comparison:
    """Our result against a published number; a shorter schedule may suffice unless the full one is required."""

    def compare(book: RecordBook) -> list[Part]:
        for series in book.series(experiment):
            if (spread := series.spread(measure)) is not None:
                is_accepted = accepts(spread.mean)
                is_decided = series.is_full or (is_accepted and not needs_full)
                note = "" if is_decided else ", too few to tell"
                text = f"{name}ours {spread}, {theirs} ({schedule(series)}{note})"
                return [Part(is_accepted if is_decided else None, series.is_full, text)]
        return [MISSING]

    return compare


def times(*variants: str, value: Value, bounds: tuple[float, float]) -> Comparison:
    """A value made of shares of the baseline's time for equally many steps, measured in one process."""

    def compare(book: RecordBook) -> list[Part]:
        epochs = book.epochs
        shares = [] if epochs is None else [epochs.relative(variant) for variant in variants]
        known = [share for share in shares if share is not None]
        if epochs is None or len(known) < len(variants):
            return [MISSING]
        text = ", ".join(f"{variant} {share:.2f}" for variant, share in zip(variants, known, strict=True))
        origin = f"of the baseline's time (in one process, {epochs.machine})"
        return [Part(_holds(value(*known), *bounds), is_full=True, text=f"{text} {origin}")]

    return compare


def diverges(recipe: str, longer: str, base: str, column: str) -> Comparison:
    """A run whose loss is not finite, or whose error is far above the base's."""
    by_error = rows(recipe, longer, base, of=column, bounds=lambda noise: (0.0, DIVERGED_BY))

    def compare(book: RecordBook) -> list[Part]:
        experiments = [experiment_in(recipe, row, column) for row in (longer, base)]
        for series, _ in book.together(experiments)[:1]:
            if series.n_diverged:
                return [Part(True, series.is_full, f"{longer}: {_n_diverged(series)}")]
        return by_error(book)

    return compare


def stays_finite(recipe: str, row: str, column: str) -> Comparison:
    def compare(book: RecordBook) -> list[Part]:
        found = book.series(experiment_in(recipe, row, column))[:1]
        return [Part(series.n_diverged == 0, series.is_full, _n_diverged(series)) for series in found] or [MISSING]

    return compare


def _n_diverged(series: Series) -> str:
    return f"{series.n_diverged} of {len(series.records)} runs diverged ({schedule(series)})"


def labels_improve(recipe: str, row: str, column: str) -> Comparison:
    """The accuracy of the first pseudo-labels of a run against that of its last."""

    def compare(book: RecordBook) -> list[Part]:
        for series in book.series(experiment_in(recipe, row, column)):
            accuracies = [[point.pseudo_label_accuracy for point in record.curve] for record in series.records]
            curves = [[accuracy for accuracy in curve if accuracy is not None] for curve in accuracies]
            ends = [(curve[0], curve[-1]) for curve in curves if len(curve) > 1]
            if ends:
                first, last = (100 * sum(values) / len(ends) for values in zip(*ends, strict=True))
                text = f"right at first {first:.2f} %, at last {last:.2f} % ({schedule(series)})"
                return [Part(last > first, series.is_full, text)]
        return [MISSING]

    return compare


def moons_differ(book: RecordBook) -> list[Part]:
    """The graph ahead of the network on two moons, by more than twice the standard error over the seeds."""
    if book.moons is None:
        return [MISSING]
    n = len(book.moons.runs)
    ahead, deviation = book.moons.advantage()
    noise = 0.0 if deviation is None else 2 * deviation / math.sqrt(n)
    shown = ", ".join(f"{method} {book.moons.spread(method)[0]:.1f} %" for method in METHODS)
    holds = None if abs(ahead) <= noise else ahead > 0
    return [Part(holds, is_full=True, text=f"test accuracy {shown} (n = {n})")]


def columns_of(recipe: str, of: str) -> list[str]:
    return [column for column in find_recipe(recipe).columns() if of in ("", column, column.split("/")[0])]


def column_title(column: str) -> str:
    dataset, n_labeled = column.split("/")
    return f"{NAMES[dataset]}, {n_labeled} labels"
