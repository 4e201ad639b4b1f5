"""Labels that tuning holds out: its runs are judged by them and never see them."""

from dataclasses import replace

import torch
from torch import Tensor

from laplacenet.data import Dataset, ImageSet, VectorSet
from laplacenet.experiments.task import Task
from laplacenet.runtime import InputError, stream


def with_held_out(task: Task, n: int) -> Task:
    """The task without n of its labeled inputs, which take the place of its test set; training never sees them.

    They are taken from the classes in turn, so that these keep about equal numbers of labels, at least one each.
    """
    given = task.given_labels
    rng = stream(task.experiment.seed, "held out")
    by_class = [rng.permutation(torch.nonzero(given == c).flatten().numpy())[1:] for c in range(len(task.class_names))]
    ranked = sorted((place, c, int(row)) for c, rows in enumerate(by_class) for place, row in enumerate(rows))
    if n > len(ranked):
        raise InputError(f"--held-out {n}: only {len(ranked)} labels can be held out if each class is to keep one")
    rows = torch.tensor([row for _, _, row in ranked[:n]])
    is_left = torch.ones(len(given), dtype=torch.bool)
    is_left[rows] = False
    train, left = task.dataset.train, torch.nonzero(is_left).flatten()
    return replace(
        task,
        dataset=Dataset(rows_at(train, left), rows_at(train, rows), task.dataset.name),
        given_labels=given[left],
        true_labels=task.true_labels[left],
        test_labels=given[rows],
    )


def rows_at(part: ImageSet | VectorSet, rows: Tensor) -> ImageSet | VectorSet:
    """These rows only, normalized by the statistics of all rows."""
    labels = part.labels[rows]
    if isinstance(part, ImageSet):
        return replace(part, images=part.images[rows], labels=labels, names=None)
    return replace(part, vectors=part.vectors[rows], labels=labels)
