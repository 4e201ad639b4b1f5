"""Labels of any kind, −1 for "no label", as the numbers that the other rooms use, and the score of the given ones."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Int64, Shaped
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from laplacenet.data import UNKNOWN
from laplacenet.data.classes import known_label

KINDS = "biufcOUS"
"""Of arrays that can hold labels; of these scikit-learn refuses some itself."""


def is_hidden(y: Shaped[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
    """Which labels are not given: the number −1, None or, as NumPy writes −1 among texts, "-1"."""
    if y.dtype.kind == "O":
        return np.fromiter((label is None or label in (-1, "-1") for label in y), dtype=bool, count=len(y))
    hidden: np.ndarray = y == ("-1" if y.dtype.kind == "U" else -1)
    return hidden


def refuse_masked(**arrays: Any) -> None:
    """Refuse arrays whose mask scikit-learn would drop, so that what lies under it would count."""
    for name, array in arrays.items():
        if np.ma.is_masked(array):
            remedy = "give -1 where there is no label" if name == "y" else "fill in what is masked"
            raise ValueError(f"{name} is a masked array; {remedy}")


def numbered(y: Shaped[np.ndarray, " n"]) -> tuple[Shaped[np.ndarray, " C"], Int64[np.ndarray, " n"]]:
    """The classes in order, and for each label its class's number, −1 where hidden."""
    if y.dtype.kind not in KINDS:
        raise ValueError(f"y is an array of {y.dtype}; give labels as whole numbers or texts, -1 for none")
    is_given = ~is_hidden(y)
    if not is_given.any():
        raise ValueError("no labels: every label is -1; give at least one")
    given = as_numbers(y[is_given])
    require_one_kind(given)
    check_classification_targets(given)
    require_labels(given)
    numbers = np.full(len(y), UNKNOWN, dtype=np.int64)
    classes, numbers[is_given] = np.unique(given, return_inverse=True)
    return classes, numbers


def as_numbers(given: Shaped[np.ndarray, " m"]) -> Shaped[np.ndarray, " m"]:
    """Whole numbers among which None stood are an array of objects; they are numbers without it."""
    are_numbers = given.dtype.kind == "O" and all(isinstance(label, int | np.integer) for label in given)
    return np.array(given.tolist()) if are_numbers else given


def require_one_kind(given: Shaped[np.ndarray, " m"]) -> None:
    """Refuse texts beside numbers, and texts that only say that there is no label."""
    texts = {label for label in given.tolist() if isinstance(label, str)} if given.dtype.kind in "OU" else set()
    if unknown := sorted(text for text in texts if known_label(text) is None):
        raise ValueError(f"y holds the text {unknown[0]!r}; -1 or None stands for no label")
    if texts and given.dtype.kind == "O" and not all(isinstance(label, str) for label in given):
        raise ValueError("y holds texts and numbers; give the one or the other, and -1 or None for no label")


def require_labels(given: Shaped[np.ndarray, " m"]) -> None:
    """Refuse numbers that can only be a mistake for "no label": below −1, and −1 in a type without a sign."""
    for number in sorted({label for label in given.tolist() if isinstance(label, int | float)}):
        if number < UNKNOWN:
            raise ValueError(f"y holds {number}; -1 alone stands for no label, and classes are numbered from 0")
        if is_wrapped(number, given):
            raise ValueError(f"y holds {number}, which is -1 in {given.dtype}; give labels in a type with a sign")


def is_wrapped(number: int | float, given: Shaped[np.ndarray, " m"]) -> bool:
    """Whether it is −1 that lost its sign: the largest number of its type, far from the other labels."""
    if given.dtype.kind == "u":
        return number == np.iinfo(given.dtype).max and number - 1 not in given
    return number in (2**32 - 1, 2**64 - 1)


class SemiSupervisedClassifier(ClassifierMixin):  # type: ignore[misc] # scikit-learn has no types
    """A classifier whose score leaves out what cannot be judged."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the rows that have a label; those marked −1 have none to compare with."""
        y = column_or_1d(y)
        is_given = ~is_hidden(y)
        if not is_given.any():
            raise ValueError("no labels: every label is -1; a score needs at least one")
        weights = None if sample_weight is None else np.asarray(sample_weight)[is_given]
        return float(accuracy_score(as_numbers(y[is_given]), self.predict(X)[is_given], sample_weight=weights))
