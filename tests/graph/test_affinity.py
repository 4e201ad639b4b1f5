"""W and 𝒲 against their definitions."""

import importlib

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from references_graph import dense_normalized, literal_affinity, literal_energy

from laplacenet.graph import Neighbors, affinity, laplacian_energy, nearest_neighbors, normalize

affinity_module = importlib.import_module("laplacenet.graph.affinity")  # the room exports a function of this name
point_clouds = st.builds(
    lambda n, d, seed: np.random.default_rng(seed).normal(size=(n, d)),
    st.integers(1, 60),
    st.integers(1, 5),
    st.integers(0, 2**32 - 1),
)


@given(point_clouds, st.integers(1, 12))
def test_the_affinity_is_its_definition(X, k):
    W = affinity(nearest_neighbors(X, k=k)).to_dense().numpy()
    np.testing.assert_allclose(W, literal_affinity(X, k), rtol=1e-12)


@given(point_clouds, st.integers(1, 12))
def test_the_affinity_is_symmetric_nonnegative_and_has_a_zero_diagonal(X, k):
    W = affinity(nearest_neighbors(X.astype(np.float32), k=k)).to_dense()
    assert torch.equal(W, W.T)
    assert (W >= 0).all()
    assert (W.diagonal() == 0).all()


@given(point_clouds, st.integers(1, 12), st.floats(1e-3, 10))
def test_the_system_is_positive_definite(X, k, mu):
    W_normalized = normalize(affinity(nearest_neighbors(X, k=k))).to_dense().numpy()
    assert np.linalg.eigvalsh(np.eye(len(X)) - W_normalized / (1 + mu)).min() > 0


@given(point_clouds, st.integers(1, 12))
def test_normalization_divides_by_the_roots_of_the_degrees(X, k):
    W = affinity(nearest_neighbors(X, k=k))
    np.testing.assert_allclose(
        normalize(W).to_dense().numpy(), dense_normalized(W.to_dense().numpy()), rtol=1e-12, atol=1e-15
    )


def test_blocks_of_rows_make_the_same_matrix(monkeypatch):
    neighbors = nearest_neighbors(np.random.default_rng(0).normal(size=(300, 4)), k=9)
    W = affinity(neighbors)
    W_normalized = normalize(W)
    monkeypatch.setattr(affinity_module, "EDGES_AT_ONCE", 700)
    monkeypatch.setattr(affinity_module, "ROWS_AT_ONCE", 37)
    in_blocks = affinity(neighbors)
    for part in ("crow_indices", "col_indices", "values"):
        assert torch.equal(getattr(in_blocks, part)(), getattr(W, part)())
    assert torch.equal(normalize(in_blocks).values(), W_normalized.values())


def test_the_larger_direction_counts():
    neighbors = Neighbors(torch.tensor([[1], [0], [0]]), torch.tensor([[0.25], [0.5], [-0.5]]))
    expected = torch.tensor([[0.0, 0.5, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert torch.equal(affinity(neighbors).to_dense(), expected)


def test_opposite_points_stay_isolated():
    W = affinity(nearest_neighbors(np.array([[1.0, 0.0], [-1.0, 0.0]]), k=1))
    assert W.values().numel() == 0
    assert torch.equal(normalize(W).to_dense(), torch.zeros(2, 2, dtype=torch.float64))


def test_indices_are_sorted_in_each_row_and_short():
    W = affinity(nearest_neighbors(np.random.default_rng(0).normal(size=(200, 4)), k=9))
    assert W.col_indices().dtype == W.crow_indices().dtype == torch.int32
    for start, stop in zip(W.crow_indices()[:-1], W.crow_indices()[1:], strict=True):
        assert (W.col_indices()[start:stop].diff() > 0).all()


@given(point_clouds, st.integers(1, 12), st.integers(1, 4), st.floats(1e-3, 10))
def test_the_energy_is_the_sum_over_pairs(X, k, n_classes, mu):
    rng = np.random.default_rng(len(X))
    F, Y = rng.normal(size=(2, len(X), n_classes))
    W = affinity(nearest_neighbors(X, k=k))
    energy = laplacian_energy(torch.from_numpy(F), W, torch.from_numpy(Y), mu=mu)
    np.testing.assert_allclose(energy.item(), literal_energy(F, W.to_dense().numpy(), Y, mu), rtol=1e-9)
