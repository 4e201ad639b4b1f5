"""int8 quantization with exact re-ranking finds what full precision finds, and its error bound holds."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from laplacenet.graph import nearest_neighbors
from laplacenet.graph.search import int8
from laplacenet.graph.search.exact import exact_rows
from laplacenet.graph.search.int8 import can_quantize, int8_neighbors, quantize, rotation

pytestmark = pytest.mark.skipif(
    not int8.has_int8_products(), reason="this processor has no instructions for 8-bit products"
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
    similarities, found = int8_neighbors(X, 20)
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
    assert torch.equal(int8_neighbors(X, 20)[1], exact_rows(X, torch.arange(N), 20)[1])


@given(st.integers(1, 24), st.integers(0, 2**32 - 1), st.sampled_from(DATA))
def test_no_score_is_further_off_than_the_slack_says(d, seed, make):
    X = torch.from_numpy(make(np.random.default_rng(seed))[:200, :d].astype(np.float32))
    d = X.shape[1]
    quantized = quantize(X, 5)
    kept, exact = quantized.points[:200].double(), X.double()
    unit = (exact @ rotation(d)).abs().max().clamp(min=1e-300) / 127
    off = ((exact / unit) @ (exact / unit).T - kept @ kept.T).abs().amax(1)
    assert (2 * off <= quantized.slack).all()


def test_too_many_candidates_are_left_to_the_search_in_full_precision(monkeypatch):
    calls = []

    def counted(X, rows, k):
        calls.append(len(rows))
        return exact_rows(X, rows, k)

    monkeypatch.setattr(int8, "exact_rows", counted)
    rng = np.random.default_rng(0)
    int8_neighbors(torch.from_numpy(gaussian(rng)), 20)
    assert calls == []
    int8_neighbors(torch.from_numpy(nearly_the_same(rng)), 20)
    assert calls == [N]


def test_pieces_and_blocks_change_nothing(monkeypatch):
    X = torch.from_numpy(gaussian(np.random.default_rng(0)))
    whole = int8_neighbors(X, 20)
    monkeypatch.setattr(int8, "PIECE", 300)
    monkeypatch.setattr(int8, "BLOCK_BYTES", 1)
    torch.testing.assert_close(int8_neighbors(X, 20), whole)


@pytest.mark.parametrize(
    ("n", "d", "k", "is_possible"), [(640, 4, 10, True), (639, 4, 10, False), (640, 9000, 10, False)]
)
def test_only_many_points_with_not_too_many_features_are_quantized(n, d, k, is_possible):
    assert can_quantize(torch.empty(n, d), k) == is_possible


def test_the_rotation_of_a_dimension_is_computed_once_and_left_alone():
    X = torch.from_numpy(gaussian(np.random.default_rng(0)).astype(np.float32))
    before = rotation(24)
    kept = before.clone()
    int8_neighbors(X, 20)
    assert rotation(24) is before
    assert torch.equal(before, kept)
    torch.testing.assert_close(before @ before.T, torch.eye(24, dtype=torch.float64))


@pytest.mark.parametrize(("module", "name"), [(torch.cpu, "_is_vnni_supported"), (torch, "_int_mm")])
def test_a_torch_without_its_private_functions_takes_products_in_full_precision(monkeypatch, module, name):
    X = torch.from_numpy(gaussian(np.random.default_rng(0)).astype(np.float32))
    monkeypatch.delattr(module, name)
    assert not can_quantize(X, 20)
    assert torch.equal(nearest_neighbors(X, k=20).similarities, exact_rows(X, torch.arange(N), 20)[0])


def test_where_the_instructions_are_missing_the_product_is_taken_in_full_precision(monkeypatch):
    X = torch.from_numpy(gaussian(np.random.default_rng(0)).astype(np.float32))
    quantized = nearest_neighbors(X, k=20)
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    full = nearest_neighbors(X, k=20)
    assert torch.equal(full.similarities, exact_rows(X, torch.arange(N), 20)[0])
    torch.testing.assert_close(quantized.similarities, full.similarities)
