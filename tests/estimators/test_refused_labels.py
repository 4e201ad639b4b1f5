"""The Python API refuses what the command refuses, and reads None as "no label"."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laplacenet.estimators import LaplaceNetClassifier, LaplacePropagation
from laplacenet.estimators.labels import numbered

X = np.random.default_rng(0).normal(size=(12, 3))
Y = np.array([0, 1, 2] + [-1] * 9)


@pytest.mark.parametrize("estimator", [LaplacePropagation(), LaplaceNetClassifier(steps=2, batch_size=4)])
@pytest.mark.parametrize(
    ("y", "said"),
    [
        (np.where(Y == 2, -2, Y), "y holds -2; -1 alone stands for no label"),
        (np.where(Y == 2, -3.0, Y), "y holds -3.0; -1 alone"),
        (np.where(Y == 2, -7, Y).astype(object), "y holds -7; -1 alone"),
        (Y.astype(np.uint64), "which is -1 in uint64; give labels in a type with a sign"),
        (Y.astype(np.uint8), "y holds 255, which is -1 in uint8"),
        (Y.astype(np.uint32).astype(np.int64), "y holds 4294967295"),
        (np.ma.masked_array(np.abs(Y), mask=Y < 0), "y is a masked array; give -1 where there is no label"),
        (np.where(Y < 0, "", np.array(["a", "b", "c"])[Y]), "y holds the text ''; -1 or None stands for no label"),
        (np.where(Y < 0, "NaN", np.array(["a", "b", "c"])[Y]), "y holds the text 'NaN'; -1 or None"),
        (np.array([0, 1, "two"] + [None] * 9, dtype=object), "y holds texts and numbers; give the one or the other"),
        (np.where(Y < 0, np.datetime64("NaT", "D"), np.datetime64("2020-01-01")), "y is an array of datetime64"),
        (np.array([(label,) for label in Y], dtype=[("label", int)]), "y is an array of .*; give labels as whole"),
    ],
)
def test_labels_that_can_only_be_a_mistake_are_refused(estimator: Any, y: np.ndarray, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        estimator.fit(X, y)


@pytest.mark.parametrize("estimator", [LaplacePropagation(), LaplaceNetClassifier(steps=2, batch_size=4)])
def test_masked_features_are_refused(estimator: Any) -> None:
    with pytest.raises(ValueError, match="X is a masked array; fill in what is masked"):
        estimator.fit(np.ma.masked_array(X, mask=X > 1), Y)
    assert len(estimator.fit(np.ma.masked_array(X), np.ma.masked_array(Y)).classes_) == 3


@pytest.mark.parametrize("names", [[0, 1, 2], ["a", "b", "c"]])
def test_none_among_labels_is_no_label(names: list[Any]) -> None:
    y = np.array([names[label] if label >= 0 else None for label in Y], dtype=object)
    given_as_numbers = LaplacePropagation(n_neighbors=3).fit(X, Y).transduction_
    found = LaplacePropagation(n_neighbors=3).fit(X, y)
    assert found.transduction_.tolist() == [names[label] for label in given_as_numbers]
    assert found.score(X, y) == found.score(X[:3], y[:3])


@settings(max_examples=50)
@given(st.lists(st.integers(-1, 2**31), min_size=1, max_size=20).filter(lambda y: max(y) >= 0))
def test_every_other_label_is_accepted_and_comes_back(y: list[int]) -> None:
    classes, numbers = numbered(np.array(y))
    assert [int(classes[number]) if number >= 0 else -1 for number in numbers] == y


def test_256_classes_fit_into_a_byte() -> None:
    classes, _ = numbered(np.tile(np.arange(256, dtype=np.uint8), 3))
    assert len(classes) == 256


@pytest.mark.parametrize("name", ["max_iter", "alignment_iterations"])
def test_iterations_have_an_end(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} = 1000000000; give at most 100000"):
        LaplacePropagation(**{name: 10**9}).fit(X, Y)


def test_no_prior_and_no_rounds_of_alignment_are_the_same() -> None:
    without_prior = LaplacePropagation(n_neighbors=3, prior=None).fit(X, Y)
    without_rounds = LaplacePropagation(n_neighbors=3, alignment_iterations=0).fit(X, Y)
    np.testing.assert_array_equal(without_prior.label_distributions_, without_rounds.label_distributions_)
    np.testing.assert_array_equal(without_prior.class_prior_, without_rounds.class_prior_)


def test_both_estimators_choose_their_device_alike() -> None:
    assert LaplacePropagation().device == LaplaceNetClassifier().device == "auto"
