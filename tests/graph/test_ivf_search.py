"""IVF: how many of the true ones are found, and that the report of it is honest."""

import numpy as np
import pytest
import torch

from laplacenet.graph import GraphConfig, nearest_neighbors, pseudo_label, pseudo_labels
from laplacenet.graph.search import ivf
from laplacenet.graph.search.ivf import ivf_neighbors, make_lists
from laplacenet.runtime import Group


def clustered(n, d=32, n_clusters=20, spread=0.25, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_clusters, size=n)
    X = rng.normal(size=(n_clusters, d))[truth] / np.sqrt(d) + spread * rng.normal(size=(n, d)) / np.sqrt(d)
    return torch.from_numpy((X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)), truth


def true_recall(found, X, k):
    exact = nearest_neighbors(X, k=k).indices
    return (found.indices[:, :, None] == exact[:, None, :]).any(2).float().mean().item()


@pytest.mark.parametrize("spread", [0.25, 1.0, 2.0])
def test_most_true_neighbors_are_found_and_the_reported_recall_is_right(spread):
    X, _ = clustered(6000, spread=spread)
    found = ivf_neighbors(X, k=20)
    recall = true_recall(found, X, 20)
    assert recall > 0.93
    assert found.recall == pytest.approx(recall, abs=0.03)


@pytest.mark.parametrize("n_distinct", [1, 50])
def test_of_many_copies_of_a_point_any_count_as_its_neighbors(n_distinct):
    X, _ = clustered(6000)
    assert ivf_neighbors(X[torch.arange(6000) % n_distinct], k=20).recall == 1


def test_similarities_are_those_of_the_neighbors_named_best_first():
    X, _ = clustered(6000)
    found = ivf_neighbors(X, k=20)
    torch.testing.assert_close(found.similarities, (X[found.indices] * X[:, None, :]).sum(2), rtol=0, atol=1e-6)
    assert (found.similarities.diff(dim=1) <= 0).all()


@pytest.mark.parametrize("n_distinct", [1, 3, 6000])
def test_neighbors_are_distinct_and_never_the_point_itself(n_distinct):
    X, _ = clustered(6000)
    X = X[torch.arange(6000) % n_distinct]
    found = ivf_neighbors(X, k=20)
    assert (found.indices.sort(1).values.diff(dim=1) > 0).all()
    assert not (found.indices == torch.arange(6000)[:, None]).any()
    assert found.similarities.isfinite().all()


def test_processes_with_other_numbers_of_threads_search_for_all_points_between_them(monkeypatch):
    class Of(Group):
        def by_first(self, work):
            return 2  # the first process has two threads

    class EnoughError(Exception):
        pass

    n_own = []

    def note(similarities, found, group):
        n_own.append(len(found))
        raise EnoughError

    monkeypatch.setattr(ivf, "of_all", note)
    monkeypatch.setattr(Group, "broadcast", lambda *_: None)
    X, _ = clustered(6000)
    before = torch.get_num_threads()
    try:
        for rank in range(3):
            torch.set_num_threads(1 + rank)
            with pytest.raises(EnoughError):
                ivf_neighbors(X, k=20, group=Of(rank, 3, reduces=True))
    finally:
        torch.set_num_threads(before)
    assert n_own == [1500, 2250, 2250]


def test_a_small_cluster_far_from_all_others_finds_its_k_neighbors_too():
    X, _ = clustered(6000, spread=0.01)
    X[:15] = torch.nn.functional.normalize(X[:15] - 2 * X.mean(0) + 0.01 * X[100:115], dim=1)
    found = ivf_neighbors(X, k=60)
    assert found.similarities.isfinite().all()
    assert found.recall > 0.9
    assert true_recall(found, X, 60) > 0.9
    assert (found.indices.sort(1).values.diff(dim=1) > 0).all()


def test_every_point_lies_in_one_list():
    X, _ = clustered(6000)
    lists = make_lists(X)
    assert torch.equal(lists.order.sort().values, torch.arange(6000))
    assert torch.equal(lists.points, X[lists.order])
    assert lists.starts[0] == 0
    assert lists.starts[-1] == 6000
    assert (lists.starts.diff() > 0).all()
    assert lists.starts.diff().max() <= 2 * 6000 / 38


def test_few_points_are_searched_exactly():
    X, _ = clustered(500)
    found = ivf_neighbors(X, k=20)
    assert found.recall is None
    assert torch.equal(found.indices, nearest_neighbors(X, k=20).indices)


def test_the_search_is_the_one_that_was_asked_for(monkeypatch):
    X, truth = clustered(6000)
    labels = np.where(np.arange(6000) < 200, truth, -1)
    exact = pseudo_label(X, labels, GraphConfig(k=10, search="exact"))
    approximate = pseudo_label(X, labels, GraphConfig(k=10, search="approximate"))
    assert exact.recall is None
    assert approximate.recall > 0.93
    assert (exact.labels == approximate.labels).float().mean() > 0.99
    assert pseudo_label(X, labels, GraphConfig(k=10)).recall is None
    monkeypatch.setitem(pseudo_labels.EXACT_UP_TO, "cpu", 5000)
    assert pseudo_label(X, labels, GraphConfig(k=10)).recall == approximate.recall
