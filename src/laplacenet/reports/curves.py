"""Learning curves: one run's, and the demonstration's two side by side with the digits they learned from."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from laplacenet.experiments.run_records import EpochRecord
from laplacenet.experiments.task import Task
from laplacenet.graph import PseudoLabels
from laplacenet.reports.style import BLUE, GREY, ORANGE, RED, bare, new_figure, save

N_SHOWN = 50
N_COLUMNS = 10


def draw_run(records: Sequence[EpochRecord], path: Path, *, title: str) -> None:
    """Loss above; test error and wrong pseudo-labels below, over the steps."""
    figure = new_figure(6.4, 5.6)
    upper, lower = figure.subplots(2, 1, sharex=True)
    figure.suptitle(title)
    upper.plot([record.step for record in records], [record.loss for record in records], color=GREY)
    upper.set_ylabel("training loss")
    _errors(lower, records, color=BLUE, label="test error")
    wrong = [(r.step, 1 - r.pseudo_label_accuracy) for r in records if r.pseudo_label_accuracy is not None]
    _line(lower, wrong, color=ORANGE, label="wrong pseudo-labels")
    _percent_axes(lower)
    for axes in (upper, lower):
        bare(axes)
    save(figure, path)


def draw_demo(
    path: Path,
    task: Task,
    found: PseudoLabels,
    *,
    laplacenet: Sequence[EpochRecord],
    supervised: Sequence[EpochRecord],
) -> None:
    """Both test errors over the steps; the labels that were given; what the graph made of hidden ones."""
    figure = new_figure(12.4, 4.6)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.2, 1, 1.1))
    _errors(left, laplacenet, color=BLUE, label="LaplaceNet")
    _errors(left, supervised, color=ORANGE, label="the given labels alone")
    left.set_title(f"test error from {task.n_labeled} labels", fontsize=11)
    _percent_axes(left)
    bare(left)
    given = np.flatnonzero(task.given_labels.numpy() >= 0)
    given = given[np.argsort(task.given_labels.numpy()[given], kind="stable")]
    _digits(middle, task, given, labels=task.given_labels.numpy())
    middle.set_title("the labels that were given", fontsize=11)
    labels = found.labels.cpu().numpy()
    shown = _wrong_first(labels, task)
    _digits(right, task, shown, labels=labels)
    n_wrong = int((labels != task.true_labels.numpy()).sum())
    n_hidden = len(labels) - task.n_labeled
    right.set_title(f"what the graph found: {n_wrong} of {n_hidden} wrong, in red", fontsize=11)
    save(figure, path)


def _errors(axes: Any, records: Sequence[EpochRecord], *, color: str, label: str) -> None:
    _line(axes, [(r.step, r.test_error) for r in records if r.test_error is not None], color=color, label=label)


def _line(axes: Any, points: Sequence[tuple[int, float]], *, color: str, label: str) -> None:
    if points:
        last = 100 * points[-1][1]
        steps, shares = zip(*points, strict=True)
        axes.plot(steps, 100 * np.array(shares), color=color, label=f"{label}: {last:.1f} % at the end")


def _percent_axes(axes: Any) -> None:
    axes.set_xlabel("step")
    axes.set_ylabel("%")
    axes.set_ylim(bottom=0)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)


def _wrong_first(labels: Any, task: Task) -> Any:
    """Hidden images: the wrong ones, then as many right ones as fill the picture."""
    hidden = np.flatnonzero(task.given_labels.numpy() < 0)
    is_wrong = labels[hidden] != task.true_labels.numpy()[hidden]
    return np.concatenate([hidden[is_wrong], hidden[~is_wrong]])[:N_SHOWN]


def _digits(axes: Any, task: Task, rows: Any, *, labels: Any) -> None:
    """Small pictures in a grid, each with its label beneath; a label that is not the truth is red."""
    images, truth = task.inputs.numpy(), task.true_labels.numpy()
    height, width = images.shape[2:]
    for place, row in enumerate(rows):
        left, top = place % N_COLUMNS * (width + 2), place // N_COLUMNS * (height + 7)
        axes.imshow(images[row, 0], cmap="gray_r", extent=(left, left + width, top + height, top), vmin=0, vmax=255)
        color = GREY if labels[row] == truth[row] else RED
        name = task.class_names[labels[row]]
        axes.text(left + width / 2, top + height + 0.5, name, ha="center", va="top", fontsize=8, color=color)
    axes.set_xlim(-1, N_COLUMNS * (width + 2))
    axes.set_ylim(-(-len(rows) // N_COLUMNS) * (height + 7), -1)
    axes.set_axis_off()
