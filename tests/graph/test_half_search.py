"""Half-precision products with exact re-ranking: exact neighbors, or IVF with a measured recall, on any device."""

import numpy as np
import pytest
import torch

from laplacenet.graph import nearest_neighbors
from laplacenet.graph.search import half, half_ivf_neighbors, ivf_half
from laplacenet.graph.search.exact import exact_rows
from laplacenet.graph.search.half import half_neighbors, half_products, score_slack, split_in_two

K = 20


def clustered(n, d=32, n_clusters=5, spread=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_clusters, d))[rng.integers(n_clusters, size=n)] + spread * rng.normal(size=(n, d))
    return torch.from_numpy((X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32))


def searched_again(monkeypatch):
    rows = []

    def spy(X, some, k):
        rows.append(len(some))
        return exact_rows(X, some, k)

    monkeypatch.setattr(half, "exact_rows", spy)
    return rows


@pytest.fixture(params=["split in two", "rounded once"])
def precision(request, monkeypatch):
    monkeypatch.setattr(half, "LEAST_POINTS", 10**6 if request.param == "split in two" else 0)


@pytest.mark.usefixtures("precision")
@pytest.mark.parametrize("length", [1e-4, 1.0, 300.0])
def test_half_precision_finds_the_exact_neighbors_whatever_the_length_of_features(length, monkeypatch):
    X = clustered(1500)
    again = searched_again(monkeypatch)
    similarities, indices = half_neighbors(X * length, K)
    exact = nearest_neighbors(X.double(), k=K)
    torch.testing.assert_close(similarities.double() / length**2, exact.similarities, rtol=1e-6, atol=1e-6)
    assert (indices == exact.indices).float().mean() > 0.999
    assert sum(again) < 100


@pytest.mark.usefixtures("precision")
@pytest.mark.parametrize("differ_by", [0.0, 1e-4])
def test_collapsed_features_are_searched_in_full_precision(differ_by, monkeypatch):
    X = torch.nn.functional.normalize(torch.ones(600, 32) + differ_by * clustered(600))
    again = searched_again(monkeypatch)
    similarities, indices = half_neighbors(X, K)
    assert sum(again) > 500
    torch.testing.assert_close(similarities, exact_rows(X, torch.arange(600), K)[0], rtol=0, atol=1e-6)
    assert not (indices == torch.arange(600)[:, None]).any()


def test_a_true_score_never_exceeds_the_rounded_one_by_more_than_the_slack():
    X = clustered(400) * 0.9
    halves = X.half()
    excess = X.double() @ X.double().T - (halves.float() @ halves.float().T).double()
    assert (excess <= score_slack(X, 1.0).double()[:, None]).all()


@pytest.mark.parametrize("length", [1e-4, 0.9, 300.0])
def test_the_sum_of_three_products_misses_a_true_score_by_less_than_the_slack_and_hardly_at_all(length):
    X = clustered(400) * length
    rounded = split_in_two(X)
    scores = torch.empty(400, 400)
    half_products(rounded.queries, rounded.points, scores)
    true = X.double() @ X.double().T * rounded.scale**2
    assert ((true - scores) <= rounded.slack.double()[:, None]).all()
    assert (true - scores).abs().max() < 4e-6 * true.abs().max()


def test_features_split_in_two_leave_hardly_a_row_in_doubt_where_half_precision_leaves_most(monkeypatch):
    X = clustered(3000, spread=0.1)  # cosines of 0.99 within a cluster
    again = searched_again(monkeypatch)
    split, indices = half_neighbors(X, K)
    monkeypatch.setattr(half, "LEAST_POINTS", 0)
    once, _ = half_neighbors(X, K)
    assert again[0] < 30
    assert again[1] > 1000
    exact = nearest_neighbors(X.double(), k=K)
    torch.testing.assert_close(split.double(), exact.similarities, rtol=0, atol=1e-6)
    torch.testing.assert_close(once.double(), exact.similarities, rtol=0, atol=1e-6)
    assert (indices == exact.indices).float().mean() > 0.99


def test_the_search_by_lists_finds_the_neighbors_and_says_how_many():
    X = clustered(6000, n_clusters=3)
    found, exact = half_ivf_neighbors(X, k=K), nearest_neighbors(X, k=K)
    recall = (found.indices[:, :, None] == exact.indices[:, None, :]).any(2).float().mean().item()
    assert found.recall is not None
    assert recall > 0.95
    assert found.recall == pytest.approx(recall, abs=0.02)
    torch.testing.assert_close(found.similarities, (X[found.indices] * X[:, None, :]).sum(2), rtol=0, atol=1e-6)
    assert (found.indices.sort(1).values.diff(dim=1) > 0).all()
    assert not (found.indices == torch.arange(6000)[:, None]).any()


@pytest.mark.parametrize("n_distinct", [1, 50])
def test_copies_of_a_point_are_distinct_neighbors(n_distinct):
    found = half_ivf_neighbors(clustered(5000)[torch.arange(5000) % n_distinct], k=K)
    assert (found.indices.sort(1).values.diff(dim=1) > 0).all()
    assert not (found.indices == torch.arange(5000)[:, None]).any()
    assert found.similarities.isfinite().all()


def test_small_buffers_and_lists_without_enough_points_change_nothing(monkeypatch):
    X = clustered(5000, n_clusters=60, spread=0.05)
    before = half_ivf_neighbors(X, k=60)
    monkeypatch.setitem(ivf_half.BLOCK_BYTES, "cpu", 1 << 16)
    after = half_ivf_neighbors(X, k=60)
    assert (before.indices == after.indices).float().mean() > 0.98  # products of other shapes round differently
    assert after.similarities.isfinite().all()
    assert after.recall > 0.95


def test_where_most_lists_would_be_searched_all_points_are():
    X = torch.nn.functional.normalize(torch.from_numpy(np.random.default_rng(0).normal(size=(5000, 128))).float())
    found = half_ivf_neighbors(X, k=K)
    assert found.recall is None
    assert torch.equal(found.indices, nearest_neighbors(X, k=K).indices)


def test_each_stage_is_clocked():
    stages = []

    def clock(name):
        stages.append(name)
        return ivf_half.no_clock(name)

    half_ivf_neighbors(clustered(5000, n_clusters=3), k=K, clock=clock)
    assert stages == ["lists", "probes", "search", "recall", "order"]
