"""What a labeling's page draws: how well confidences fit, how they are spread, and how the training went.

Curves are entries with `stage`, `step` and `loss`, and `class_shares` where the graph had given pseudo-labels.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

from laplacenet.labeling.result import Calibration, Labeling
from laplacenet.reports.labeling_charts import (
    BOTTOM,
    Area,
    Bar,
    Chart,
    Dot,
    Line,
    path_of,
    x_scale,
    y_scale,
)
from laplacenet.reports.style import class_colors

N_BARS = 20
N_STACKED = 20  # classes that can be told apart when stacked
SHARES = "class_shares"
LARGEST_DOT, SMALLEST_DOT = 11.0, 2.5


def reliability_chart(calibration: Calibration) -> Chart:
    """The share that was right against the confidence, a dot a bin; on the diagonal confidence is what it says."""
    x, y = x_scale(0, 1), y_scale(0, 1)
    most = max((one.n for one in calibration.bins), default=1)
    dots = tuple(
        Dot(
            x(one.confidence),
            y(one.accuracy),
            round(max(SMALLEST_DOT, LARGEST_DOT * math.sqrt(one.n / most)), 2),
            f"{one.n} labels: confidence {one.confidence:.0%}, right {one.accuracy:.0%}",
        )
        for one in calibration.bins
        if one.n > 0
    )
    diagonal = Line(path_of([(x(0), y(0)), (x(1), y(1))]), "dashed", "confidence is what it says")
    title = "Share of labels that were right against their confidence"
    return Chart(
        title, "confidence", "right", x.ticks(percent=True), y.ticks(percent=True), lines=(diagonal,), dots=dots
    )


def confidence_chart(labeling: Labeling) -> Chart:
    """How many of the labels that were found have which confidence."""
    found = labeling.confidence[~labeling.is_given].float()
    counts = found.histc(N_BARS, min=0, max=1).long().tolist()
    x, y = x_scale(0, 1), y_scale(0, max(1, *counts))
    bars = tuple(
        Bar(x(i / N_BARS) + 1, y(n), x(1 / N_BARS) - x(0) - 2, round(BOTTOM - y(n), 2), f"{n} at {i / N_BARS:.0%}")
        for i, n in enumerate(counts)
    )
    title = "How many labels have which confidence"
    return Chart(title, "confidence", "labels found", x.ticks(percent=True), y.ticks(), bars=bars)


def loss_chart(curves: Sequence[dict[str, Any]]) -> Chart | None:
    """The training loss over the steps, a line a stage; the last stage is the one whose network is kept."""
    points = [entry for entry in curves if math.isfinite(entry.get("loss") or math.nan)]
    if len(points) < 2:
        return None
    x = x_scale(0, max(entry["step"] for entry in points))
    y = y_scale(0, max(entry["loss"] for entry in points))
    stages = [(name, list(part)) for name, part in itertools.groupby(points, key=lambda entry: str(entry["stage"]))]
    lines = tuple(
        Line(
            path_of([(x(entry["step"]), y(entry["loss"])) for entry in part]),
            "main" if place == len(stages) - 1 else "beside",
            name,
        )
        for place, (name, part) in enumerate(stages)
    )
    return Chart("Training loss over the steps", "step", "loss", x.ticks(n=4), y.ticks(), lines=lines)


def shares_chart(curves: Sequence[dict[str, Any]], labeling: Labeling) -> Chart | None:
    """Which share of the pseudo-labels each class had over the steps of the last stage, one upon another."""
    names = labeling.summary.class_names
    last = str(curves[-1]["stage"]) if curves else ""
    points = [entry for entry in curves if entry.get(SHARES) is not None and str(entry["stage"]) == last]
    if len(points) < 2 or len(names) > N_STACKED:
        return None
    x, y = x_scale(points[0]["step"], points[-1]["step"]), y_scale(0, 1)
    sums = [[0.0, *itertools.accumulate(entry[SHARES])] for entry in points]
    places = [x(entry["step"]) for entry in points]
    areas = []
    for i, (name, color) in enumerate(zip(names, class_colors(len(names)), strict=True)):
        upper = [(place, y(one[i + 1])) for place, one in zip(places, sums, strict=True)]
        lower = [(place, y(one[i])) for place, one in zip(places, sums, strict=True)]
        areas.append(Area(path_of([*upper, *lower[::-1]]) + "Z", color, name))
    title = "Share of each class among the pseudo-labels over the steps"
    return Chart(title, "step", "pseudo-labels", x.ticks(n=4), y.ticks(percent=True), areas=tuple(areas))
