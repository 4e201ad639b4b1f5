"""scikit-learn's own checks of an estimator, and what they leave to us."""

import doctest
import importlib
import pickle

import numpy as np
import pytest
from references_estimators import digits, some_labels
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from laplacenet.estimators import LaplaceNetClassifier, LaplacePropagation

ESTIMATORS = [
    LaplacePropagation(n_neighbors=10),
    LaplacePropagation(base="logistic"),
    LaplaceNetClassifier(steps=20, n_neighbors=10, device="cpu"),
]
EXCEPTIONS = {
    "check_classifiers_classes": "it takes −1 for a class; here it means no label, as in LabelSpreading, which the"
    " check spares by name"
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: EXCEPTIONS)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("kind", [int, float, str, object])
def test_classes_may_be_of_any_kind_and_in_any_order(estimator, kind):
    """The rest of the check that is excepted above."""
    X, truth = digits()
    rows = np.flatnonzero(truth < 3)[:60]
    names = {int: [7, 2, 5], float: [7.0, 2.0, 5.0], str: ["b", "c", "a"], object: ["b", "c", "a"]}[kind]
    named = np.array(names, dtype=kind)[truth[rows]]
    fitted = clone(estimator).fit(X[rows], named)
    assert fitted.classes_.tolist() == sorted(names)
    assert np.mean(fitted.predict(X[rows]) == named) > 0.9
    assert fitted.transduction_.tolist() == named.tolist()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_texts_are_labels_and_minus_one_among_them_is_none(estimator):
    X, truth = digits()
    X, truth = X[truth < 2], truth[truth < 2]
    y = some_labels(truth, 5)
    expected = clone(estimator).fit(X, y)
    texts = np.where(y < 0, "-1", np.array(["even", "odd"])[y])
    for given in (texts, texts.astype(object), np.where(y < 0, -1, texts.astype(object))):
        fitted = clone(estimator).fit(X, given)
        assert fitted.classes_.tolist() == ["even", "odd"]
        assert fitted.transduction_.tolist() == np.array(["even", "odd"])[expected.transduction_].tolist()
        assert fitted.score(X, given) == expected.score(X, y)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_fitted_estimator_survives_pickling_and_a_clone_starts_afresh(estimator):
    X, truth = digits()
    X, y = X[:200], some_labels(truth[:200], 3)
    fitted = clone(estimator).fit(X, y)
    restored = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(restored.predict_proba(X), fitted.predict_proba(X))
    np.testing.assert_array_equal(restored.transduction_, fitted.transduction_)
    again = clone(fitted)
    assert not hasattr(again, "classes_")
    assert again.get_params() == estimator.get_params()
    np.testing.assert_array_equal(again.fit(X, y).label_distributions_, fitted.label_distributions_)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_tags_say_classifier_of_dense_arrays(estimator):
    tags = get_tags(estimator)
    assert is_classifier(estimator)
    assert tags.target_tags.required
    assert not tags.input_tags.sparse


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_score_leaves_out_what_has_no_label(estimator):
    X, truth = digits()
    X, truth = X[:200], truth[:200]
    fitted = clone(estimator).fit(X, some_labels(truth, 5))
    known = some_labels(truth, 7, seed=1)
    is_known = known >= 0
    assert fitted.score(X, known) == np.mean(fitted.predict(X[is_known]) == truth[is_known])
    weights = np.arange(200.0)
    hits = fitted.predict(X[is_known]) == truth[is_known]
    assert fitted.score(X, known, weights) == pytest.approx(np.average(hits, weights=weights[is_known]))
    with pytest.raises(ValueError, match="every label is -1"):
        fitted.score(X, np.full(200, -1))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_cross_validation_with_unlabeled_rows_judges_the_labeled_ones(estimator):
    X, truth = digits()
    X, truth = X[:600], truth[:600]
    y = some_labels(truth, 6)
    scores = cross_val_score(make_pipeline(StandardScaler(), clone(estimator)), X, y, cv=3)
    assert scores.shape == (3,)
    assert scores.mean() > 0.6
    counts = scores * 20  # each fold judges a third of the sixty labels
    np.testing.assert_allclose(counts, np.rint(counts), atol=1e-9)


def test_a_grid_of_parameters_may_be_an_array():
    X, truth = digits()
    X, y = X[:600], some_labels(truth[:600], 6)
    pipeline = make_pipeline(StandardScaler(), LaplacePropagation())
    grid = {
        "laplacepropagation__n_neighbors": np.array([5, 15]),
        "laplacepropagation__mu": np.array([0.01, 0.1], dtype=np.float32),
    }
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    assert search.best_score_ > 0.6
    assert search.predict(X).shape == (600,)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_no_label_at_all_is_refused(estimator):
    with pytest.raises(ValueError, match="every label is -1"):
        clone(estimator).fit(np.eye(4), np.full(4, -1))


@pytest.mark.parametrize("module", ["propagation", "classifier"])
def test_the_examples_in_the_docstrings_run(module):
    outcome = doctest.testmod(importlib.import_module(f"laplacenet.estimators.{module}"))
    assert outcome.attempted > 5
    assert outcome.failed == 0
