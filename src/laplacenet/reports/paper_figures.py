"""The paper's figures from records: error along the way (Figure 3), views against batch size (Figure 4)."""

import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from laplacenet.experiments.paper.recipes import Cell, Recipe, find_recipe
from laplacenet.experiments.paper.series import (
    Measure,
    RecordBook,
    Series,
    invariance_on_test,
    invariance_on_train,
    last_error,
    schedule,
    steps_of,
)
from laplacenet.reports.style import COLORS

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
SCALED = ("samples", "batch", "steps")
PANELS: tuple[tuple[str, Measure], ...] = (
    ("top-1 error, %", last_error),
    ("invariance on test data, %", invariance_on_test),
    ("invariance on training data, %", invariance_on_train),
)


def error_curves(book: RecordBook, recipe: Recipe) -> Figure | None:
    """Top-1 error against the step, a line for every run, a panel for every column; None until two can be compared."""
    panels = {column: comparable(book, recipe.cells_in(column)) for column in recipe.columns()}
    panels = {column: rows for column, rows in panels.items() if len(rows) > 1}
    if not panels:
        return None
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(max(6.0, 4.6 * len(panels)), 3.6), layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axis, (column, rows) in zip(axes, panels.items(), strict=True):
            for (row, series), color in zip(rows.items(), COLORS, strict=False):
                _draw_runs(axis, row, series, color=color)
            axis.set_title(f"{column}  ({schedule(next(iter(rows.values())))})", fontsize=9)
            axis.set_xlabel("optimization step")
            axis.set_ylabel("top-1 error, %")
            axis.legend(fontsize=8)
        return figure


def comparable(book: RecordBook, cells: Sequence[Cell]) -> dict[str, Series]:
    """The rows that were run under one schedule: the one that most were, the best of those."""
    by_schedule: dict[tuple[int, str], dict[str, Series]] = {}
    for cell in cells:
        for series in book.series(cell.experiment):
            by_schedule.setdefault((series.base_steps, series.split_source), {})[cell.row] = series
    return max(by_schedule.values(), key=lambda rows: (len(rows), next(iter(rows.values())).rank), default={})


def _draw_runs(axis: Axes, row: str, series: Series, *, color: str) -> None:
    spread = series.spread(last_error)
    for number, record in enumerate(series.records):
        points = [(point.step, 100 * point.test_error) for point in record.curve if point.test_error is not None]
        label = None if number else f"{row}: {'diverged' if spread is None else spread}"
        axis.plot([step for step, _ in points], [error for _, error in points], color=color, lw=1.4, label=label)


def figure_4(book: RecordBook) -> Figure | None:
    """Error and invariance with 1, 3 and 5 times the views, the batch or the steps; None until two can be compared."""
    found = {what: lines for what, lines in _scaled(book).items() if len(lines) > 1}
    if not found:
        return None
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 3.4), layout="constrained")
        for axis, (name, measure) in zip(figure.subplots(1, 3), PANELS, strict=True):
            for (what, lines), color in zip(found.items(), COLORS, strict=False):
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
        (_, base), *_ = next(iter(found.values()))
        figure.axes[0].legend()
        figure.axes[1].set_title(steps_of(base), fontsize=9)
        return figure


def _scaled(book: RecordBook) -> dict[str, list[tuple[int, Series]]]:
    """For each thing that is scaled, its factors with their series."""
    rows = comparable(book, find_recipe("figure-4").cells)
    return {
        what: [
            (factor, rows[row]) for factor in FACTORS if (row := "× 1" if factor == 1 else f"{what} × {factor}") in rows
        ]
        for what in SCALED
    }


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
