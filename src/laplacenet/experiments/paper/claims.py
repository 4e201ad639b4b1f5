"""What the paper claims, sentence by sentence, and how the records judge it.

A claim is its words, where they stand in the paper, and a function from records to a verdict with its evidence. The
statements come first; after them every error rate (and invariance) that the paper prints for LaplaceNet.
"""

from dataclasses import dataclass
from functools import partial

from laplacenet.experiments.paper import published
from laplacenet.experiments.paper.claim_rules import (
    NAMES,
    alike_invariance,
    beats_others,
    diverges,
    experiment_in,
    gains_shrink,
    headline_with_views,
    is_faster,
    labels_improve,
    laplacenet_in,
    less_than,
    levels_off,
    moons_differ,
    more_invariant,
    no_better,
    pairs,
    row_beats,
    rows_differ,
    same_time,
    small_share,
    spoken,
    stays_finite,
)
from laplacenet.experiments.paper.published import LAPLACENET, SUPERVISED, PublishedTable
from laplacenet.experiments.paper.recipes import find_recipe
from laplacenet.experiments.paper.series import invariance_on_train, pseudo_label_accuracy
from laplacenet.experiments.paper.verdicts import (
    Judge,
    Named,
    below,
    decide,
    difference,
    error_comes_out,
    invariance_comes_out,
)

C4, C10 = "cifar100/4000", "cifar100/10000"
NETWORK, GRAPH = "network pseudo-labels", "graph pseudo-labels"
NOT_CRITICAL = 3.0


@dataclass(frozen=True)
class Claim:
    text: str
    where: str
    judge: Judge


def statements() -> list[Claim]:
    return [*_small_network(), *_other_networks(), *_graph(), *_views(), *_batches(), *_components(), *_time()]


def numbers() -> list[Claim]:
    """One claim for every number printed for LaplaceNet; a run that several tables print is one claim in each."""
    claims = []
    for name in ("table-3", "table-4", "table-5", "table-6", "table-7", "table-8"):
        recipe = find_recipe(name)
        for cell in recipe.cells:
            is_shown_before = name == "table-6" and cell.row == "WRN-28-2"
            if cell.row != SUPERVISED and not is_shown_before and cell.published is not None:
                judge = partial(error_comes_out, experiment=cell.experiment, published=cell.published)
                text = f"{cell.row}, {spoken(cell.column)}: error {cell.published} %"
                claims.append(Claim(text, f"{recipe.title.split(':')[0]}, {cell.experiment.model.name}", judge))
    for cell in find_recipe("table-7").cells:
        shown = published.TABLE_7_INVARIANCE.rows[cell.row][cell.column]
        judge = partial(invariance_comes_out, experiment=cell.experiment, published=shown)
        claims.append(Claim(f"{cell.row}, {spoken(cell.column)}: test invariance {shown} %", "Table VII", judge))
    return claims


def _small_network() -> list[Claim]:
    table = published.TABLE_3
    return [
        *_lowest(table, "With the 13-CNN it has the lowest error of all methods", "Section V.A, Table III"),
        Claim(
            "With 500 labels on CIFAR-10 its error is lower than that of Arazo et al. with 4000 (5.97 %)",
            "Section V.A",
            lambda book: decide([below(book, laplacenet_in("table-3", "cifar10/500"), 5.97, bound_name="theirs")]),
        ),
        Claim(
            "On CIFAR-100 it is a full 6 points better than any other 13-CNN method (by its table 5.74 and 5.55)",
            "Section V.A, Table III",
            partial(beats_others, table=table, columns=(C4, C10), by=5.5),
        ),
        Claim(
            "It is the first method below 30 % on CIFAR-100 with 10 000 labels",
            "Section V.A",
            lambda book: decide([below(book, laplacenet_in("table-3", C10), 30.0, bound_name="the bound")]),
        ),
        Claim(
            "One plain cross-entropy, without thresholds, sharpening or soft labels, is all that is needed",
            "Abstract, Section I; judged by CIFAR-100 with 4000 labels",
            partial(beats_others, table=table, columns=(C4,)),
        ),
        Claim(
            "Strong augmentation of labeled images too does not make training diverge",
            "Section III.E",
            lambda book: decide([stays_finite(book, headline_with_views(3))]),
        ),
        *(
            Claim(
                f"On {NAMES[dataset]} it beats training on the labeled images alone",
                f"Table {number}",
                partial(row_beats, recipe=recipe, larger=SUPERVISED, smaller=LAPLACENET, dataset=dataset),
            )
            for recipe, number, dataset in (
                ("table-3", "III", "cifar10"),
                ("table-3", "III", "cifar100"),
                ("table-5", "V", "mini-imagenet"),
            )
        ),
    ]


def _lowest(table: PublishedTable, text: str, where: str) -> list[Claim]:
    """A claim for each data set of the table, over all its columns."""
    return [
        Claim(
            f"{text} on {NAMES[dataset]}",
            where,
            partial(
                beats_others,
                table=table,
                columns=tuple(column for column in table.columns if column.startswith(f"{dataset}/")),
            ),
        )
        for dataset in ("cifar10", "cifar100")
    ]


def _other_networks() -> list[Claim]:
    return [
        *_lowest(published.TABLE_4, "With WRN-28-2 it beats UDA, FixMatch and MixMatch", "Section V.A, Table IV"),
        Claim(
            "With WRN-28-2 on CIFAR-100 and 10 000 labels it beats the others by more than 3 points",
            "Section V.A, Table IV",
            partial(beats_others, table=published.TABLE_4, columns=(C10,), by=3.0),
        ),
        Claim(
            "On Mini-ImageNet it is 10 and 7 points (by its table 10.2 and 6.7) better than any other method",
            "Section V.A, Table V",
            partial(beats_others, table=published.TABLE_5, columns=published.TABLE_5.columns, by=6.5),
        ),
        Claim(
            "On Mini-ImageNet with 4000 labels it is more than 20 points better than the nearest graph method (LP)",
            "Section V.A, Table V",
            lambda book: decide(
                [below(book, laplacenet_in("table-5", "mini-imagenet/4000"), 70.29 - 20, bound_name="LP less 20:")]
            ),
        ),
        *(
            Claim(
                f"A larger network, WRN-28-8, lowers the error on {NAMES[dataset]}",
                "Section V.A, Table VI",
                partial(row_beats, recipe="table-6", larger="WRN-28-2", smaller="WRN-28-8", dataset=dataset),
            )
            for dataset in ("cifar10", "cifar100")
        ),
    ]


def _graph() -> list[Claim]:
    weighted, plain = "weighted by certainty and class", "predictions as they are"
    return [
        Claim(
            "On two moons the graph's pseudo-labels have a clear advantage over the network's own",
            "Section II.B, Figure 2",
            lambda book: decide([moons_differ(book)]),
        ),
        Claim(
            "Pseudo-labels from the graph lead to a much lower error than the network's own",
            "Section V.B, Figure 3",
            lambda book: decide(rows_differ(book, "figure-3", larger=NETWORK, smaller=GRAPH)),
        ),
        Claim(
            "Pseudo-labels from the graph are more accurate (in %, of the hidden labels) than the network's own",
            "Section I",
            lambda book: decide(
                rows_differ(book, "figure-3", larger=GRAPH, smaller=NETWORK, measure=pseudo_label_accuracy)
            ),
        ),
        Claim(
            "Each cycle of training and labeling makes the pseudo-labels more accurate",
            "Section I, Figure 1",
            lambda book: decide([labels_improve(book, headline_with_views(3))]),
        ),
        Claim(
            "The loss weighting of Iscen et al. is worse than leaving the predictions as they are",
            "Section III.B",
            lambda book: decide(rows_differ(book, "class-weighting", larger=weighted, smaller=plain)),
        ),
    ]


def _views() -> list[Claim]:
    one, three, five, ten = (Named(f"n_a = {n}", headline_with_views(n)) for n in (1, 3, 5, 10))
    return [
        Claim(
            "More views of each image lower the error (n_a = 1, 3, 5)",
            "Section V.C, Figure 4, Table VII",
            lambda book: decide([difference(book, one, three), difference(book, one, five)]),
        ),
        Claim(
            "More views make predictions less sensitive to augmentation on test data",
            "Section V.C, Figure 4, Table VII",
            lambda book: decide([more_invariant(book, many, one) for many in (three, five)]),
        ),
        Claim(
            "More views make predictions less sensitive to augmentation on training data",
            "Section V.C, Figure 4",
            lambda book: decide(
                [more_invariant(book, many, one, measure=invariance_on_train) for many in (three, five)]
            ),
        ),
        Claim(
            "The gain from n_a = 1 to 3 is much greater than from 3 to 5",
            "Section V.C",
            lambda book: decide([gains_shrink(book, [one, three, five])]),
        ),
        Claim(
            "Above n_a = 5 the error improves little and the invariance on test data hardly changes",
            "Section V.C, Table VII",
            lambda book: decide([levels_off(book, five, ten)]),
        ),
    ]


def _batches() -> list[Claim]:
    one, three, five = (Named(f"n_a = {n}", headline_with_views(n)) for n in (1, 3, 5))
    batch_3, batch_5 = (Named(f"batch × {n}", experiment_in("figure-4", f"batch × {n}", C4)) for n in (3, 5))
    longer = [Named(f"steps × {n}", experiment_in("figure-4", f"steps × {n}", C4)) for n in (3, 5)]
    return [
        Claim(
            "A larger batch has an almost identical effect on that sensitivity as more views",
            "Section V.C, Figure 4",
            lambda book: decide([alike_invariance(book, three, batch_3), alike_invariance(book, five, batch_5)]),
        ),
        Claim(
            "A larger batch does not improve the error",
            "Section V.C, Figure 4",
            lambda book: decide([no_better(book, batch_3, one), no_better(book, batch_5, one)]),
        ),
        Claim(
            "The largest batch gives the highest error",
            "Section V.C, Figure 4",
            lambda book: decide([difference(book, batch_5, one), difference(book, batch_5, batch_3)]),
        ),
        Claim(
            "Three or five times the steps with the same settings make training diverge",
            "Section V.C",
            lambda book: decide([diverges(book, many, one) for many in longer]),
        ),
    ]


def _components() -> list[Claim]:
    base, plain = "Baseline (n_a = 1)", "without RandAugment"
    removed = ("without RandAugment", "without distribution alignment", "without MixUp")
    return [
        *(
            Claim(
                f"The error is higher {row}",
                "Section V.D, Table VIII",
                partial(row_beats, recipe="table-8", larger=row, smaller=base),
            )
            for row in removed
        ),
        Claim(
            "Strong augmentation is by far the most important component",
            "Sections I and V.D, Table VIII",
            lambda book: decide(
                [part for row in removed[1:] for part in rows_differ(book, "table-8", larger=plain, smaller=row)]
            ),
        ),
        Claim(
            f"MixUp is not critical: without it the error rises by less than {NOT_CRITICAL:.0f} points",
            "Section V.D, Table VIII (1.33 and 0.65 points there)",
            lambda book: decide(
                [less_than(book, *pair, bound=NOT_CRITICAL) for pair in pairs("table-8", "without MixUp", base)]
            ),
        ),
    ]


def _time() -> list[Claim]:
    strong, alignment, graph = (
        f"without {name}" for name in ("strong augmentation", "distribution alignment", "graph propagation")
    )
    return [
        Claim(
            "Scaling the batch and scaling the samples cost nearly the same time",
            "Appendix B, Table IX",
            lambda book: decide([same_time(book, f"samples × {n}", f"batch × {n}") for n in (3, 5)]),
        ),
        Claim(
            "Removing strong augmentation saves the most time",
            "Appendix B, Table IX",
            lambda book: decide([is_faster(book, strong, other) for other in (alignment, graph)]),
        ),
        Claim(
            "The graph costs little: about a sixth of the time (7.52 against 6.32 hours)",
            "Section I, Appendix B, Table IX",
            lambda book: decide([small_share(book, graph)]),
        ),
    ]
