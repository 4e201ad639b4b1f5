"""Exact neighbors, against scikit-learn."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from laplacenet.graph import nearest_neighbors
from laplacenet.graph.search import exact
from laplacenet.runtime import InputError


def clustered(n, d, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(10, d))
    return (centers[rng.integers(10, size=n)] + 0.5 * rng.normal(size=(n, d))).astype(dtype)


def brute_force(X, k):
    similarity = X @ X.T
    np.fill_diagonal(similarity, -np.inf)
    return np.argsort(-similarity, axis=1, kind="stable")[:, :k], np.sort(similarity, axis=1)[:, ::-1][:, :k]


@pytest.mark.parametrize("n", [300, 5000])
def test_neighbors_are_those_of_scikit_learn(n):
    X = clustered(n, 16)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    found = nearest_neighbors(X, k=20)
    reference = NearestNeighbors(n_neighbors=20, algorithm="brute").fit(X).kneighbors(return_distance=False)
    np.testing.assert_array_equal(found.indices.numpy(), reference)
    assert found.recall is None


@pytest.mark.parametrize("instructions", ["AVX2", "AVX512_CORE"])
def test_neighbors_are_exact_where_sums_of_8_bit_products_saturate(instructions):
    code = """
import torch
from laplacenet.graph import nearest_neighbors
from laplacenet.graph.search.exact import exact_rows
generator = torch.Generator().manual_seed(0)
X = torch.randn(10, 16, generator=generator).repeat(500, 1) + 0.5 * torch.randn(5000, 16, generator=generator)
X = torch.nn.functional.normalize(X)
print(torch.equal(nearest_neighbors(X, k=20).indices, exact_rows(X, torch.arange(5000), 20)[1]))
"""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": instructions}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


@pytest.mark.parametrize(("n", "k"), [(2, 1), (50, 49), (700, 3), (4097, 5)])
def test_neighbors_are_those_of_a_full_sort(n, k):
    X = clustered(n, 7, seed=n)
    indices, similarities = brute_force(X, k)
    found = nearest_neighbors(torch.from_numpy(X), k=k)
    np.testing.assert_array_equal(found.indices.numpy(), indices)
    np.testing.assert_allclose(found.similarities.numpy(), similarities, rtol=1e-12)


def test_many_small_blocks_find_the_same_as_one(monkeypatch):
    X, rows = torch.from_numpy(clustered(1000, 8, dtype=np.float32)), torch.arange(1000)
    whole = exact.exact_rows(X, rows, 10)
    monkeypatch.setitem(exact.BLOCK_BYTES, "cpu", 4 * 1024 * 37)
    torch.testing.assert_close(exact.exact_rows(X, rows, 10), whole)


def test_k_is_cut_to_all_other_points():
    found = nearest_neighbors(clustered(6, 3), k=50)
    for i, row in enumerate(found.indices.tolist()):
        assert sorted([*row, i]) == list(range(6))


def test_a_single_point_has_no_neighbors():
    assert nearest_neighbors(np.ones((1, 3)), k=5).indices.shape == (1, 0)


@given(st.integers(2, 400), st.integers(1, 30), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_duplicates_give_distinct_neighbors_and_never_the_point_itself(n, k, n_distinct, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(n_distinct, 3))[rng.integers(n_distinct, size=n)].astype(np.float32)
    found = nearest_neighbors(X, k=k)
    _, similarities = brute_force(X, min(k, n - 1))
    np.testing.assert_array_equal(found.similarities.numpy(), similarities)
    rows = found.indices.numpy()
    np.testing.assert_array_equal(np.take_along_axis(X @ X.T, rows, 1), similarities)
    for i, row in enumerate(rows):
        assert i not in row
        assert len(set(row)) == len(row)


def test_chunks_of_equal_scores_give_distinct_neighbors():
    found = nearest_neighbors(np.ones((10_000, 2), dtype=np.float32), k=50)
    ordered = found.indices.sort(1).values
    assert (ordered.diff(dim=1) > 0).all()
    assert not (found.indices == torch.arange(10_000)[:, None]).any()


def test_no_neighbors_are_refused():
    with pytest.raises(InputError, match="at least 1"):
        nearest_neighbors(np.ones((3, 2)), k=0)
