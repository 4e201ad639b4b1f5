"""The paper's Figure 2 as a picture: four panels of two moons."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from laplacenet.experiments.paper.figure_two import N_LABELED, FigureTwo, Fit, Moons
from laplacenet.reports.style import BLUE, ORANGE, PALE_BLUE, PALE_ORANGE, new_figure, save

TITLES = {
    "supervised": "(b) supervised, 320 labels",
    "network": f"(c) network pseudo-labels, {N_LABELED} labels",
    "graph": f"(d) graph pseudo-labels, {N_LABELED} labels",
}
MARGIN = 0.35
GRID = 240


def draw_moons(figure_two: FigureTwo, paths: list[Path]) -> None:
    """The data, then each method's decision regions with its test accuracy; rings mark the labels that it saw."""
    moons = figure_two.moons
    figure = new_figure(13.0, 3.9)
    panels = figure.subplots(1, 4, sharex=True, sharey=True)
    _points(panels[0], moons)
    panels[0].set_title("(a) fully labelled data", fontsize=10)
    for axes, (method, title) in zip(panels[1:], TITLES.items(), strict=True):
        fit = figure_two.fits[method]
        _regions(axes, moons, fit)
        _points(axes, moons)
        if method != "supervised":
            _rings(axes, moons)
        axes.set_title(f"{title}\ntest accuracy {100 * fit.test_accuracy:.1f} %", fontsize=10)
    for path in paths:
        save(figure, path)


def _points(axes: Any, moons: Moons) -> None:
    x, y = moons.points.vectors.T.numpy()
    colors = np.where(moons.points.labels.numpy() == 0, BLUE, ORANGE)
    axes.scatter(x, y, c=colors, s=7, linewidths=0)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal")


def _rings(axes: Any, moons: Moons) -> None:
    x, y = moons.points.vectors[moons.is_labeled].T.numpy()
    axes.scatter(x, y, facecolors="none", edgecolors="black", s=34, linewidths=0.9)


def _regions(axes: Any, moons: Moons, fit: Fit) -> None:
    low = moons.points.vectors.min(dim=0).values - MARGIN
    high = moons.points.vectors.max(dim=0).values + MARGIN
    x, y = (torch.linspace(float(low[i]), float(high[i]), GRID) for i in (0, 1))
    places = torch.cartesian_prod(x, y)
    classes = fit.inference.logits(places).argmax(dim=1).reshape(GRID, GRID).T
    axes.contourf(x.numpy(), y.numpy(), classes.numpy(), levels=[-0.5, 0.5, 1.5], colors=[PALE_BLUE, PALE_ORANGE])
