"""The search by 8-bit products finds what the search in full precision finds, and its bound is one."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from laplacenet.graph import nearest_neighbors, screened_search
from laplacenet.graph.blocked_search import exact_rows
from laplacenet.graph.screened_search import can_screen, rotation, rounded, screened_neighbors

pytestmark = pytest.mark.skipif(
    not torch.cpu._is_vnni_supported(), reason="this processor has no instructions for 8-bit products"
)
N = 2000


def gaussian(rng):
    return rng.normal(size=(N, 24))


def sorted_clusters(rng):
    return rng.normal(size=(20, 24)).repeat(N // 20, axis=0) + rng.normal(size=(N, 24))


def one_large_coordinate(rng):
    X = np.maximum(rng.normal(size=(N, 24)), 0)
    X[:, 5] *= 40
    return X


def lengths_of_all_sizes(rng):
    return rng.normal(size=(N, 24)) * np.exp(rng.normal(size=(N, 1)))


def some_zeros(rng):
    return rng.normal(size=(N, 24)) * (rng.random((N, 1)) > 0.1)


def tiny_numbers(rng):
    return 1e-18 * rng.normal(size=(N, 24))


def huge_numbers(rng):
    return 1e17 * rng.normal(size=(N, 24))


def nearly_the_same(rng):
    return 1 + 1e-3 * rng.normal(size=(N, 24))


def few_features(rng):
    return rng.normal(size=(N, 2))


DATA = (
    gaussian,
    sorted_clusters,
    one_large_coordinate,
    lengths_of_all_sizes,
    some_zeros,
    tiny_numbers,
    huge_numbers,
    nearly_the_same,
    few_features,
)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", DATA)
def test_neighbors_are_those_of_the_search_in_full_precision(make, dtype):
    X = torch.from_numpy(make(np.random.default_rng(0)).astype(dtype))
    similarities, found = screened_neighbors(X, 20)
    expected, _ = exact_rows(X, torch.arange(N), 20)
    scale = float(expected.abs().max())
    torch.testing.assert_close(
        similarities / scale, expected / scale, rtol=0, atol=2e-6 if dtype == np.float32 else 1e-14
    )
    # Ties may be broken either way: the points named must score as the neighbors do.
    named = (X[found] * X[:, None, :]).sum(2)
    torch.testing.assert_close(named / scale, expected / scale, rtol=0, atol=2e-6)
    assert (found.sort(1).values.diff(dim=1) > 0).all()
    assert not (found == torch.arange(N)[:, None]).any()


def test_the_neighbors_of_clear_data_are_the_same_points():
    X = torch.from_numpy(sorted_clusters(np.random.default_rng(1)))
    assert torch.equal(screened_neighbors(X, 20)[1], exact_rows(X, torch.arange(N), 20)[1])


@given(st.integers(1, 24), st.integers(0, 2**32 - 1), st.sampled_from(DATA))
def test_no_score_is_further_off_than_the_slack_says(d, seed, make):
    X = torch.from_numpy(make(np.random.default_rng(seed))[:200, :d].astype(np.float32))
    d = X.shape[1]
    coarse = rounded(X, 5)
    kept, exact = coarse.points[:200].double(), X.double()
    unit = (exact @ rotation(d)).abs().max().clamp(min=1e-300) / 127
    off = ((exact / unit) @ (exact / unit).T - kept @ kept.T).abs().amax(1)
    assert (2 * off <= coarse.slack).all()


def test_too_many_candidates_are_left_to_the_search_in_full_precision(monkeypatch):
    calls = []

    def counted(X, rows, k):
        calls.append(len(rows))
        return exact_rows(X, rows, k)

    monkeypatch.setattr(screened_search, "exact_rows", counted)
    rng = np.random.default_rng(0)
    screened_neighbors(torch.from_numpy(gaussian(rng)), 20)
    assert calls == []
    screened_neighbors(torch.from_numpy(nearly_the_same(rng)), 20)
    assert calls == [N]


def test_pieces_and_blocks_change_nothing(monkeypatch):
    X = torch.from_numpy(gaussian(np.random.default_rng(0)))
    whole = screened_neighbors(X, 20)
    monkeypatch.setattr(screened_search, "PIECE", 300)
    monkeypatch.setattr(screened_search, "BLOCK_BYTES", 1)
    torch.testing.assert_close(screened_neighbors(X, 20), whole)


@pytest.mark.parametrize(
    ("n", "d", "k", "is_possible"), [(640, 4, 10, True), (639, 4, 10, False), (640, 9000, 10, False)]
)
def test_only_many_points_with_not_too_many_features_are_screened(n, d, k, is_possible):
    assert can_screen(torch.empty(n, d), k) == is_possible


def test_where_the_instructions_are_missing_the_product_is_taken_in_full_precision(monkeypatch):
    X = torch.from_numpy(gaussian(np.random.default_rng(0)).astype(np.float32))
    screened = nearest_neighbors(X, k=20)
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    full = nearest_neighbors(X, k=20)
    assert torch.equal(full.similarities, exact_rows(X, torch.arange(N), 20)[0])
    torch.testing.assert_close(screened.similarities, full.similarities)
