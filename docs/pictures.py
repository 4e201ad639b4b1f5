"""Draws the pictures of `method.md` with the project's own functions: python docs/pictures.py FOLDER."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from matplotlib.collections import LineCollection
from PIL import Image, ImageOps
from sklearn.datasets import load_digits, load_sample_image
from torch import Tensor

from laplacenet.augment import AugmentConfig, sample_views, strong_views_uint8
from laplacenet.data import two_moons
from laplacenet.graph import GraphConfig, affinity, align_to_prior, nearest_neighbors, normalize, propagate
from laplacenet.reports.style import BLUE, GREY, ORANGE, bare, new_figure, save
from laplacenet.runtime import stream

GAMMA = GraphConfig().gamma
DEPTH = 2.0  # the plane's distance from the origin: points are compared by their angle, and the plane needs one
SIDE = 96


def draw_spreading(path: Path) -> None:
    """Three labels a moon: the graph, then the scores after a few and after all iterations."""
    moons = two_moons(400, 0.06, 0)
    labels = given_labels(moons.labels, n=3)
    features = torch.nn.functional.normalize(torch.cat([moons.vectors, torch.full((400, 1), DEPTH)], dim=1))
    W = affinity(nearest_neighbors(features, k=8))
    Y = torch.zeros(400, 2)
    Y[labels >= 0, labels[labels >= 0]] = 1
    figure = new_figure(12.0, 2.2)
    panels = figure.subplots(1, 4, sharex=True, sharey=True)
    draw_edges(panels[0], moons.vectors, W)
    draw_scores(panels[0], moons.vectors, Y, title="three labels a class, and the graph")
    given = moons.vectors[labels >= 0].T.numpy()
    panels[0].scatter(*given, c=np.where(labels[labels >= 0] == 0, BLUE, ORANGE), s=60, edgecolors="black")
    for axes, iterations in zip(panels[1:], (2, 6, 100), strict=True):
        F = propagate(normalize(W), Y, gamma=GAMMA, tol=1e-4, max_iterations=iterations)
        draw_scores(axes, moons.vectors, F.clamp(min=0), title=f"after {iterations} iterations")
    panels[3].set_title("the minimum of the energy", fontsize=10)
    save(figure, path)


def given_labels(truth: Int64[Tensor, " n"], *, n: int) -> Int64[Tensor, " n"]:
    """n labels of each class, the first ones; −1 elsewhere."""
    labels = torch.full_like(truth, -1)
    for number in truth.unique().tolist():
        rows = (truth == number).nonzero().flatten()[:n]
        labels[rows] = number
    return labels


def draw_edges(axes: Any, places: Float[Tensor, "n 2"], W: Tensor) -> None:
    rows, columns = W.to_sparse_coo().indices().numpy()
    ends = np.stack([places.numpy()[rows], places.numpy()[columns]], axis=1)
    axes.add_collection(LineCollection(ends, colors="#c8c8c8", linewidths=0.4, zorder=0))


def draw_scores(axes: Any, places: Float[Tensor, "n 2"], F: Float[Tensor, "n 2"], *, title: str) -> None:
    """Grey where no label has arrived; otherwise the color of the class that is ahead."""
    colors = np.where(F[:, 0] > F[:, 1], BLUE, ORANGE)
    colors[(F.sum(1) <= 0).numpy()] = "#c8c8c8"
    axes.scatter(*places.T.numpy(), c=colors, s=9, linewidths=0)
    axes.set_title(title, fontsize=10)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal")


def draw_views(path: Path) -> None:
    """One picture, and eleven strong views of it as the network sees them."""
    picture = ImageOps.fit(Image.fromarray(load_sample_image("flower.jpg")), (SIDE, SIDE))
    images = torch.from_numpy(np.array(picture)).permute(2, 0, 1)[None]
    parameters = sample_views(
        11, n_samples=2, height=SIDE, width=SIDE, config=AugmentConfig(), rng=stream(3, "docs/views")
    )
    views = strong_views_uint8(images, torch.zeros(11, dtype=torch.int64), parameters)
    figure = new_figure(6.6, 2.5)
    for place, image in enumerate(torch.cat([images, views])):
        axes = figure.add_subplot(2, 6, place + 1)
        axes.imshow(image.permute(1, 2, 0).numpy())
        axes.set_axis_off()
        axes.set_title("the picture" if place == 0 else f"view {place}", fontsize=7)
    save(figure, path)


def draw_alignment(path: Path) -> None:
    """Pseudo-labels of each digit before and after alignment, beside the prior, from four labels a digit."""
    pixels, digits = load_digits(return_X_y=True)
    labels = given_labels(torch.from_numpy(digits), n=4)
    features = torch.nn.functional.normalize(torch.from_numpy(pixels).float())
    Y = torch.zeros(len(digits), 10)
    Y[labels >= 0, labels[labels >= 0]] = 1
    F = propagate(
        normalize(affinity(nearest_neighbors(features, k=15))), Y, gamma=GAMMA, tol=1e-4, max_iterations=100
    ).clamp(min=0)
    scores = F / F.sum(1, keepdim=True)
    aligned = align_to_prior(scores, labels >= 0, torch.full((10,), 0.1), iterations=100)
    figure = new_figure(8.0, 3.2)
    axes = figure.subplots()
    axes.set_ylim(0, 16)
    for shift, (found, color, name) in enumerate(((scores, GREY, "before"), (aligned, BLUE, "after"))):
        right = float((found.argmax(1).numpy() == digits).mean())
        shares = np.bincount(found.argmax(1).numpy(), minlength=10) / len(digits)
        label = f"{name} alignment: {100 * right:.1f} % right"
        axes.bar(np.arange(10) + 0.4 * shift - 0.2, 100 * shares, width=0.38, color=color, label=label)
    axes.axhline(10, color=ORANGE, linewidth=1.5, label="prior")
    axes.set_xticks(range(10))
    axes.set_xlabel("digit")
    axes.set_ylabel("% of pseudo-labels")
    axes.legend(frameon=False, fontsize=9)
    bare(axes)
    save(figure, path)


DRAWINGS = {"spreading.png": draw_spreading, "views.png": draw_views, "alignment.png": draw_alignment}


def main(folder: Path) -> None:
    for name, draw in DRAWINGS.items():
        draw(folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
