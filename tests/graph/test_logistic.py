"""Logistic regression against scikit-learn's."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from laplacenet.graph.logistic import LogisticModel, Stop, fit_logistic, fit_soft_logistic, span_basis


def problem(n: int, d: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, d)) + 2 * rng.normal(size=(n_classes, d))[y]
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


@pytest.mark.parametrize("C", [1.0, 100.0])
@pytest.mark.parametrize(("n", "d"), [(30, 60), (80, 7)])
def test_the_solution_is_that_of_scikit_learn(n: int, d: int, C: float) -> None:
    X, y = problem(n, d, 4)
    basis = span_basis(X)
    found = fit_logistic(X @ basis, y, n_classes=4, C=C, tol=1e-7)
    reference = LogisticRegression(C=C, tol=1e-9, max_iter=10_000).fit(X, y)
    queries = np.random.default_rng(1).normal(size=(20, d))
    logits = found.logits(queries @ basis)
    expected = reference.decision_function(queries)
    np.testing.assert_allclose(
        logits - logits.mean(1, keepdims=True), expected - expected.mean(1, keepdims=True), rtol=2e-3, atol=2e-3
    )


def test_weights_count_a_row_as_often_as_they_say() -> None:
    X, y = problem(30, 5, 3)
    weights = np.where(y == 1, 3.0, 1.0)
    repeated = np.repeat(np.arange(30), weights.astype(int))
    weighted = fit_logistic(X, y, n_classes=3, C=10.0, tol=1e-8, weights=weights)
    again = fit_logistic(X[repeated], y[repeated], n_classes=3, C=10.0, tol=1e-8)
    np.testing.assert_allclose(weighted.weights, again.weights, atol=1e-4)


def fit_soft(X: np.ndarray, targets: np.ndarray, counts: np.ndarray, stop: Stop) -> LogisticModel:
    zeros = LogisticModel(np.zeros((X.shape[1], targets.shape[1])), np.zeros(targets.shape[1]), 0)
    return fit_soft_logistic(X, targets, counts, C=10.0, start=zeros, stop=stop)


def test_soft_targets_are_rows_that_are_there_for_each_class_in_part() -> None:
    X, _ = problem(30, 5, 3)
    targets = np.random.default_rng(2).dirichlet(np.ones(3), 30)
    counts = np.linspace(0.5, 2, 30)
    soft = fit_soft(X, targets, counts, Stop(1e-8))
    rows, classes = np.repeat(np.arange(30), 3), np.tile(np.arange(3), 30)
    weights = (counts[:, None] * targets).ravel()
    hard = fit_logistic(X[rows], classes, n_classes=3, C=10.0, tol=1e-8, weights=weights)
    np.testing.assert_allclose(soft.weights, hard.weights, atol=1e-4)
    np.testing.assert_allclose(soft.offsets, hard.offsets, atol=1e-4)


def test_a_fit_stops_when_nobody_waits_for_it() -> None:
    X, y = problem(30, 5, 3)
    looks = iter([False, False, True])
    stopped = fit_soft(X, np.eye(3)[y], np.ones(30), Stop(1e-8, is_stale=lambda: next(looks)))
    assert stopped.n_iterations == 3
    assert fit_soft(X, np.eye(3)[y], np.ones(30), Stop(1e-8, max_iterations=2)).n_iterations == 2


def test_a_start_at_the_solution_ends_there() -> None:
    X, y = problem(30, 5, 3)
    found = fit_logistic(X, y, n_classes=3, C=10.0, tol=1e-4)
    again = fit_logistic(X, y, n_classes=3, C=10.0, tol=1e-4, start=found)
    assert again.n_iterations <= 1
    np.testing.assert_allclose(again.weights, found.weights, atol=1e-3)


def test_a_class_without_rows_is_never_found() -> None:
    X, y = problem(30, 5, 3)
    found = fit_logistic(X, np.where(y == 1, 3, y), n_classes=5, C=10.0)
    assert set(found.logits(X).argmax(1)) <= {0, 2, 3}


def test_one_class_is_certain() -> None:
    X, _ = problem(4, 5, 2)
    found = fit_logistic(X, np.full(4, 1), n_classes=3, C=10.0)
    assert (found.logits(X).argmax(1) == 1).all()


def test_the_basis_keeps_inner_products() -> None:
    X, _ = problem(10, 50, 2)
    X[3] = X[4]
    basis = span_basis(X)
    assert basis.shape[1] <= 9
    np.testing.assert_allclose((X @ basis) @ (X @ basis).T, X @ X.T, atol=1e-8)
