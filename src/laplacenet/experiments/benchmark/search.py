"""Our approximate search beside faiss's inverted lists, both on the CPU: the reason for having one of our own."""

from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from laplacenet.experiments.benchmark.clock import time_work
from laplacenet.experiments.benchmark.rows import SearchRow
from laplacenet.experiments.benchmark.settings import BenchSettings
from laplacenet.experiments.benchmark.synthetic import clustered_points
from laplacenet.experiments.paper.authors_way import HAS_FAISS
from laplacenet.graph.search.exact import exact_rows
from laplacenet.graph.search.ivf import LISTS_PER_ROOT, LLOYD_ITERATIONS, ivf_neighbors
from laplacenet.runtime import InputError, stream

HOST = torch.device("cpu")
N_JUDGED = 512
MOST_QUERIES = 100_000
"""faiss takes as long for each query: so many of them tell."""


def measure_search(n: int, settings: BenchSettings) -> SearchRow:
    """The same points, the same judges; faiss with as many lists as ours, as few of them probed as reach our recall."""
    if not HAS_FAISS:
        raise InputError("faiss-cpu is not installed: pip install faiss-cpu")
    X = clustered_points(n, n_classes=settings.n_classes, n_labeled=settings.n_classes).features
    judges = torch.from_numpy(stream(0, "bench/search").permutation(n)[:N_JUDGED])
    true = exact_rows(X, judges, settings.k)[1]
    ours, ours_s = time_work(lambda: ivf_neighbors(X, k=settings.k), HOST)
    recall = share_found(ours.indices[judges], true)
    index, build_s = time_work(lambda: inverted_lists(X.numpy(), round(LISTS_PER_ROOT * n**0.5)), HOST)
    theirs_recall = probe_until(index, recall, X=X, judges=judges, true=true)
    queries = X[:MOST_QUERIES].numpy()
    _, search_s = time_work(lambda: index.search(queries, settings.k + 1), HOST)
    return SearchRow(
        n=n,
        d=X.shape[1],
        k=settings.k,
        ours_s=ours_s,
        ours_recall=recall,
        faiss_s=build_s + search_s * n / len(queries),
        faiss_recall=theirs_recall,
        n_probes=int(index.nprobe),
        n_queries=len(queries),
    )


def inverted_lists(X: ndarray, n_lists: int) -> Any:
    """faiss's flat inverted lists by inner product, their centroids found in as many rounds as ours."""
    import faiss  # noqa: PLC0415  an optional package

    faiss.omp_set_num_threads(torch.get_num_threads())
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(X.shape[1]), X.shape[1], n_lists, faiss.METRIC_INNER_PRODUCT)
    index.cp.niter = LLOYD_ITERATIONS
    index.train(X)
    index.add(X)
    return index


def probe_until(index: Any, recall: float, *, X: Tensor, judges: Tensor, true: Tensor) -> float:
    """Set the least number of probed lists that reaches the recall; gives the recall reached."""
    reached = 0.0
    for n_probes in range(1, index.nlist + 1):
        index.nprobe = n_probes
        found = index.search(X[judges].numpy(), true.shape[1] + 1)[1]
        reached = share_found(torch.from_numpy(without_itself(found, judges.numpy())), true)
        if reached >= recall:
            break
    return reached


def without_itself(found: ndarray, points: ndarray) -> ndarray:
    """A point's own number goes; where it is not among the found, the last of them."""
    is_itself = found == points[:, None]
    is_itself[~is_itself.any(1), -1] = True
    others: ndarray = found[~is_itself].reshape(len(found), -1)
    return np.ascontiguousarray(others)


def share_found(found: Tensor, true: Tensor) -> float:
    """The recall: which share of the true neighbors is among the found."""
    return float((found[:, :, None] == true[:, None, :]).any(2).float().mean())
