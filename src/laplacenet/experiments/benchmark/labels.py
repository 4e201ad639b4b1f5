"""The pseudo-label pass: ours, the authors' way, and scikit-learn's LabelSpreading, on the same clustered features."""

import statistics
import warnings

import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.semi_supervised import LabelSpreading
from torch import Tensor

from laplacenet.augment import AugmentConfig
from laplacenet.experiments.benchmark.clock import Stages, peak_bytes, release_memory, time_work
from laplacenet.experiments.benchmark.rows import PassRow
from laplacenet.experiments.benchmark.settings import BenchSettings
from laplacenet.experiments.benchmark.staged_pass import staged_pass
from laplacenet.experiments.benchmark.synthetic import CIFAR_STATISTICS, Clusters, clustered_points, random_images
from laplacenet.experiments.paper.authors_way import HAS_FAISS, AuthorsConfig, authors_labels
from laplacenet.graph import GraphConfig, pseudo_label
from laplacenet.models import Inference, build_model
from laplacenet.training import Execution, ImageViews
from laplacenet.training.loop import prepare

HOST = torch.device("cpu")
SIDE = 32


def measure_our_pass(settings: BenchSettings, device: torch.device) -> PassRow:
    """Features given: a pass with a clock between its stages, then whole ones."""
    clusters, config = _clusters(settings), GraphConfig(k=settings.k)
    features, labels = clusters.features.to(device), clusters.labels.to(device)
    _warm_up(device)
    stages = Stages(device)
    staged_pass(features, labels, config, n_classes=settings.n_classes, stages=stages)
    totals = []
    for _ in range(settings.pass_repeats):
        release_memory(device)
        found, total_s = time_work(lambda: pseudo_label(features, labels, config, n_classes=settings.n_classes), device)
        totals.append(total_s)
    return PassRow(
        way="ours",
        n=settings.pass_size,
        k=settings.k,
        n_classes=settings.n_classes,
        stages=stages.seconds,
        total_s=statistics.median(totals),
        peak_bytes=peak_bytes(device),
        accuracy=clusters.accuracy(found.labels),
        n_repeats=settings.pass_repeats,
    )


def measure_our_pass_with_features(settings: BenchSettings, execution: Execution) -> PassRow:
    """As in training: the images, on the device, through a 13-CNN, then the graph.

    The graph is over clustered features all the same: those of an untrained network are like no network's in use.
    """
    device, clusters, config = execution.device, _clusters(settings), GraphConfig(k=settings.k)
    network = prepare(build_model("13-cnn", n_classes=settings.n_classes), execution)
    views = ImageViews(AugmentConfig(), CIFAR_STATISTICS, height=SIDE, width=SIDE)
    inference, images = Inference(network, views.plain), random_images(settings.pass_size, SIDE).to(device)
    features, labels = clusters.features.to(device), clusters.labels.to(device)

    def whole_pass() -> Tensor:
        inference.embed(images)
        return pseudo_label(features, labels, config, n_classes=settings.n_classes).labels

    whole_pass()
    release_memory(device)
    embed_s = [time_work(lambda: inference.embed(images), device)[1] for _ in range(settings.pass_repeats)]
    runs = [time_work(whole_pass, device) for _ in range(settings.pass_repeats)]
    total_s = statistics.median(elapsed_s for _, elapsed_s in runs)
    features_s = statistics.median(embed_s)
    return PassRow(
        way="ours, 13-CNN features included",
        n=settings.pass_size,
        k=settings.k,
        n_classes=settings.n_classes,
        stages={"features": features_s, "graph": total_s - features_s},
        total_s=total_s,
        peak_bytes=peak_bytes(device),
        accuracy=clusters.accuracy(runs[0][0]),
        n_repeats=settings.pass_repeats,
    )


def measure_authors_way(settings: BenchSettings) -> PassRow:
    """On the CPU, where it lives; it is slow enough to be measured once."""
    clusters = _clusters(settings)
    features, labels = clusters.features.numpy(), clusters.labels.numpy()
    release_memory(HOST)
    found = authors_labels(features, labels, AuthorsConfig(k=settings.k), n_classes=settings.n_classes)
    return PassRow(
        way="the authors' way",
        n=settings.pass_size,
        k=settings.k,
        n_classes=settings.n_classes,
        stages=found.stages,
        total_s=sum(found.stages.values()),
        peak_bytes=peak_bytes(HOST),
        accuracy=clusters.accuracy(torch.from_numpy(found.labels)),
        n_repeats=1,
        note="" if HAS_FAISS else "faiss-cpu is not installed: neighbors by scikit-learn's brute force",
    )


def measure_label_spreading(settings: BenchSettings) -> PassRow:
    """scikit-learn's own way to spread labels over a nearest-neighbor graph: our k and γ, its other defaults."""
    clusters = _clusters(settings)
    features, labels = clusters.features.numpy(), clusters.labels.numpy()
    gamma = GraphConfig().gamma
    model = LabelSpreading(kernel="knn", n_neighbors=settings.k, alpha=gamma, n_jobs=-1)
    release_memory(HOST)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # its 30 iterations are its default; accuracy shows the rest
        _, total_s = time_work(lambda: model.fit(features, labels), HOST)
    return PassRow(
        way="scikit-learn LabelSpreading",
        n=settings.pass_size,
        k=settings.k,
        n_classes=settings.n_classes,
        stages={},
        total_s=total_s,
        peak_bytes=peak_bytes(HOST),
        accuracy=clusters.accuracy(torch.from_numpy(model.transduction_)),
        n_repeats=1,
        note=f"{model.n_iter_} iterations, no alignment",
    )


def _clusters(settings: BenchSettings) -> Clusters:
    return clustered_points(settings.pass_size, n_classes=settings.n_classes, n_labeled=settings.n_labeled)


def _warm_up(device: torch.device) -> None:
    """Libraries are loaded and kernels chosen on first use, on a small problem as well as on a large one."""
    few = clustered_points(2_000, n_classes=10, n_labeled=100)
    pseudo_label(few.features.to(device), few.labels.to(device), GraphConfig(), n_classes=10)
