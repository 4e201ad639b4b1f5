"""A comparison as a table, a picture of error over time, and a record."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from laplacenet.evaluation.spread import mean_and_std
from laplacenet.experiments.finished_runs import FailedRun, FinishedRun
from laplacenet.reports.style import bare, class_colors, new_figure, save

COLUMNS = ("method", "learning rate", "steps", "training time", "runs", "test error")
N_TIMES = 200


def by_method(results: Sequence[FinishedRun]) -> dict[str, list[FinishedRun]]:
    """The best method first."""
    found: dict[str, list[FinishedRun]] = {}
    for result in results:
        found.setdefault(result.run.method, []).append(result)
    return dict(sorted(found.items(), key=lambda item: float(np.mean([result.error for result in item[1]]))))


def table_rows(results: Sequence[FinishedRun]) -> list[tuple[str, ...]]:
    return [(method, *_cells(own)) for method, own in by_method(results).items()]


def _cells(results: Sequence[FinishedRun]) -> tuple[str, ...]:
    errors = [100 * result.error for result in results if result.outcome is not None]
    n_diverged = len(results) - len(errors)
    parts = [_spread(errors)] if errors else []
    parts += [f"{n_diverged} diverged"] if n_diverged else []
    rates = sorted({f"{result.experiment.train.lr:g}" for result in results})
    steps = sorted({result.experiment.train.steps for result in results})
    seconds = float(np.mean([result.train_s for result in results]))
    return ", ".join(rates), ", ".join(map(str, steps)), f"{seconds:.0f} s", str(len(results)), ", ".join(parts)


def _spread(percents: Sequence[float]) -> str:
    mean, deviation = mean_and_std(percents)
    return f"{mean:.2f} %" if deviation is None else f"{mean:.2f} ± {deviation:.2f} %"


def markdown_table(results: Sequence[FinishedRun]) -> str:
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *table_rows(results)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def draw_comparison(results: Sequence[FinishedRun], path: Path, *, title: str) -> None:
    """The mean test error of each method over its training time, and the standard deviation where seeds allow one."""
    figure = new_figure(7.2, 4.6)
    axes = figure.subplots()
    methods = by_method(results)
    for (method, own), color in zip(methods.items(), class_colors(len(methods)), strict=True):
        curves = [_known(result) for result in own]
        curves = [(times, errors) for times, errors in curves if len(times)]
        if not curves:
            continue
        # by shares of each run's own time: all of them end where the line ends
        shares = np.linspace(max(times[0] / times[-1] for times, _ in curves), 1, N_TIMES)
        grid = shares * np.mean([times[-1] for times, _ in curves])
        errors = 100 * np.stack([np.interp(shares, times / times[-1], values) for times, values in curves])
        mean = errors.mean(axis=0)
        axes.plot(grid, mean, color=color, label=f"{method}: {mean[-1]:.1f} %")
        if len(curves) > 1:
            deviation = errors.std(axis=0, ddof=1)
            axes.fill_between(grid, mean - deviation, mean + deviation, color=color, alpha=0.15, linewidth=0)
    axes.set_title(title, fontsize=11)
    axes.set_xlabel("training time in seconds")
    axes.set_ylabel("test error in %")
    axes.set_ylim(bottom=0)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=9)
    bare(axes)
    save(figure, path)


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
