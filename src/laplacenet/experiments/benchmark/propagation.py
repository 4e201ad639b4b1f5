"""Our graph beside scikit-learn's LabelSpreading, as `LaplacePropagation` stands beside it: features in, labels out."""

import statistics
import warnings
from collections.abc import Callable

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.semi_supervised import LabelSpreading
from torch import Tensor

from laplacenet.experiments.benchmark.clock import time_work
from laplacenet.experiments.benchmark.rows import PropagationRow
from laplacenet.experiments.benchmark.settings import BenchSettings
from laplacenet.experiments.benchmark.synthetic import Clusters, clustered_points
from laplacenet.graph import GraphConfig, pseudo_label
from laplacenet.runtime import stream

HOST = torch.device("cpu")
N_CLASSES, DIMENSION, LABELS_PER_CLASS = 10, 64, 20
NOISES = {"overlapping clusters": 1.8, "clear clusters": 0.7}
DATA = (*NOISES, "digits")


def measure_propagation(data: str, settings: BenchSettings) -> PropagationRow:
    """Exact, approximate and scikit-learn's, one after another, as often as the settings say."""
    clusters, k = labeled_data(data, settings.propagation_size), settings.k
    features, labels = clusters.features, clusters.labels
    recall = pseudo_label(features, labels, GraphConfig(k=k, search="approximate")).recall  # and warms up
    works: dict[str, Callable[[], Tensor]] = {
        "exact": lambda: pseudo_label(features, labels, GraphConfig(k=k, search="exact")).labels,
        "approximate": lambda: pseudo_label(features, labels, GraphConfig(k=k, search="approximate")).labels,
        "spreading": lambda: spread_labels(features, labels, k=k),
    }
    runs: dict[str, list[tuple[Tensor, float]]] = {name: [] for name in works}
    for _ in range(settings.propagation_repeats):
        for name, work in works.items():
            runs[name].append(time_work(work, HOST))
    times = {f"{name}_s": statistics.median(time_s for _, time_s in some) for name, some in runs.items()}
    accuracies = {f"{name}_accuracy": clusters.accuracy(some[0][0]) for name, some in runs.items()}
    return PropagationRow(
        data=data,
        n=len(features),
        d=features.shape[1],
        k=k,
        n_classes=N_CLASSES,
        n_labeled=int((labels >= 0).sum()),
        recall=recall,
        n_repeats=settings.propagation_repeats,
        **times,
        **accuracies,
    )


def labeled_data(data: str, n: int) -> Clusters:
    """Points with a few labels: clusters of the size asked for, or scikit-learn's digits, as many as there are."""
    if data in NOISES:
        n_labeled = N_CLASSES * LABELS_PER_CLASS
        return clustered_points(n, n_classes=N_CLASSES, n_labeled=n_labeled, d=DIMENSION, noise=NOISES[data])
    pixels, digits = load_digits(return_X_y=True)
    labels = np.full_like(digits, -1)
    rng = stream(0, "benchmark/digits")
    for digit in range(N_CLASSES):
        labels[rng.choice(np.flatnonzero(digits == digit), LABELS_PER_CLASS, replace=False)] = digit
    features, classes = torch.from_numpy(pixels).float(), torch.from_numpy(digits)
    return Clusters(features, classes, torch.from_numpy(labels))


def spread_labels(features: Tensor, labels: Tensor, *, k: int) -> Tensor:
    """scikit-learn's way with its own settings, our number of neighbors and all cores."""
    model = LabelSpreading(kernel="knn", n_neighbors=k, n_jobs=-1)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # its 30 iterations are its default; accuracy shows the rest
        model.fit(features.numpy(), labels.numpy())
    return torch.from_numpy(model.transduction_)
