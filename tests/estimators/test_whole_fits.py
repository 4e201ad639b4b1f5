"""What a fit bears: any mode and default type of torch, arrays in any order, errors and interruptions."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from references_estimators import digits, some_labels
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from laplacenet.estimators import LaplaceNetClassifier, LaplacePropagation, PretrainedFeatures

X, TRUTH = (array[:200] for array in digits())
Y = some_labels(TRUTH, 4)
SHORT = LaplaceNetClassifier(steps=3, batch_size=20, n_neighbors=10, device="cpu")
ESTIMATORS = [LaplacePropagation(n_neighbors=10), LaplacePropagation(base="logistic"), SHORT]
PICTURES = X.reshape(-1, 8, 8)


@pytest.fixture
def double_precision() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_rows_may_run_backwards(estimator: Any, kind: type) -> None:
    rows = X.astype(kind)[::-1]
    fitted = clone(estimator).fit(rows, Y[::-1])
    expected = clone(estimator).fit(rows.copy(), Y[::-1].copy())
    np.testing.assert_array_equal(fitted.predict_proba(rows), expected.predict_proba(rows.copy()))
    np.testing.assert_array_equal(fitted.predict(rows[:1][::-1]), fitted.predict(rows[:1].copy()))


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_gradients_may_be_turned_off(estimator: Any, mode: Any) -> None:
    expected = clone(estimator).fit(X, Y).predict_proba(X)
    with mode():
        fitted = clone(estimator).fit(X, Y)
        np.testing.assert_array_equal(fitted.predict_proba(X), expected)
        assert not torch.is_grad_enabled()
    np.testing.assert_array_equal(fitted.predict_proba(X), expected)


def test_threads_search_neighbors_in_inference_mode_too() -> None:
    points, truth = digits()
    n_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with torch.inference_mode():
            fitted = LaplacePropagation(base="logistic").fit(points, some_labels(truth, 4))
    finally:
        torch.set_num_threads(n_threads)
    assert np.mean(fitted.transduction_ == truth) > 0.8


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("rows", [X, PICTURES])
@pytest.mark.parametrize("model", [None, "patch-cnn"])
def test_a_network_is_trained_where_torch_uses_double_precision(rows: np.ndarray, model: str | None) -> None:
    fitted = clone(SHORT).set_params(model=model if rows.ndim == 3 else None).fit(rows, Y)
    assert {weights.dtype for weights in fitted.network_.parameters()} == {torch.float32}
    assert np.isfinite(fitted.predict_proba(rows)).all()


def test_features_are_nearly_the_same_where_torch_uses_double_precision(request: pytest.FixtureRequest) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (2, 40, 40, 3), dtype=np.uint8)
    expected = PretrainedFeatures().fit_transform(pictures)
    request.getfixturevalue("double_precision")
    found = PretrainedFeatures().fit_transform(pictures)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("n_steps", [3, 30])
def test_training_that_diverges_is_a_value_error_that_names_the_learning_rate(n_steps: int) -> None:
    with pytest.raises(ValueError, match=r"not finite|became") as refusal:
        clone(SHORT).set_params(lr=1e9, steps=n_steps).fit(X, Y)
    assert "a lower lr may help" in str(refusal.value)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_an_estimator_whose_fit_failed_is_not_fitted(estimator: Any) -> None:
    failing = clone(estimator)
    with pytest.raises(ValueError, match="n_neighbors"):
        failing.set_params(n_neighbors=0).fit(X, Y)
    assert vars(failing) == vars(failing.__class__(**failing.get_params()))
    with pytest.raises(NotFittedError):
        failing.predict(X)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_second_fit_that_is_interrupted_changes_nothing(estimator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    fitted = clone(estimator).fit(X, Y)
    expected = fitted.predict_proba(X)
    for name in ("propagation.pseudo_label", "propagation.label_landscape", "classifier.pseudo_label"):
        monkeypatch.setattr(f"laplacenet.estimators.{name}", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(1000 * X[:, :32] + 5, Y)
    assert fitted.n_features_in_ == 64
    np.testing.assert_array_equal(fitted.predict_proba(X), expected)


def test_a_warning_of_convergence_points_to_the_caller() -> None:
    with pytest.warns(ConvergenceWarning) as warned:
        LaplacePropagation(n_neighbors=10, max_iter=1).fit(X, Y)
    assert [warning.filename for warning in warned] == [__file__]
