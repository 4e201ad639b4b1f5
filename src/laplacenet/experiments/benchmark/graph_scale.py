"""The graph alone at growing sizes: seconds of each stage, memory, and how the time grows."""

import dataclasses
import itertools
import math
from collections.abc import Sequence

import torch

from laplacenet.experiments.benchmark.clock import Stages, peak_bytes, release_memory
from laplacenet.experiments.benchmark.rows import GraphRow
from laplacenet.experiments.benchmark.settings import BenchSettings
from laplacenet.experiments.benchmark.staged_pass import staged_pass
from laplacenet.experiments.benchmark.synthetic import clustered_points
from laplacenet.graph import GraphConfig

DIMENSION = 128
N_SAMPLED = 10_000  # points whose neighbors' clusters are looked at


def measure_graph(n: int, settings: BenchSettings, device: torch.device) -> GraphRow:
    """One pass; the search is exact or approximate as `search="auto"` chooses for the device and size."""
    clusters = clustered_points(n, n_classes=settings.n_classes, n_labeled=settings.n_labeled, d=DIMENSION)
    features, labels = clusters.features.to(device), clusters.labels.to(device)
    release_memory(device)
    stages = Stages(device)
    found = staged_pass(features, labels, GraphConfig(k=settings.k), n_classes=settings.n_classes, stages=stages)
    sample = torch.arange(min(n, N_SAMPLED))
    neighbors = found.neighbors.indices[: len(sample)].cpu()
    purity = (clusters.classes[neighbors] == clusters.classes[sample][:, None]).float().mean()
    return GraphRow(
        n=n,
        d=DIMENSION,
        k=settings.k,
        n_classes=settings.n_classes,
        stages=stages.seconds,
        total_s=sum(stages.seconds.values()),
        peak_bytes=peak_bytes(device),
        recall=found.neighbors.recall,
        purity=float(purity),
        accuracy=clusters.accuracy(found.labels),
        n_iterations=found.n_iterations,
    )


def with_growth(rows: Sequence[GraphRow]) -> tuple[GraphRow, ...]:
    """Each row with the growth from the size before."""
    ordered = sorted(rows, key=lambda row: row.n)
    grown = [
        dataclasses.replace(row, exponent=math.log(row.total_s / before.total_s) / math.log(row.n / before.n))
        for before, row in itertools.pairwise(ordered)
        if row.n > before.n
    ]
    return (*ordered[:1], *grown)
