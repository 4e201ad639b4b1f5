"""A data set small enough for whole runs in a second, and monitors that stop them."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from laplacenet.augment import AugmentConfig
from laplacenet.experiments import DataConfig, Experiment
from laplacenet.experiments.experiment import with_method
from laplacenet.graph import GraphConfig
from laplacenet.models import ModelConfig
from laplacenet.training import LaplaceNetConfig, TrainConfig

N_CLASSES, N_TRAIN, N_TEST = 3, 60, 24


def bars(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """8×8 images with a bright bar: its height is the class."""
    labels = np.arange(n) % N_CLASSES
    images = rng.integers(0, 60, size=(n, 8, 8))
    for i, label in enumerate(labels):
        images[i, 1 + 2 * label : 3 + 2 * label] += 150
    return images.astype(np.uint8), labels


def write_bars(path: Path, *, labels: np.ndarray | None = None, with_test: bool = True) -> Path:
    """An `.npz` data set of bars; `labels` stand in for the true ones of the train set."""
    rng = np.random.default_rng(0)
    images, true_labels = bars(N_TRAIN, rng)
    test_images, test_labels = bars(N_TEST, rng)
    arrays = {"images": images, "labels": true_labels if labels is None else labels}
    if with_test:
        arrays |= {"test_images": test_images, "test_labels": test_labels}
    np.savez(path, **arrays)
    return path


def tiny_experiment(data: Path, *, method: str = "laplacenet", **settings: object) -> Experiment:
    """Twelve steps: two supervised ones, then five epochs of two. `settings` are those of `train` or of the method."""
    train = TrainConfig(steps=12, batch_size=24, labeled_batch_size=4, lr=0.05)
    of_train = {name: settings.pop(name) for name in list(settings) if hasattr(train, name)}
    config = LaplaceNetConfig(n_views=2, supervised_passes=2, mixup_alpha=0.5)
    experiment = Experiment(
        name="bars",
        seed=3,
        data=DataConfig(name=str(data), n_labeled=9),
        model=ModelConfig("small-cnn"),
        augment=AugmentConfig(flip=False, cutout=0.25),
        graph=GraphConfig(k=5),
        train=replace(train, **of_train),
        method=config,
    )
    experiment = with_method(experiment, method)
    return replace(experiment, method=replace(experiment.method, **settings))


class StopAfter:
    """Stops a run after so many steps."""

    def __init__(self, n_steps: int) -> None:
        self.left = n_steps

    @property
    def should_stop(self) -> bool:
        return self.left <= 0

    def advance(self, n: int) -> None:
        self.left -= n
