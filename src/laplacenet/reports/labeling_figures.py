"""The charts of a labeling's page: calibration, distribution of confidences, and training curves.

Curves are entries with `stage`, `step` and `loss`, and `class_shares` where the graph had given pseudo-labels.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from laplacenet.labeling.result import Calibration, Labeling
from laplacenet.reports.paper_figures import STYLE
from laplacenet.reports.style import COLORS, GREY, class_colors

SIZE = (4.2, 2.8)  # inches
N_BARS = 20
N_STACKED = 20  # classes that can be told apart when stacked
SHARES = "class_shares"
LARGEST_DOT = 220.0  # square points
ACCENT = COLORS[0]


def reliability_chart(calibration: Calibration) -> Figure:
    """Accuracy against confidence, a dot for each bin, as large as its number of labels."""
    figure, axes = new_chart("confidence", "accuracy")
    bins = [one for one in calibration.bins if one.n > 0]
    most = max((one.n for one in bins), default=1)
    axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1)
    sizes = [max(12.0, LARGEST_DOT * one.n / most) for one in bins]
    axes.scatter([one.confidence for one in bins], [one.accuracy for one in bins], sizes, color=ACCENT, alpha=0.8)
    axes.set(xlim=(0, 1.03), ylim=(0, 1.03))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    return figure


def confidence_chart(labeling: Labeling) -> Figure:
    """How many of the new labels have which confidence."""
    figure, axes = new_chart("confidence", "new labels")
    counts = labeling.confidence[~labeling.is_given].float().histc(N_BARS, min=0, max=1).long().tolist()
    axes.bar([(i + 0.5) / N_BARS for i in range(N_BARS)], counts, width=0.9 / N_BARS, color=ACCENT)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    return figure


def loss_chart(curves: Sequence[dict[str, Any]]) -> Figure | None:
    """The training loss over the steps, a line for each stage; the last stage is the one whose network is kept."""
    points = [entry for entry in curves if math.isfinite(entry.get("loss") or math.nan)]
    if len(points) < 2:
        return None
    figure, axes = new_chart("step", "loss")
    stages = [(name, list(part)) for name, part in itertools.groupby(points, key=lambda entry: str(entry["stage"]))]
    for place, (_, part) in enumerate(stages):
        is_last = place == len(stages) - 1
        steps, losses = ([entry[key] for entry in part] for key in ("step", "loss"))
        axes.plot(steps, losses, color=ACCENT, linewidth=2 if is_last else 1, alpha=1 if is_last else 0.4)
    axes.set(xlim=(0, None), ylim=(0, None))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    return figure


def shares_chart(curves: Sequence[dict[str, Any]], labeling: Labeling) -> Figure | None:
    """The share of each class among the pseudo-labels over the steps of the last stage, stacked."""
    names = labeling.summary.class_names
    last = str(curves[-1]["stage"]) if curves else ""
    points = [entry for entry in curves if entry.get(SHARES) is not None and str(entry["stage"]) == last]
    if len(points) < 2 or len(names) > N_STACKED:
        return None
    figure, axes = new_chart("step", "pseudo-labels")
    steps = [entry["step"] for entry in points]
    rows = list(zip(*(entry[SHARES] for entry in points), strict=True))
    axes.stackplot(steps, rows, colors=class_colors(len(names)), alpha=0.85)
    axes.set(xlim=(steps[0], steps[-1]), ylim=(0, 1))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    return figure


def new_chart(x_label: str, y_label: str) -> tuple[Figure, Any]:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.subplots()
        axes.set(xlabel=x_label, ylabel=y_label)
        axes.grid(color=GREY, alpha=0.25, linewidth=0.8)
        axes.set_axisbelow(True)
    return figure, axes
