"""Conjugate gradients against SciPy, a dense solve and scikit-learn's label spreading, in float64."""

import numpy as np
import pytest
import scipy.sparse.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.semi_supervised import LabelSpreading

from laplacenet.graph import affinity, laplacian_energy, nearest_neighbors, normalize, propagate, solve

GAMMA = 1 / 1.01


def graph(n=300, d=6, k=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 2
    return affinity(nearest_neighbors(X / np.linalg.norm(X, axis=1, keepdims=True), k=k))


def some_labels(n, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.1, rng.integers(n_classes, size=n), -1)
    y[:n_classes] = np.arange(n_classes)
    return y, torch.from_numpy((y[:, None] == np.arange(n_classes)).astype(np.float64))


def test_the_solution_is_that_of_a_dense_solve():
    W_normalized = normalize(graph())
    _, Y = some_labels(300, 5)
    F = propagate(W_normalized, Y, gamma=GAMMA, tol=1e-12, max_iterations=1000)
    exact = torch.linalg.solve(torch.eye(300, dtype=torch.float64) - GAMMA * W_normalized.to_dense(), Y)
    torch.testing.assert_close(F, exact, rtol=1e-8, atol=1e-10)


def test_each_class_is_what_scipy_finds_for_it_alone():
    W_normalized = normalize(graph(seed=1))
    _, Y = some_labels(300, 4, seed=1)
    F = propagate(W_normalized, Y.numpy(), gamma=GAMMA, tol=1e-10, max_iterations=1000)
    system = scipy.sparse.eye_array(300) - GAMMA * scipy.sparse.csr_array(W_normalized.to_dense().numpy())
    for c in range(4):
        reference, info = scipy.sparse.linalg.cg(system, Y[:, c].numpy(), rtol=1e-10)
        assert info == 0
        np.testing.assert_allclose(F[:, c].numpy(), reference, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("tol", [1e-2, 1e-4])
def test_the_iterates_and_their_count_are_those_of_scipy(tol):
    W_normalized = normalize(graph(seed=2))
    _, Y = some_labels(300, 3, seed=2)
    solution = solve(W_normalized, Y, gamma=GAMMA, tol=tol, max_iterations=1000)
    system = scipy.sparse.eye_array(300) - GAMMA * scipy.sparse.csr_array(W_normalized.to_dense().numpy())
    counts = []
    for c in range(3):
        steps = []
        reference, _ = scipy.sparse.linalg.cg(system, Y[:, c].numpy(), rtol=tol, callback=steps.append)
        counts.append(len(steps))
        np.testing.assert_allclose(solution.F[:, c].numpy(), reference, rtol=1e-8, atol=1e-12)
    assert solution.n_iterations == max(counts)


def test_label_spreading_on_the_same_graph_gives_the_same_distribution():
    W = graph(seed=3)
    y, Y = some_labels(300, 3, seed=3)
    F = propagate(normalize(W), Y, gamma=GAMMA, tol=1e-12, max_iterations=1000)
    dense = W.to_dense().numpy()
    spreading = LabelSpreading(kernel=lambda A, B: dense, alpha=GAMMA, max_iter=20_000, tol=1e-12)
    spreading.fit(np.arange(300.0)[:, None], y)
    np.testing.assert_allclose((F / F.sum(1, keepdim=True)).numpy(), spreading.label_distributions_, atol=1e-6)


def test_the_gradient_of_the_energy_vanishes_at_the_scaled_solution():
    W, mu = graph(n=60, seed=4), 0.01
    _, Y = some_labels(60, 3, seed=4)
    minimiser = (1 - GAMMA) * propagate(normalize(W), Y, gamma=GAMMA, tol=1e-13, max_iterations=1000)
    rng = np.random.default_rng(0)
    for _ in range(20):
        direction = torch.from_numpy(rng.normal(size=minimiser.shape))
        ahead = laplacian_energy(minimiser + 1e-3 * direction, W, Y, mu=mu)
        behind = laplacian_energy(minimiser - 1e-3 * direction, W, Y, mu=mu)
        assert abs(ahead - behind) < 1e-10
        assert ahead + behind > 2 * laplacian_energy(minimiser, W, Y, mu=mu)


def test_a_class_without_labels_stays_zero():
    _, Y = some_labels(300, 4)
    Y[:, 2] = 0
    solution = solve(normalize(graph()), Y, gamma=GAMMA, tol=1e-6, max_iterations=100)
    assert (solution.F[:, 2] == 0).all()
    assert solution.residual[2] == 0
    assert solution.F.isfinite().all()


def test_no_labels_at_all_take_no_iteration():
    solution = solve(normalize(graph()), torch.zeros(300, 2), gamma=GAMMA, tol=1e-6, max_iterations=100)
    assert solution.n_iterations == 0
    assert solution.is_converged
    assert (solution.F == 0).all()


def test_a_converged_class_is_not_disturbed_by_a_slower_one():
    W_normalized = normalize(graph())
    _, Y = some_labels(300, 3)
    Y[:, 1] = torch.linspace(0, 1, 300)
    together = solve(W_normalized, Y, gamma=GAMMA, tol=1e-4, max_iterations=100)
    for c in range(3):
        alone = solve(W_normalized, Y[:, c : c + 1], gamma=GAMMA, tol=1e-4, max_iterations=100)
        torch.testing.assert_close(together.F[:, c], alone.F[:, 0], rtol=1e-10, atol=1e-14)


def test_looking_less_often_changes_nothing(monkeypatch):
    from laplacenet.graph import solver

    W_normalized, (_, Y) = normalize(graph()), some_labels(300, 3)
    often = solve(W_normalized, Y, gamma=GAMMA, tol=1e-4, max_iterations=100)
    monkeypatch.setitem(solver.ITERATIONS_PER_LOOK, "cpu", 7)
    seldom = solve(W_normalized, Y, gamma=GAMMA, tol=1e-4, max_iterations=100)
    assert torch.equal(often.F, seldom.F)
    assert often.n_iterations == seldom.n_iterations


def test_solving_a_few_classes_at_a_time_changes_nothing(monkeypatch):
    from laplacenet.graph import solver

    W_normalized, (_, Y) = normalize(graph()), some_labels(300, 40)
    together = solve(W_normalized, Y, gamma=GAMMA, tol=1e-4, max_iterations=100)
    monkeypatch.setattr(solver, "CPU_BLOCK_BYTES", 1)
    apart = solve(W_normalized, Y, gamma=GAMMA, tol=1e-4, max_iterations=100)
    torch.testing.assert_close(together.F, apart.F, rtol=1e-10, atol=1e-14)
    torch.testing.assert_close(together.residual, apart.residual, rtol=1e-6, atol=0)
    assert together.n_iterations == apart.n_iterations


def test_too_few_iterations_are_reported():
    _, Y = some_labels(300, 3)
    solution = solve(normalize(graph()), Y, gamma=GAMMA, tol=1e-8, max_iterations=3)
    assert solution.n_iterations == 3
    assert not solution.is_converged
    assert solution.residual.max() > 1e-8


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", range(12))
def test_a_tolerance_that_no_number_can_meet_ends_at_the_solution(seed, dtype):
    W_normalized = normalize(graph(n=40, d=4, k=3, seed=seed)).to(dtype)
    Y = some_labels(40, 3)[1].to(dtype)
    expected = torch.linalg.solve(torch.eye(40, dtype=dtype) - GAMMA * W_normalized.to_dense(), Y)
    for tol in (1e-19, 1e-30, 1e-160, 1e-200):
        solution = solve(W_normalized, Y, gamma=GAMMA, tol=tol, max_iterations=2000)
        assert solution.is_converged
        torch.testing.assert_close(solution.F, expected)


@given(st.integers(2, 40), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_the_reported_residual_is_the_true_one(n, n_classes, seed):
    W_normalized = normalize(graph(n=n, seed=seed))
    Y = torch.from_numpy(np.random.default_rng(seed).normal(size=(n, n_classes)))
    solution = solve(W_normalized, Y, gamma=GAMMA, tol=1e-5, max_iterations=200)
    true = (Y - solution.F + GAMMA * W_normalized @ solution.F).norm(dim=0) / Y.norm(dim=0)
    torch.testing.assert_close(solution.residual, true, rtol=1e-3, atol=1e-9)
    assert solution.is_converged == bool((true <= 1.001e-5).all())
