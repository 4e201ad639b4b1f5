"""The paper's figures from records: error curves of Figure 3, views against batch size of Figure 4."""

import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from laplacenet.experiments.recipes import Cell, find_recipe
from laplacenet.experiments.series import (
    Measure,
    RecordBook,
    Series,
    invariance_on_test,
    invariance_on_train,
    last_error,
)
from laplacenet.experiments.verdicts import schedule

GRAPH_COLOR, NETWORK_COLOR, STEPS_COLOR = "#0f8b8d", "#d9822b", "#8a63d2"
INK = "#010203"  # replaced by the page's own text color where the drawing is part of the page
STYLE: Any = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
}
FACTORS = (1, 3, 5)
PANELS: tuple[tuple[str, Measure], ...] = (
    ("top-1 error, %", last_error),
    ("invariance on test data, %", invariance_on_test),
    ("invariance on training data, %", invariance_on_train),
)


def figure_3(book: RecordBook) -> Figure | None:
    """Top-1 error against the step, labels from the graph and from the network; None until both are recorded."""
    recipe = find_recipe("figure-3")
    panels = []
    for column in recipe.columns():
        cells = recipe.cells_in(column)
        together = book.together([cell.experiment for cell in cells])
        if together is not None:
            panels.append((column, cells, together))
    if not panels:
        return None
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4.2 * len(panels), 3.4), layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axis, (column, cells, together) in zip(axes, panels, strict=True):
            _draw_curves(axis, cells, together)
            axis.set_title(f"{column}  ({schedule(together[0])})", fontsize=9)
        return figure


def _draw_curves(axis: Axes, cells: Sequence[Cell], together: Sequence[Series]) -> None:
    for cell, series, color in zip(cells, together, (GRAPH_COLOR, NETWORK_COLOR), strict=True):
        for number, record in enumerate(series.records):
            points = [(point.step, 100 * point.test_error) for point in record.curve if point.test_error is not None]
            label = cell.row if number == 0 else None
            axis.plot([step for step, _ in points], [error for _, error in points], color=color, lw=1.4, label=label)
    axis.set_xlabel("optimization step")
    axis.set_ylabel("top-1 error, %")
    axis.legend()


def figure_4(book: RecordBook) -> Figure | None:
    """Error and invariance with 1, 3 and 5 times the views, the batch or the steps; None until two can be compared."""
    found = _scaled(book)
    if not any(len(lines) > 1 for lines in found.values()):
        return None
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 3.4), layout="constrained")
        for axis, (name, measure) in zip(figure.subplots(1, 3), PANELS, strict=True):
            for (what, color), lines in zip(_kinds(), found.values(), strict=True):
                known = [(factor, spread) for factor, series in lines if (spread := series.spread(measure))]
                axis.errorbar(
                    [factor for factor, _ in known],
                    [spread.mean for _, spread in known],
                    yerr=[spread.std or 0.0 for _, spread in known],
                    color=color,
                    marker="o",
                    ms=4,
                    lw=1.4,
                    label=what,
                )
            axis.set_xticks(FACTORS, [f"× {factor}" for factor in FACTORS])
            axis.set_ylabel(name)
        any_series = next(lines[0][1] for lines in found.values() if lines)
        figure.axes[0].legend()
        figure.axes[1].set_title(schedule_of(any_series), fontsize=9)
        return figure


def _kinds() -> tuple[tuple[str, str], ...]:
    return (("samples", GRAPH_COLOR), ("batch", NETWORK_COLOR), ("steps", STEPS_COLOR))


def _scaled(book: RecordBook) -> dict[str, list[tuple[int, Series]]]:
    """For each thing that is scaled, its series under the best schedule that the base has company in."""
    cells = {cell.row: cell for cell in find_recipe("figure-4").cells}
    best: dict[str, list[tuple[int, Series]]] = {what: [] for what, _ in _kinds()}
    for base in book.series(cells["× 1"].experiment):
        key = (base.base_steps, base.split_source)
        lines = {what: [(1, base)] for what, _ in _kinds()}
        for what, line in lines.items():
            for factor in FACTORS[1:]:
                others = book.series(cells[f"{what} × {factor}"].experiment)
                line += [(factor, other) for other in others if (other.base_steps, other.split_source) == key]
        if sum(map(len, lines.values())) > sum(map(len, best.values())):
            best = lines
    return best


def schedule_of(series: Series) -> str:
    return f"{series.base_steps:,} steps".replace(",", " ")


def inline_svg(figure: Figure, *, name: str) -> str:
    """A drawing to be set into a page: it takes the page's text color, and its ids carry its name."""
    buffer = io.StringIO()
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    drawing = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", buffer.getvalue())
    return drawing[drawing.index("<svg") :].replace(INK, "currentColor")


def png(figure: Figure) -> bytes:
    """The same on white, for Markdown."""
    buffer = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format="png", dpi=130, facecolor="white")
    return buffer.getvalue()
