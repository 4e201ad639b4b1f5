"""The pseudo-label pass over millions of points: every stage with its seconds and memory, and the labels it costs."""

from collections.abc import Callable

import torch
from torch import Tensor

from laplacenet.experiments.benchmark.clock import Stages, forget_peak, release_memory, time_work
from laplacenet.experiments.benchmark.graph_scale import DIMENSION, N_SAMPLED
from laplacenet.experiments.benchmark.rows import ScaleRow
from laplacenet.experiments.benchmark.settings import BenchSettings
from laplacenet.experiments.benchmark.staged_pass import StagedLabels, staged_labels
from laplacenet.experiments.benchmark.synthetic import Clusters, clustered_points_on
from laplacenet.graph import GraphConfig, Neighbors, PseudoLabels, pseudo_label
from laplacenet.graph.pseudo_labels import EXACT_UP_TO, search_neighbors, unit_rows
from laplacenet.graph.search import half_ivf_neighbors
from laplacenet.runtime import InputError


def measure_scale(n: int, settings: BenchSettings, device: torch.device, report: Callable[[str], None]) -> ScaleRow:
    """One pass, then two over a sample of the points; what a failed one had measured is kept in its message."""
    clusters = clustered_points_on(device, n, n_classes=settings.n_classes, n_labeled=settings.n_labeled, d=DIMENSION)
    release_memory(device)
    stages = Stages(device, report=report)
    try:
        found = scaled_pass(clusters, settings, stages)
        report(f"total {sum(stages.seconds.values()):.1f} s, {100 * clusters.accuracy(found.labels):.2f} % right")
        purity = purity_of(found.neighbors, clusters)
        recall, accuracy, n_iterations = found.neighbors.recall, clusters.accuracy(found.labels), found.n_iterations
        del found
        sample = clusters.sample(min(settings.scale_sample, n))
        del clusters
        release_memory(device)
        exact, exact_s = sample_pass(sample, settings, "exact", device)
        report(f"sample, exact: {exact_s:.2f} s, {100 * sample.accuracy(exact.labels):.2f} % right")
        approximate, approximate_s = sample_pass(sample, settings, "approximate", device)
        report(f"sample, approximate: {approximate_s:.2f} s, {100 * sample.accuracy(approximate.labels):.2f} % right")
    except (RuntimeError, MemoryError) as error:
        so_far = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in stages.seconds.items())
        raise InputError(f"{type(error).__name__} after {so_far or 'nothing'}: {error}") from error
    return ScaleRow(
        n=n,
        d=DIMENSION,
        k=settings.k,
        n_classes=settings.n_classes,
        n_labeled=int((sample.labels >= 0).sum()),
        stages=stages.seconds,
        stage_peaks=stages.peaks,
        total_s=sum(stages.seconds.values()),
        peak_bytes=max(stages.peaks.values()),
        recall=recall,
        purity=purity,
        accuracy=accuracy,
        n_iterations=n_iterations,
        sample_n=len(sample.labels),
        sample_exact_s=exact_s,
        sample_exact_accuracy=sample.accuracy(exact.labels),
        sample_approximate_s=approximate_s,
        sample_approximate_accuracy=sample.accuracy(approximate.labels),
        sample_recall=approximate.recall,
    )


def scaled_pass(clusters: Clusters, settings: BenchSettings, stages: Stages) -> StagedLabels:
    """As `pseudo_label` does it, with the stages of a GPU's search apart."""
    config = GraphConfig(k=settings.k)
    with stages("unit rows"):
        X = unit_rows(clusters.features)
    neighbors = staged_search(X, config, stages)
    del X
    return staged_labels(neighbors, clusters.labels, config, n_classes=settings.n_classes, stages=stages)


def staged_search(X: Tensor, config: GraphConfig, stages: Stages) -> Neighbors:
    if X.device.type == "cuda" and len(X) > EXACT_UP_TO["cuda"]:
        return half_ivf_neighbors(X, k=config.k, clock=stages)
    with stages("neighbors"):
        return search_neighbors(X, config)


def sample_pass(
    sample: Clusters, settings: BenchSettings, search: str, device: torch.device
) -> tuple[PseudoLabels, float]:
    config = GraphConfig(k=settings.k, search=search)
    forget_peak(device)
    return time_work(lambda: pseudo_label(sample.features, sample.labels, config, n_classes=settings.n_classes), device)


def purity_of(neighbors: Neighbors, clusters: Clusters) -> float:
    """The share of neighbors from the point's own cluster, of a few points."""
    some = neighbors.indices[:N_SAMPLED]
    return float((clusters.classes[some] == clusters.classes[: len(some), None]).float().mean())
