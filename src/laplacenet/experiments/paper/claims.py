"""What the paper claims, sentence by sentence, and the comparisons that decide it.

A claim is its words, where they stand in the paper, and comparisons that must all hold. The statements come first;
after them every error rate (and invariance) that the paper prints for LaplaceNet. A published error rate is reproduced
if the mean at the paper's schedule is lower, or higher by no more than 2 % of it (0.3 points at least); an invariance
if it is off by no more than half a point.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from laplacenet.experiments.paper import published
from laplacenet.experiments.paper.comparisons import (
    Comparison,
    Finding,
    Named,
    against,
    at_least,
    decide,
    diverges,
    labels_improve,
    likeness,
    means,
    moons_differ,
    stays_finite,
    times,
)
from laplacenet.experiments.paper.published import LAPLACENET, SUPERVISED, Published, PublishedTable
from laplacenet.experiments.paper.recipes import Cell, experiment_in, find_recipe, headline_with_views
from laplacenet.experiments.paper.series import (
    Measure,
    RecordBook,
    invariance_on_test,
    invariance_on_train,
    last_error,
    pseudo_label_accuracy,
)

C4, C10 = "cifar100/4000", "cifar100/10000"
NAMES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "mini-imagenet": "Mini-ImageNet"}
NOT_CRITICAL, SMALL_GAIN = 3.0, 1.0  # points of error
SIMILAR_INVARIANCE = 0.5  # points between two that the paper calls almost identical
SIMILAR_TIME, TIME_NOISE, SMALL_SHARE = 0.15, 0.03, 0.2
RELATIVE_TOLERANCE, LEAST_TOLERANCE = 0.02, 0.3


@dataclass(frozen=True)
class Claim:
    text: str
    where: str
    comparisons: tuple[Comparison, ...]

    def judge(self, book: RecordBook) -> Finding:
        return decide([compare(book) for compare in self.comparisons])


def statements() -> list[Claim]:
    table = [*_comparisons_with_others(), *_graph(), *_views_and_batches(), *_components_and_time()]
    return [Claim(text, where, tuple(comparisons)) for text, where, comparisons in table]


def numbers() -> list[Claim]:
    """One claim for every number printed for LaplaceNet; a run that several tables print is one claim in each."""
    claims = []
    for name in ("table-3", "table-4", "table-5", "table-6", "table-7", "table-8"):
        recipe = find_recipe(name)
        for cell in recipe.cells:
            is_shown_before = name == "table-6" and cell.row == "WRN-28-2"
            if cell.row != SUPERVISED and not is_shown_before and cell.published is not None:
                text = f"{cell.row}, {column_title(cell.column)}: error {cell.published} %"
                where = f"{recipe.title.split(':')[0]}, {cell.experiment.model.name}"
                claims.append(Claim(text, where, (error_comes_out(cell, cell.published),)))
    for cell in find_recipe("table-7").cells:
        shown = published.TABLE_7_INVARIANCE.rows[cell.row][cell.column]
        text = f"{cell.row}, {column_title(cell.column)}: test invariance {shown} %"
        claims.append(Claim(text, "Table VII", (invariance_comes_out(cell, shown),)))
    return claims


def error_comes_out(cell: Cell, shown: Published) -> Comparison:
    highest = shown.mean + max(LEAST_TOLERANCE, RELATIVE_TOLERANCE * shown.mean)
    return against(Named("", cell.experiment), f"published {shown}", lambda ours: ours <= highest)


def invariance_comes_out(cell: Cell, shown: Published) -> Comparison:
    def accepts(ours: float) -> bool:
        return abs(ours - shown.mean) <= SIMILAR_INVARIANCE

    return against(Named("", cell.experiment), f"published {shown}", accepts, measure=invariance_on_test)


Row = tuple[str, str, Sequence[Comparison]]


def _comparisons_with_others() -> list[Row]:
    table_3, table_4, table_5 = published.TABLE_3, published.TABLE_4, published.TABLE_5
    lowest = "With the 13-CNN it has the lowest error of all methods on"
    rivals = "With WRN-28-2 it beats UDA, FixMatch and MixMatch on"
    alone = "it beats training on the labeled images alone"
    wider = "A larger network, WRN-28-8, lowers the error on"
    return [
        (f"{lowest} CIFAR-10", "Section V.A, Table III", beats_others(table_3, columns_of(table_3, "cifar10"))),
        (f"{lowest} CIFAR-100", "Section V.A, Table III", beats_others(table_3, (C4, C10))),
        (
            "With 500 labels on CIFAR-10 its error is lower than that of Arazo et al. with 4000 (5.97 %)",
            "Section V.A",
            [below("table-3", "cifar10/500", 5.97, "theirs")],
        ),
        (
            "On CIFAR-100 it is a full 6 points better than any other 13-CNN method (by its table 5.74 and 5.55)",
            "Section V.A, Table III",
            beats_others(table_3, (C4, C10), by=5.5),
        ),
        (
            "It is the first method below 30 % on CIFAR-100 with 10 000 labels",
            "Section V.A",
            [below("table-3", C10, 30.0, "the bound")],
        ),
        (
            "One plain cross-entropy, without thresholds, sharpening or soft labels, is all that is needed",
            "Abstract, Section I; judged by CIFAR-100 with 4000 labels",
            beats_others(table_3, (C4,)),
        ),
        (
            "Strong augmentation of labeled images too does not make training diverge",
            "Section III.E",
            [stays_finite(headline_with_views(3))],
        ),
        (f"On CIFAR-10 {alone}", "Table III", higher("table-3", SUPERVISED, LAPLACENET, dataset="cifar10")),
        (f"On CIFAR-100 {alone}", "Table III", higher("table-3", SUPERVISED, LAPLACENET, dataset="cifar100")),
        (f"On Mini-ImageNet {alone}", "Table V", higher("table-5", SUPERVISED, LAPLACENET)),
        (f"{rivals} CIFAR-10", "Section V.A, Table IV", beats_others(table_4, columns_of(table_4, "cifar10"))),
        (f"{rivals} CIFAR-100", "Section V.A, Table IV", beats_others(table_4, (C4, C10))),
        (
            "With WRN-28-2 on CIFAR-100 and 10 000 labels it beats the others by more than 3 points",
            "Section V.A, Table IV",
            beats_others(table_4, (C10,), by=3.0),
        ),
        (
            "On Mini-ImageNet it is 10 and 7 points (by its table 10.2 and 6.7) better than any other method",
            "Section V.A, Table V",
            beats_others(table_5, table_5.columns, by=6.5),
        ),
        (
            "On Mini-ImageNet with 4000 labels it is more than 20 points better than the nearest graph method (LP)",
            "Section V.A, Table V",
            [below("table-5", "mini-imagenet/4000", 70.29 - 20, "LP less 20:")],
        ),
        (f"{wider} CIFAR-10", "Section V.A, Table VI", higher("table-6", "WRN-28-2", "WRN-28-8", dataset="cifar10")),
        (f"{wider} CIFAR-100", "Section V.A, Table VI", higher("table-6", "WRN-28-2", "WRN-28-8", dataset="cifar100")),
    ]


def _graph() -> list[Row]:
    network, graph = "network pseudo-labels", "graph pseudo-labels"
    return [
        (
            "On two moons the graph's pseudo-labels have a clear advantage over the network's own",
            "Section II.B, Figure 2",
            [moons_differ],
        ),
        (
            "Pseudo-labels from the graph lead to a much lower error than the network's own",
            "Section V.B, Figure 3",
            higher("figure-3", network, graph),
        ),
        (
            "Pseudo-labels from the graph are more accurate (in %, of the hidden labels) than the network's own",
            "Section I",
            higher("figure-3", graph, network, measure=pseudo_label_accuracy),
        ),
        (
            "Each cycle of training and labeling makes the pseudo-labels more accurate",
            "Section I, Figure 1",
            [labels_improve(headline_with_views(3))],
        ),
        (
            "The loss weighting of Iscen et al. is worse than leaving the predictions as they are",
            "Section III.B",
            higher("class-weighting", "weighted by certainty and class", "predictions as they are"),
        ),
    ]


def _views_and_batches() -> list[Row]:
    one, three, five, ten = (Named(f"n_a = {n}", headline_with_views(n)) for n in (1, 3, 5, 10))
    batch_3, batch_5, steps_3, steps_5 = (
        Named(row, experiment_in("figure-4", row, C4)) for row in ("batch × 3", "batch × 5", "steps × 3", "steps × 5")
    )
    views = "Section V.C, Figure 4, Table VII"
    return [
        ("More views of each image lower the error (n_a = 1, 3, 5)", views, [means(one, three), means(one, five)]),
        (
            "More views make predictions less sensitive to augmentation on test data",
            views,
            [means(many, one, measure=invariance_on_test) for many in (three, five)],
        ),
        (
            "More views make predictions less sensitive to augmentation on training data",
            "Section V.C, Figure 4",
            [means(many, one, measure=invariance_on_train) for many in (three, five)],
        ),
        (
            "The gain from n_a = 1 to 3 is much greater than from 3 to 5",
            "Section V.C",
            [means(one, three, five, value=lambda a, b, c: (a - b) - (b - c))],
        ),
        (
            "Above n_a = 5 the error improves little and the invariance on test data hardly changes",
            "Section V.C, Table VII",
            [means(ten, five, bounds=at_least(-SMALL_GAIN), what="error of "), equally_invariant(ten, five)],
        ),
        (
            "A larger batch has an almost identical effect on that sensitivity as more views",
            "Section V.C, Figure 4",
            [equally_invariant(three, batch_3), equally_invariant(five, batch_5)],
        ),
        (
            "A larger batch does not improve the error",
            "Section V.C, Figure 4",
            [means(batch, one, bounds=lambda noise: (-noise, -noise)) for batch in (batch_3, batch_5)],
        ),
        (
            "The largest batch gives the highest error",
            "Section V.C, Figure 4",
            [means(batch_5, one), means(batch_5, batch_3)],
        ),
        (
            "Three or five times the steps with the same settings make training diverge",
            "Section V.C",
            [diverges(longer, one) for longer in (steps_3, steps_5)],
        ),
    ]


def _components_and_time() -> list[Row]:
    base, table = "Baseline (n_a = 1)", "table-8"
    removed = ("without RandAugment", "without distribution alignment", "without MixUp")
    strong, alignment, graph = (
        f"without {name}" for name in ("strong augmentation", "distribution alignment", "graph propagation")
    )
    return [
        *((f"The error is higher {row}", "Section V.D, Table VIII", higher(table, row, base)) for row in removed),
        (
            "Strong augmentation is by far the most important component",
            "Sections I and V.D, Table VIII",
            [part for row in removed[1:] for part in higher(table, removed[0], row)],
        ),
        (
            f"MixUp is not critical: without it the error rises by less than {NOT_CRITICAL:.0f} points",
            "Section V.D, Table VIII (1.33 and 0.65 points there)",
            [
                means(first, second, value=lambda a, b: b - a, bounds=at_least(-NOT_CRITICAL))
                for first, second in pairs(table, "without MixUp", base)
            ],
        ),
        (
            "Scaling the batch and scaling the samples cost nearly the same time",
            "Appendix B, Table IX",
            [
                times(f"samples × {n}", f"batch × {n}", value=lambda a, b: min(a, b) / max(a, b), low=alike, high=alike)
                for n in (3, 5)
                for alike in [1 - SIMILAR_TIME]
            ],
        ),
        (
            "Removing strong augmentation saves the most time",
            "Appendix B, Table IX",
            [
                times(strong, other, value=lambda fast, slow: 1 - fast / slow, low=-TIME_NOISE, high=TIME_NOISE)
                for other in (alignment, graph)
            ],
        ),
        (
            "The graph costs little: about a sixth of the time (7.52 against 6.32 hours)",
            "Section I, Appendix B, Table IX",
            [times(graph, value=lambda share: share, low=1 - SMALL_SHARE, high=1 - SMALL_SHARE)],
        ),
    ]


def higher(
    recipe: str, larger: str, smaller: str, *, dataset: str = "", measure: Measure = last_error
) -> list[Comparison]:
    """One row of a recipe against another, in every column (of one data set, where it is named)."""
    named = [pair for pair in pairs(recipe, larger, smaller) if dataset in ("", pair[0].experiment.data.name)]
    return [means(*pair, measure=measure) for pair in named]


def equally_invariant(first: Named, second: Named) -> Comparison:
    alike = at_least(-SIMILAR_INVARIANCE)
    return means(first, second, value=likeness, bounds=alike, measure=invariance_on_test, what="invariance of ")


def beats_others(table: PublishedTable, columns: Sequence[str], *, by: float = 0.0) -> list[Comparison]:
    """LaplaceNet against the lowest published error of any other method, column by column."""
    comparisons = []
    for column in columns:
        others = {row: cells[column].mean for row, cells in table.rows.items() if column in cells and row != LAPLACENET}
        best = min(others, key=lambda row: others[row])
        name = best if by == 0 else f"{best} less {by}:"
        comparisons.append(below(table.name, column, others[best] - by, name))
    return comparisons


def below(recipe: str, column: str, bound: float, bound_name: str) -> Comparison:
    """Is LaplaceNet's error below a published number? A shorter schedule that is can only get better."""
    one = Named(f"{column_title(column)}: ", experiment_in(recipe, LAPLACENET, column))
    return against(one, f"{bound_name} {bound:.2f}", lambda ours: ours < bound, needs_full=False)


def pairs(recipe: str, first: str, second: str) -> list[tuple[Named, Named]]:
    """Two rows of a recipe, column by column."""
    return [
        (
            Named(f"{column_title(column)}: {first}", experiment_in(recipe, first, column)),
            Named(second, experiment_in(recipe, second, column)),
        )
        for column in find_recipe(recipe).columns()
    ]


def columns_of(table: PublishedTable, dataset: str) -> list[str]:
    return [column for column in table.columns if column.startswith(f"{dataset}/")]


def column_title(column: str) -> str:
    dataset, n_labeled = column.split("/")
    return f"{NAMES[dataset]}, {n_labeled} labels"
