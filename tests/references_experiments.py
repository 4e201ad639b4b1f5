"""Tiny data in the paper's layouts, and records as runs would leave them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from references_data import cifar10_files, cifar_rows, write_files

from laplacenet.experiments.experiment import Experiment
from laplacenet.experiments.paper import figure_two
from laplacenet.experiments.paper.records import CurvePoint, Record, RunKey
from laplacenet.experiments.paper.variants import PAPER_STEPS, laplacenet, on_split, with_views
from laplacenet.experiments.run_records import Outcome

TINY = (
    "model.name=small-cnn",
    "train.labeled_batch_size=3",
    "train.batch_size=6",
)
TINY_SPLIT = "data.split_key=8/00"
"""The other keys promise more rows than tiny data have."""
N_LABELED = (500, 1000, 2000, 4000, 10000)


def write_tiny_data(folder: Path) -> Path:
    """CIFAR-10, CIFAR-100 and Mini-ImageNet with a few rows each, and split files with the published keys."""
    write_files(folder / "cifar-10-batches-py", cifar10_files(4))
    write_files(folder / "cifar-100-python", tiny_cifar100(20))
    rng = np.random.default_rng(0)
    for part, n in (("train", 4), ("test", 1)):
        for kind in ("ant", "bee", "cat"):
            below = folder / "mini-imagenet" / part / kind
            below.mkdir(parents=True)
            for number in range(n):
                Image.fromarray(rng.integers(0, 256, (84, 84, 3), dtype=np.uint8)).save(below / f"{number}.png")
    labels = {"cifar10": [(1 + batch + row) % 10 for batch in range(5) for row in range(4)]}
    labels |= {"cifar100": [row % 4 for row in range(20)], "mini-imagenet": [row // 4 for row in range(12)]}
    for name, own in labels.items():
        splits = [balanced_rows(own, per_class=2, split=split) for split in range(5)]
        keys = {f"{n}/{split:02d}": rows for n in (*N_LABELED, len(splits[0])) for split, rows in enumerate(splits)}
        np.savez(folder / f"{name}_splits.npz", **keys)
    return folder


def balanced_rows(labels: list[int], *, per_class: int, split: int) -> np.ndarray:
    """As many rows of each class, or as many as the smallest one has; other ones for each split."""
    rows = [np.flatnonzero(np.array(labels) == label) for label in sorted(set(labels))]
    per_class = min(per_class, *map(len, rows))
    return np.sort(np.concatenate([np.roll(own, -split)[:per_class] for own in rows]))


def shorten_figure_two(patch: pytest.MonkeyPatch) -> None:
    """A few steps, for tests of the command: tests/experiments/test_figure_two.py trains the figure in full."""
    patch.setattr(figure_two, "TRAIN", replace(figure_two.TRAIN, steps=20))


def tiny_cifar100(n: int) -> dict[str, dict[str, Any]]:
    """Four of its hundred classes."""
    labels = [row % 4 for row in range(n)]
    return {
        "train": {"fine_labels": labels, "coarse_labels": [0] * n, "data": cifar_rows(n, 1)},
        "test": {"fine_labels": labels[:4], "coarse_labels": [0] * 4, "data": cifar_rows(4, 2)},
        "meta": {"fine_label_names": [f"fine{k}" for k in range(100)], "coarse_label_names": ["all"]},
    }


def split_files(folder: Path) -> dict[str, str]:
    return {name: str(folder / f"{name}_splits.npz") for name in ("cifar10", "cifar100", "mini-imagenet")}


def outcome(**values: Any) -> Outcome:
    usual: dict[str, Any] = {
        "steps": 100,
        "n_labeled": 4000,
        "test_error": 0.4,
        "best_test_error": 0.39,
        "pseudo_label_accuracy": 0.5,
        "train_invariance": 0.95,
        "test_invariance": 0.93,
        "n_epochs": 3,
        "n_epochs_not_converged": 0,
        "total_s": 3600.0,
        "label_s": 60.0,
        "compile_s": 20.0,
        "median_step_s": 0.004,
    }
    return Outcome(**(usual | values))


def headline_with_views(n_views: int) -> Experiment:
    """The paper's best-known cell, CIFAR-100 with 4000 labels and the 13-CNN, with this many views."""
    return with_views(laplacenet("cifar100", 4000, "13-cnn"), n_views)


def record_of(
    experiment: Experiment,
    *,
    split: int = 0,
    base_steps: int = PAPER_STEPS,
    source: str = "published",
    diverged_at_step: int | None = None,
    **values: Any,
) -> Record:
    """A record of this experiment with these numbers in its outcome."""
    split_file = "splits.npz" if source == "published" else None
    resolved = on_split(experiment, split, split_file=split_file, base_steps=base_steps)
    result = outcome(**({"n_labeled": experiment.data.n_labeled} | values))
    error = result.test_error or 0.0
    return Record(
        key=RunKey(experiment.name, split, source, base_steps),
        experiment=replace(resolved, data=replace(resolved.data, folder=None)),
        provenance={"commit": "abc", "hardware": {"device": "cuda", "gpu": "NVIDIA H200"}},
        outcome=result,
        curve=tuple(
            CurvePoint(step, 1.0 / step, min(1.0, error + 0.1 / step), (result.pseudo_label_accuracy or 0) - 0.1 / step)
            for step in (1, 10, 100)
        ),
        diverged_at_step=diverged_at_step,
    )
