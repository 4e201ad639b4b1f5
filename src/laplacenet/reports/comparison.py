"""A comparison as a table, a picture of error over time, and a record."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from laplacenet.experiments.finished_runs import FailedRun, FinishedRun
from laplacenet.reports.comparison_view import Grid, markdown_grid, spread_of
from laplacenet.reports.recorded_comparison import by_method
from laplacenet.reports.style import COLORS, bare, class_colors, new_figure, save

COLUMNS = ("method", "learning rate", "steps", "training time", "runs", "test error")
N_TIMES = 200
N_BESIDE_THE_CURVES = 8  # methods that a legend can name within the picture


def table_rows(results: Sequence[FinishedRun]) -> list[tuple[str, ...]]:
    return [(method, *_cells(own)) for method, own in by_method(results).items()]


def _cells(results: Sequence[FinishedRun]) -> tuple[str, ...]:
    rates = sorted({f"{result.experiment.train.lr:g}" for result in results})
    steps = sorted({result.experiment.train.steps for result in results})
    seconds = float(np.mean([result.train_s for result in results]))
    return ", ".join(rates), ", ".join(map(str, steps)), f"{seconds:.0f} s", str(len(results)), spread_of(results)


def markdown_table(results: Sequence[FinishedRun]) -> str:
    return markdown_grid(Grid(COLUMNS, tuple(table_rows(results))))


def draw_comparison(results: Sequence[FinishedRun], path: Path, *, title: str) -> None:
    """The figure of a comparison as a file."""
    save(comparison_figure(results, title=title), path)


def comparison_figure(results: Sequence[FinishedRun], *, title: str) -> Any:
    """The mean test error of each method over its training time, and the standard deviation where seeds allow one.

    With many methods errors are on a logarithmic scale, without deviations, and the names stand beside the picture.
    """
    methods = by_method(results)
    has_many = len(methods) > N_BESIDE_THE_CURVES
    figure = new_figure(9.0 if has_many else 7.2, 5.0 if has_many else 4.6)
    axes = figure.subplots()
    for place, ((method, own), color) in enumerate(zip(methods.items(), class_colors(len(methods)), strict=True)):
        style = "-" if place < len(COLORS) else "--"  # from here on colors repeat
        _draw_method(axes, method, own, color=color, style=style, with_deviation=not has_many)
    axes.set_title(title, fontsize=11)
    axes.set_xlabel("training time in seconds")
    axes.set_ylabel("test error in %")
    if has_many:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(lambda error, _: f"{error:g}" if f"{error:g}"[0] in "25" else "")
    else:
        axes.set_ylim(bottom=lowest_shown(axes.dataLim.y0))
    if axes.get_legend_handles_labels()[0]:
        if has_many:
            figure.legend(frameon=False, fontsize=8.5, loc="outside right upper")
        else:
            axes.legend(frameon=False, fontsize=9)
    bare(axes)
    return figure


def lowest_shown(error: float) -> float:
    """Zero, or a multiple of ten a little below the lowest error: curves high above zero need the room."""
    return max(0.0, 10 * ((error - 5) // 10)) if np.isfinite(error) else 0.0


def _draw_method(
    axes: Any, method: str, results: Sequence[FinishedRun], *, color: str, style: str, with_deviation: bool
) -> None:
    curves = [(times, errors) for times, errors in map(_known, results) if len(times)]
    if not curves:
        return
    # by shares of each run's own time: all of them end where the line ends
    shares = np.linspace(max(times[0] / times[-1] for times, _ in curves), 1, N_TIMES)
    grid = shares * np.mean([times[-1] for times, _ in curves])
    errors = 100 * np.stack([np.interp(shares, times / times[-1], values) for times, values in curves])
    mean = errors.mean(axis=0)
    axes.plot(grid, mean, style, color=color, label=f"{method}: {mean[-1]:.1f} %")
    if with_deviation and len(curves) > 1:
        deviation = errors.std(axis=0, ddof=1)
        axes.fill_between(grid, mean - deviation, mean + deviation, color=color, alpha=0.15, linewidth=0)


def _known(result: FinishedRun) -> tuple[np.ndarray, np.ndarray]:
    points = [(seconds, error) for _, seconds, error in result.curve if error is not None]
    return np.array([point[0] for point in points]), np.array([point[1] for point in points])


def comparison_record(
    comparison: dict[str, Any],
    tuning: Sequence[FinishedRun],
    results: Sequence[FinishedRun],
    failures: Sequence[FailedRun] = (),
) -> dict[str, Any]:
    """Everything that was asked for and came out, with curves and what produced each run; and what failed."""
    return {
        "comparison": comparison,
        "tuning": [result.to_json() for result in tuning],
        "runs": [result.to_json() for result in results],
        "failed": [failure.to_json() for failure in failures],
    }
