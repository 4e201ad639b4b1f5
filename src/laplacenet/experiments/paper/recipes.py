"""The paper's tables and figures as recipes: which experiments they show, with the published number beside each.

A recipe is a function without arguments. Cells of different recipes that show the same experiment carry the same
experiment under the same name: one run fills them all.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

from laplacenet.experiments.experiment import Experiment
from laplacenet.experiments.paper import published
from laplacenet.experiments.paper.published import LAPLACENET, SUPERVISED, Published, PublishedTable
from laplacenet.experiments.paper.rivals import RIVALS, presets_of, rival, with_few_labels
from laplacenet.experiments.paper.variants import (
    laplacenet,
    supervised,
    with_class_weighting,
    with_scaled_batch,
    with_scaled_steps,
    with_views,
    without_alignment,
    without_graph,
    without_mixup,
    without_randaugment,
)
from laplacenet.runtime import InputError

Rows = dict[str, Experiment]
VIEWS = (1, 3, 5, 7, 10)
FACTORS = (3, 5)
FEW_LABEL_STEPS = 2**17


@dataclass(frozen=True)
class Cell:
    """One entry of a table, or one curve or point of a figure: its row and column there, and what has to be run.

    `preset` says whose settings another method has.
    """

    row: str
    column: str
    experiment: Experiment
    published: Published | None = None
    preset: str | None = None

    @property
    def dataset(self) -> str:
        return self.experiment.data.name


@dataclass(frozen=True)
class Recipe:
    """A table or figure of the paper; `others` are the other methods' cells, one for each of their presets."""

    name: str
    title: str
    cells: tuple[Cell, ...]
    others: tuple[Cell, ...] = ()

    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.column for cell in (*self.cells, *self.others)))

    def cells_in(self, column: str) -> tuple[Cell, ...]:
        """The cells of a column such as `cifar100/4000`, without those of other methods."""
        if column not in self.columns():
            raise InputError(f"{self.name} has no column {column!r}; choose one of {', '.join(self.columns())}")
        return tuple(cell for cell in self.cells if cell.column == column)


def table_3() -> Recipe:
    return _comparison(published.TABLE_3, "13-cnn")


def table_4() -> Recipe:
    return _comparison(published.TABLE_4, "wrn-28-2")


def table_5() -> Recipe:
    return _comparison(published.TABLE_5, "resnet-18")


def table_6() -> Recipe:
    def rows(column: str) -> Rows:
        return {"WRN-28-2": _laplacenet(column, "wrn-28-2"), "WRN-28-8": _laplacenet(column, "wrn-28-8")}

    return _table(published.TABLE_6, rows)


def table_7() -> Recipe:
    def rows(column: str) -> Rows:
        return {f"n_a = {n_views}": with_views(_laplacenet(column), n_views) for n_views in VIEWS}

    return _table(published.TABLE_7, rows)


def table_8() -> Recipe:
    def rows(column: str) -> Rows:
        baseline = one_view(column)
        return {
            "Baseline (n_a = 1)": baseline,
            "without RandAugment": without_randaugment(baseline),
            "without distribution alignment": without_alignment(baseline),
            "without MixUp": without_mixup(baseline),
        }

    return _table(published.TABLE_8, rows)


def table_9() -> Recipe:
    def rows(column: str) -> Rows:
        baseline = one_view(column)
        return {
            "Baseline (n_a = 1)": baseline,
            "without distribution alignment": without_alignment(baseline),
            "without strong augmentation": without_randaugment(baseline),
            "without graph propagation": without_graph(baseline),
            **{f"batch × {factor}": with_scaled_batch(baseline, factor) for factor in FACTORS},
            **{f"samples × {factor}": with_views(_laplacenet(column), factor) for factor in FACTORS},
        }

    return _table(published.TABLE_9, rows)


def figure_3() -> Recipe:
    """Curves of the error: both without alignment and with one view. The graph's is a row of Table VIII too."""
    cells = []
    for column in published.TABLE_8.columns:
        graph = without_alignment(one_view(column))
        shown = published.TABLE_8.cell("without distribution alignment", column)
        cells.append(Cell("graph pseudo-labels", column, graph, shown))
        cells.append(Cell("network pseudo-labels", column, without_graph(one_view(column))))
    return Recipe("figure-3", "Figure 3: pseudo-labels from the graph against the network's own (13-CNN)", tuple(cells))


def figure_4() -> Recipe:
    """Error and invariance against the number of views, the batch size and the steps, each × 1, 3, 5."""
    column = "cifar100/4000"
    base = one_view(column)
    cells = [Cell("× 1", column, base, published.TABLE_7.cell("n_a = 1", column))]
    for factor in FACTORS:
        views = with_views(_laplacenet(column), factor)
        cells.append(Cell(f"samples × {factor}", column, views, published.TABLE_7.cell(f"n_a = {factor}", column)))
    cells += [Cell(f"batch × {factor}", column, with_scaled_batch(base, factor)) for factor in FACTORS]
    cells += [Cell(f"steps × {factor}", column, with_scaled_steps(base, factor)) for factor in FACTORS]
    return Recipe("figure-4", "Figure 4: more views against a larger batch and more steps (13-CNN)", tuple(cells))


def class_weighting() -> Recipe:
    """Section III.B: the paper found this weighting worse than leaving the predictions as they are.

    As they are: without alignment too. The paper gives no number for the weighted run.
    """
    column = "cifar100/4000"
    plain = without_alignment(one_view(column))
    shown = published.TABLE_8.cell("without distribution alignment", column)
    return Recipe(
        "class-weighting",
        "Section III.B: the loss weighting of Iscen et al. (13-CNN)",
        (
            Cell("predictions as they are", column, plain, shown),
            Cell("weighted by certainty and class", column, with_class_weighting(plain)),
        ),
    )


def few_labels() -> Recipe:
    """Not in the paper: four labels a class, 2^17 steps where the later methods' numbers are those of 2^20."""
    table, names = published.FEW_LABELS, {LAPLACENET: "laplacenet", **RIVALS}
    cells = []
    for column in table.columns:
        dataset, n_labeled = column.split("/")
        for row in table.rows:
            experiment = with_few_labels(names[row], dataset, int(n_labeled), steps=FEW_LABEL_STEPS)
            cells.append(Cell(row, column, experiment, table.cell(row, column)))
    return Recipe(table.name, table.title, cells=(), others=tuple(cells))


RECIPES: dict[str, Callable[[], Recipe]] = {
    "table-3": table_3,
    "table-4": table_4,
    "table-5": table_5,
    "table-6": table_6,
    "table-7": table_7,
    "table-8": table_8,
    "table-9": table_9,
    "figure-3": figure_3,
    "figure-4": figure_4,
    "class-weighting": class_weighting,
    "few-labels": few_labels,
}


@functools.cache
def find_recipe(name: str) -> Recipe:
    """Made once: a report asks for them hundreds of times."""
    if name not in RECIPES:
        raise InputError(f"no experiment called {name!r}; choose one of figure-2, {', '.join(RECIPES)} or all")
    return RECIPES[name]()


def one_view(column: str) -> Experiment:
    """The baseline of the paper's ablations: LaplaceNet with n_a = 1."""
    return with_views(_laplacenet(column), 1)


def _laplacenet(column: str, model: str = "13-cnn") -> Experiment:
    dataset, n_labeled = column.split("/")
    return laplacenet(dataset, int(n_labeled), model)


def _comparison(table: PublishedTable, model: str) -> Recipe:
    """A table against other methods: LaplaceNet's row and, where there is one, the supervised baseline's."""

    def rows(column: str) -> Rows:
        dataset, n_labeled = column.split("/")
        baseline = {SUPERVISED: supervised(dataset, int(n_labeled), model)} if SUPERVISED in table.rows else {}
        return {LAPLACENET: _laplacenet(column, model), **baseline}

    return replace(_table(table, rows), others=_others(table, model))


def _others(table: PublishedTable, model: str) -> tuple[Cell, ...]:
    """The rows of other methods, each as its own paper sets it and on LaplaceNet's terms."""
    cells = []
    for column in table.columns:
        dataset, n_labeled = column.split("/")
        for row in [row for row in table.rows if row in RIVALS]:
            for preset in presets_of(RIVALS[row]):
                experiment = rival(RIVALS[row], preset, dataset, int(n_labeled), model)
                cells.append(Cell(row, column, experiment, table.cell(row, column), preset))
    return tuple(cells)


def _table(table: PublishedTable, rows: Callable[[str], Rows]) -> Recipe:
    """`rows` gives what has to be run for the rows of a column."""
    cells = [
        Cell(row, column, experiment, table.cell(row, column))
        for column in table.columns
        for row, experiment in rows(column).items()
    ]
    return Recipe(table.name, table.title, tuple(cells))


def experiment_in(recipe: str, row: str, column: str) -> Experiment:
    (found,) = (cell.experiment for cell in find_recipe(recipe).cells if (cell.row, cell.column) == (row, column))
    return found
