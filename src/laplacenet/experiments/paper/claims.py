"""What the paper claims, sentence by sentence, and the comparisons that decide it.

A claim is its words, where they stand in the paper, and a comparison that must hold. The statements come first; after
them every error rate (and invariance) that the paper prints for LaplaceNet. A published error rate is reproduced if the
mean at the paper's schedule is lower, or higher by no more than 2 % of it (0.3 points at least); an invariance if it is
off by no more than half a point.
"""

import math
from dataclasses import dataclass

from laplacenet.experiments.paper import published
from laplacenet.experiments.paper.comparisons import (
    Comparison,
    Finding,
    against,
    at_least,
    both,
    column_title,
    columns_of,
    decide,
    diverges,
    labels_improve,
    moons_differ,
    rows,
    stays_finite,
    times,
)
from laplacenet.experiments.paper.published import LAPLACENET, SUPERVISED, Published
from laplacenet.experiments.paper.recipes import Cell, experiment_in, find_recipe
from laplacenet.experiments.paper.series import (
    Measure,
    RecordBook,
    invariance_on_test,
    invariance_on_train,
    last_error,
    pseudo_label_accuracy,
)

C4, C10 = "cifar100/4000", "cifar100/10000"
NOT_CRITICAL, SMALL_GAIN = 3.0, 1.0  # points of error
SIMILAR_INVARIANCE = 0.5  # points between two that the paper calls almost identical
SIMILAR_TIME, TIME_NOISE, SMALL_SHARE = 0.15, 0.03, 0.2
RELATIVE_TOLERANCE, LEAST_TOLERANCE = 0.02, 0.3


@dataclass(frozen=True)
class Claim:
    text: str
    where: str
    comparison: Comparison

    def judge(self, book: RecordBook) -> Finding:
        return decide(self.comparison(book))


def statements() -> list[Claim]:
    return [Claim(text, where, holds) for where, claims in STATEMENTS.items() for text, holds in claims.items()]


def numbers() -> list[Claim]:
    """One claim for every number printed for LaplaceNet; those that Table VI repeats from Table IV count once."""
    claims = []
    for name in ("table-3", "table-4", "table-5", "table-6", "table-7", "table-8"):
        recipe = find_recipe(name)
        for cell in recipe.cells:
            is_shown_before = name == "table-6" and cell.row == "WRN-28-2"
            if cell.row != SUPERVISED and not is_shown_before and cell.published is not None:
                text = f"{cell.row}, {column_title(cell.column)}: error {cell.published} %"
                where = f"{recipe.title.split(':')[0]}, {cell.experiment.model.name}"
                off_by = (-math.inf, max(LEAST_TOLERANCE, RELATIVE_TOLERANCE * cell.published.mean))
                claims.append(Claim(text, where, comes_out(cell, cell.published, off_by)))
    for cell in find_recipe("table-7").cells:
        shown = published.TABLE_7_INVARIANCE.rows[cell.row][cell.column]
        text = f"{cell.row}, {column_title(cell.column)}: test invariance {shown} %"
        off_by = (-SIMILAR_INVARIANCE, SIMILAR_INVARIANCE)
        claims.append(Claim(text, "Table VII", comes_out(cell, shown, off_by, measure=invariance_on_test)))
    return claims


def comes_out(
    cell: Cell, shown: Published, off_by: tuple[float, float], *, measure: Measure = last_error
) -> Comparison:
    """Whether ours is off the published number by no more than this, downwards and upwards."""
    low, high = (shown.mean + bound for bound in off_by)
    return against(cell.experiment, f"published {shown}", lambda ours: low <= ours <= high, measure=measure)


def beats_others(recipe: str, of: str = "", *, by: float = 0.0) -> Comparison:
    """LaplaceNet against the lowest published error of any other method, column by column."""
    (table,) = (table for table in published.TABLES if table.name == recipe)

    def compare(column: str) -> Comparison:
        others = {row: cells[column].mean for row, cells in table.rows.items() if column in cells and row != LAPLACENET}
        best = min(others, key=lambda row: others[row])
        return below(recipe, column, others[best] - by, best if by == 0 else f"{best} less {by}:")

    return both(*map(compare, columns_of(recipe, of)))


def below(recipe: str, column: str, bound: float, bound_name: str) -> Comparison:
    """Is LaplaceNet's error below a published number? A shorter schedule that is can only get better."""
    name, theirs = f"{column_title(column)}: ", f"{bound_name} {bound:.2f}"
    ours = experiment_in(recipe, LAPLACENET, column)
    return against(ours, theirs, lambda mean: mean < bound, name=name, needs_full=False)


def equally_invariant(recipe: str, first: str, second: str) -> Comparison:
    alike = at_least(-SIMILAR_INVARIANCE)
    return rows(
        recipe, first, second, measure=invariance_on_test, value=lambda one, other: -abs(one - other), bounds=alike
    )


def alike_in_time(first: str, second: str) -> Comparison:
    alike = 1 - SIMILAR_TIME
    return times(first, second, value=lambda one, other: min(one, other) / max(one, other), bounds=(alike, alike))


def saves_more(first: str, second: str) -> Comparison:
    return times(first, second, value=lambda fast, slow: 1 - fast / slow, bounds=(-TIME_NOISE, TIME_NOISE))


NETWORK, GRAPH = "network pseudo-labels", "graph pseudo-labels"
BASELINE, WITHOUT_MIXUP = "Baseline (n_a = 1)", "without MixUp"
WITHOUT_RANDAUGMENT, WITHOUT_STRONG = "without RandAugment", "without strong augmentation"
WITHOUT_ALIGNMENT, WITHOUT_GRAPH = "without distribution alignment", "without graph propagation"

STATEMENTS: dict[str, dict[str, Comparison]] = {
    "Section V.A, Table III": {
        "With the 13-CNN it has the lowest error of all methods on CIFAR-10": beats_others("table-3", "cifar10"),
        "With the 13-CNN it has the lowest error of all methods on CIFAR-100": beats_others("table-3", "cifar100"),
        "On CIFAR-100 it is a full 6 points better than any other 13-CNN method (by its table 5.74 and 5.55)": (
            beats_others("table-3", "cifar100", by=5.5)
        ),
    },
    "Section V.A": {
        "With 500 labels on CIFAR-10 its error is lower than that of Arazo et al. with 4000 (5.97 %)": (
            below("table-3", "cifar10/500", 5.97, "theirs")
        ),
        "It is the first method below 30 % on CIFAR-100 with 10 000 labels": below("table-3", C10, 30.0, "the bound"),
    },
    "Abstract, Section I; judged by CIFAR-100 with 4000 labels": {
        "One plain cross-entropy, without thresholds, sharpening or soft labels, is all that is needed": (
            beats_others("table-3", C4)
        ),
    },
    "Section III.E": {
        "Strong augmentation of labeled images too does not make training diverge": (
            stays_finite("table-7", "n_a = 3", C4)
        ),
    },
    "Table III": {
        f"On {name} it beats training on the labeled images alone": rows("table-3", SUPERVISED, LAPLACENET, of=dataset)
        for name, dataset in (("CIFAR-10", "cifar10"), ("CIFAR-100", "cifar100"))
    },
    "Table V": {
        "On Mini-ImageNet it beats training on the labeled images alone": rows("table-5", SUPERVISED, LAPLACENET),
    },
    "Section V.A, Table IV": {
        "With WRN-28-2 it beats UDA, FixMatch and MixMatch on CIFAR-10": beats_others("table-4", "cifar10"),
        "With WRN-28-2 it beats UDA, FixMatch and MixMatch on CIFAR-100": beats_others("table-4", "cifar100"),
        "With WRN-28-2 on CIFAR-100 and 10 000 labels it beats the others by more than 3 points": (
            beats_others("table-4", C10, by=3.0)
        ),
    },
    "Section V.A, Table V": {
        "On Mini-ImageNet it is 10 and 7 points (by its table 10.2 and 6.7) better than any other method": (
            beats_others("table-5", by=6.5)
        ),
        "On Mini-ImageNet with 4000 labels it is more than 20 points better than the nearest graph method (LP)": (
            below("table-5", "mini-imagenet/4000", 70.29 - 20, "LP less 20:")
        ),
    },
    "Section V.A, Table VI": {
        f"A larger network, WRN-28-8, lowers the error on {name}": rows("table-6", "WRN-28-2", "WRN-28-8", of=dataset)
        for name, dataset in (("CIFAR-10", "cifar10"), ("CIFAR-100", "cifar100"))
    },
    "Section II.B, Figure 2": {
        "On two moons the graph's pseudo-labels have a clear advantage over the network's own": moons_differ,
    },
    "Section V.B, Figure 3": {
        "Pseudo-labels from the graph lead to a much lower error than the network's own": (
            rows("figure-3", NETWORK, GRAPH)
        ),
    },
    "Section I": {
        "Pseudo-labels from the graph are more accurate (in %, of the hidden labels) than the network's own": (
            rows("figure-3", GRAPH, NETWORK, measure=pseudo_label_accuracy)
        ),
    },
    "Section I, Figure 1": {
        "Each cycle of training and labeling makes the pseudo-labels more accurate": (
            labels_improve("table-7", "n_a = 3", C4)
        ),
    },
    "Section III.B": {
        "The loss weighting of Iscen et al. is worse than leaving the predictions as they are": (
            rows("class-weighting", "weighted by certainty and class", "predictions as they are")
        ),
    },
    "Section V.C, Figure 4, Table VII": {
        "More views of each image lower the error (n_a = 1, 3, 5)": both(
            rows("table-7", "n_a = 1", "n_a = 3"), rows("table-7", "n_a = 1", "n_a = 5")
        ),
        "More views make predictions less sensitive to augmentation on test data": both(
            *(rows("table-7", f"n_a = {n}", "n_a = 1", measure=invariance_on_test) for n in (3, 5))
        ),
    },
    "Section V.C, Figure 4": {
        "More views make predictions less sensitive to augmentation on training data": both(
            *(rows("table-7", f"n_a = {n}", "n_a = 1", measure=invariance_on_train) for n in (3, 5))
        ),
        "A larger batch has an almost identical effect on that sensitivity as more views": both(
            *(equally_invariant("figure-4", f"samples × {n}", f"batch × {n}") for n in (3, 5))
        ),
        "A larger batch does not improve the error": both(
            *(rows("figure-4", f"batch × {n}", "× 1", bounds=lambda noise: (-noise, -noise)) for n in (3, 5))
        ),
        "The largest batch gives the highest error": both(
            rows("figure-4", "batch × 5", "× 1"), rows("figure-4", "batch × 5", "batch × 3")
        ),
    },
    "Section V.C": {
        "The gain from n_a = 1 to 3 is much greater than from 3 to 5": (
            rows("table-7", "n_a = 1", "n_a = 3", "n_a = 5", value=lambda a, b, c: (a - b) - (b - c))
        ),
        "Three or five times the steps with the same settings make training diverge": both(
            *(diverges("figure-4", f"steps × {n}", "× 1", C4) for n in (3, 5))
        ),
    },
    "Section V.C, Table VII": {
        "Above n_a = 5 the error improves little and the invariance on test data hardly changes": both(
            rows("table-7", "n_a = 10", "n_a = 5", bounds=at_least(-SMALL_GAIN)),
            equally_invariant("table-7", "n_a = 10", "n_a = 5"),
        ),
    },
    "Section V.D, Table VIII": {
        f"The error is higher {row}": rows("table-8", row, BASELINE)
        for row in (WITHOUT_RANDAUGMENT, WITHOUT_ALIGNMENT, WITHOUT_MIXUP)
    },
    "Sections I and V.D, Table VIII": {
        "Strong augmentation is by far the most important component": both(
            *(rows("table-8", WITHOUT_RANDAUGMENT, row) for row in (WITHOUT_ALIGNMENT, WITHOUT_MIXUP))
        ),
    },
    "Section V.D, Table VIII (1.33 and 0.65 points there)": {
        f"MixUp is not critical: without it the error rises by less than {NOT_CRITICAL:.0f} points": (
            rows("table-8", WITHOUT_MIXUP, BASELINE, value=lambda a, b: b - a, bounds=at_least(-NOT_CRITICAL))
        ),
    },
    "Appendix B, Table IX": {
        "Scaling the batch and scaling the samples cost nearly the same time": both(
            *(alike_in_time(f"samples × {n}", f"batch × {n}") for n in (3, 5))
        ),
        "Removing strong augmentation saves the most time": both(
            *(saves_more(WITHOUT_STRONG, other) for other in (WITHOUT_ALIGNMENT, WITHOUT_GRAPH))
        ),
    },
    "Section I, Appendix B, Table IX": {
        "The graph costs little: about a sixth of the time (7.52 against 6.32 hours)": (
            times(WITHOUT_GRAPH, value=lambda share: share, bounds=(1 - SMALL_SHARE, 1 - SMALL_SHARE))
        ),
    },
}
