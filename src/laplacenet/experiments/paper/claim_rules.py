"""The rules behind single claims: what has to be lower, alike, or gone, and by how much."""

import math
from collections.abc import Sequence

from laplacenet.experiments.experiment import Experiment
from laplacenet.experiments.paper.figure_two import METHODS
from laplacenet.experiments.paper.published import LAPLACENET, PublishedTable
from laplacenet.experiments.paper.recipes import find_recipe
from laplacenet.experiments.paper.records import Record
from laplacenet.experiments.paper.series import Measure, RecordBook, invariance_on_test, last_error
from laplacenet.experiments.paper.variants import laplacenet, with_views
from laplacenet.experiments.paper.verdicts import (
    MISSING,
    Finding,
    Named,
    Part,
    below,
    decide,
    difference,
    measured,
    noise_of,
    schedule,
)

NAMES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "mini-imagenet": "Mini-ImageNet"}
DIVERGED_BY = 5.0  # points above the base's error that count as diverged where the loss stays a number
SIMILAR_INVARIANCE = 0.5  # points between two that the paper calls almost identical
SIMILAR_TIME = 0.15
TIME_NOISE = 0.03
SMALL_SHARE = 0.2
SMALL_GAIN = 1.0


def beats_others(book: RecordBook, *, table: PublishedTable, columns: Sequence[str], by: float = 0.0) -> Finding:
    """LaplaceNet against the lowest published error of any other method, column by column."""
    parts = []
    for column in columns:
        others = {row: cells[column].mean for row, cells in table.rows.items() if column in cells}
        del others[LAPLACENET]
        best = min(others, key=lambda row: others[row])
        name = best if by == 0 else f"{best} less {by}:"
        parts.append(below(book, laplacenet_in(table.name, column), others[best] - by, bound_name=name))
    return decide(parts)


def rows_differ(
    book: RecordBook, recipe: str, *, larger: str, smaller: str, dataset: str = "", measure: Measure = last_error
) -> list[Part]:
    """One row of a recipe against another, in every column (of one data set, where it is named)."""
    named = [pair for pair in pairs(recipe, larger, smaller) if dataset in ("", pair[0].experiment.data.name)]
    return [difference(book, *pair, measure=measure) for pair in named]


def row_beats(book: RecordBook, *, recipe: str, larger: str, smaller: str, dataset: str = "") -> Finding:
    return decide(rows_differ(book, recipe, larger=larger, smaller=smaller, dataset=dataset))


def moons_differ(book: RecordBook) -> Part:
    """The graph ahead of the network on two moons, by more than twice the standard error over the seeds."""
    if book.moons is None:
        return MISSING
    n = len(book.moons.runs)
    ahead, deviation = book.moons.advantage()
    noise = 0.0 if deviation is None else 2 * deviation / math.sqrt(n)
    means = {method: book.moons.spread(method)[0] for method in METHODS}
    text = f"test accuracy {', '.join(f'{method} {mean:.1f} %' for method, mean in means.items())} (n = {n})"
    return Part(None if abs(ahead) <= noise else ahead > 0, is_full=True, text=text)


def stays_finite(book: RecordBook, experiment: Experiment) -> Part:
    found = book.series(experiment)
    if not found:
        return MISSING
    series = found[0]
    text = f"{series.n_diverged} of {len(series.records)} runs diverged ({schedule(series)})"
    return Part(series.n_diverged == 0, series.is_full, text)


def labels_improve(book: RecordBook, experiment: Experiment) -> Part:
    """The first accuracy of a curve against its last."""
    for series in book.series(experiment):
        ends = [end for record in series.records if (end := _ends(record)) is not None]
        if ends:
            first, last = (100 * sum(values) / len(ends) for values in zip(*ends, strict=True))
            text = f"right at first {first:.2f} %, at last {last:.2f} % ({schedule(series)})"
            return Part(last > first, series.is_full, text)
    return MISSING


def _ends(record: Record) -> tuple[float, float] | None:
    known = [point.pseudo_label_accuracy for point in record.curve if point.pseudo_label_accuracy is not None]
    return (known[0], known[-1]) if len(known) > 1 else None


def more_invariant(book: RecordBook, many: Named, few: Named, *, measure: Measure = invariance_on_test) -> Part:
    return difference(book, many, few, measure=measure, kind="invariance")


def alike_invariance(book: RecordBook, views: Named, batch: Named) -> Part:
    found = measured(book, [views, batch], invariance_on_test)
    if found is None:
        return MISSING
    is_alike = abs(found.means[0].mean - found.means[1].mean) <= SIMILAR_INVARIANCE
    return Part(is_alike, found.series.is_full, f"invariance of {found.text()}")


def no_better(book: RecordBook, larger: Named, base: Named) -> Part:
    """Not lower by more than the noise."""
    found = measured(book, [larger, base], last_error)
    if found is None:
        return MISSING
    holds = found.means[1].mean - found.means[0].mean <= noise_of(found.means, "error")
    return Part(holds, found.series.is_full, found.text())


def less_than(book: RecordBook, without: Named, base: Named, *, bound: float) -> Part:
    found = measured(book, [without, base], last_error)
    if found is None:
        return MISSING
    return Part(found.means[0].mean - found.means[1].mean < bound, found.series.is_full, found.text())


def gains_shrink(book: RecordBook, named: Sequence[Named]) -> Part:
    found = measured(book, named, last_error)
    if found is None:
        return MISSING
    one, three, five = found.means
    lead = (one.mean - three.mean) - (three.mean - five.mean)
    holds = None if abs(lead) <= noise_of(found.means, "error") else lead > 0
    return Part(holds, found.series.is_full, found.text("" if holds is not None else ", within the noise"))


def levels_off(book: RecordBook, five: Named, ten: Named) -> Part:
    errors, invariances = (measured(book, [five, ten], measure) for measure in (last_error, invariance_on_test))
    if errors is None or invariances is None:
        return MISSING
    gain = errors.means[0].mean - errors.means[1].mean
    change = abs(invariances.means[0].mean - invariances.means[1].mean)
    text = f"error of {errors.text()}; invariance of {invariances.text()}"
    return Part(gain <= SMALL_GAIN and change <= SIMILAR_INVARIANCE, errors.series.is_full, text)


def diverges(book: RecordBook, longer: Named, base: Named) -> Part:
    together = book.together([longer.experiment, base.experiment])
    if not together:
        return MISSING
    series, plain = together[0][0], together[0][1].spread(last_error)
    if series.n_diverged:
        text = f"{longer.name}: {series.n_diverged} of {len(series.records)} runs diverged ({schedule(series)})"
        return Part(True, series.is_full, text)
    spread = series.spread(last_error)
    if spread is None or plain is None:
        return MISSING
    worse = spread.mean - plain.mean
    holds = True if worse >= DIVERGED_BY else False if worse <= 0 else None
    return Part(holds, series.is_full, f"{longer.name} {spread.mean:.2f}, × 1 {plain.mean:.2f} ({schedule(series)})")


def _times(book: RecordBook, variants: Sequence[str]) -> tuple[list[float], str] | None:
    """Shares of the baseline's time for equally many steps, measured in one process."""
    if book.epochs is None:
        return None
    known = [share for variant in variants if (share := book.epochs.relative(variant)) is not None]
    if len(known) < len(variants):
        return None
    text = ", ".join(f"{variant} {share:.2f}" for variant, share in zip(variants, known, strict=True))
    return known, f"{text} of the baseline's time (in one process, {book.epochs.machine})"


def same_time(book: RecordBook, first: str, second: str) -> Part:
    found = _times(book, [first, second])
    if found is None:
        return MISSING
    (one, other), text = found
    return Part(abs(one - other) <= SIMILAR_TIME * max(one, other), is_full=True, text=text)


def is_faster(book: RecordBook, fast: str, slow: str) -> Part:
    found = _times(book, [fast, slow])
    if found is None:
        return MISSING
    (one, other), text = found
    is_open = abs(one - other) <= TIME_NOISE * other
    return Part(None if is_open else one < other, is_full=True, text=text)


def small_share(book: RecordBook, without: str) -> Part:
    found = _times(book, [without])
    if found is None:
        return MISSING
    (share,), text = found
    return Part(1 - share <= SMALL_SHARE, is_full=True, text=text)


def laplacenet_in(recipe: str, column: str) -> Named:
    return Named(spoken(column), experiment_in(recipe, LAPLACENET, column))


def experiment_in(recipe: str, row: str, column: str) -> Experiment:
    (found,) = (cell.experiment for cell in find_recipe(recipe).cells if (cell.row, cell.column) == (row, column))
    return found


def pairs(recipe: str, first: str, second: str) -> list[tuple[Named, Named]]:
    """Two rows of a recipe, column by column."""
    return [
        (
            Named(f"{spoken(column)}: {first}", experiment_in(recipe, first, column)),
            Named(second, experiment_in(recipe, second, column)),
        )
        for column in find_recipe(recipe).columns()
    ]


def headline_with_views(n_views: int) -> Experiment:
    """The paper's best-known cell, CIFAR-100 with 4000 labels and the 13-CNN."""
    return with_views(laplacenet("cifar100", 4000, "13-cnn"), n_views)


def spoken(column: str) -> str:
    dataset, n_labeled = column.split("/")
    return f"{NAMES[dataset]}, {n_labeled} labels"
