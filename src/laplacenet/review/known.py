"""The answers for each picture, as arrays.

They are replaced as a whole when an answer comes, never changed, so that readers need no lock and answers never wait.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from laplacenet.review.live import Result
from laplacenet.review.state import NONE_ID, State

UNKNOWN = -2
"""In place of a class: there is no answer, or the answer was "cannot tell"."""


@dataclass(frozen=True, eq=False)
class Known:
    """For each picture the class that a person gave, whether there is an answer, and whether it is held out."""

    targets: Int64[np.ndarray, " pictures"]
    is_answered: Bool[np.ndarray, " pictures"]
    is_kept_back: Bool[np.ndarray, " pictures"]

    @property
    def shown(self) -> Int64[np.ndarray, " pictures"]:
        """The classes that views may show: answers that are held out must look like none."""
        return np.where(self.is_kept_back, UNKNOWN, self.targets)

    def updated(self, state: State, row_of: Mapping[str, int], names: Iterable[str]) -> "Known":
        """With what the state says of these pictures."""
        targets, is_answered, is_kept_back = self.targets.copy(), self.is_answered.copy(), self.is_kept_back.copy()
        for name in names:
            row = row_of.get(name)
            if row is not None:
                target = state.target(name)
                targets[row] = UNKNOWN if target is None else target
                is_answered[row] = name in state.answers
                is_kept_back[row] = state.is_kept_back(name)
        return Known(targets, is_answered, is_kept_back)


def known_of(state: State, row_of: Mapping[str, int]) -> Known:
    """All of it; names of pictures that are no longer there are left out."""
    n = len(row_of)
    nothing = Known(np.full(n, UNKNOWN), np.zeros(n, dtype=bool), np.zeros(n, dtype=bool))
    return nothing.updated(state, row_of, state.answers)


@dataclass(frozen=True, eq=False)
class ShownLabels:
    """Of each embedded picture its class, how sure, and whether a person gave it, as views show them."""

    numbers: Int64[np.ndarray, " m"]
    labels: Int64[np.ndarray, " m"]
    confidence: Float[np.ndarray, " m"]
    is_given: Bool[np.ndarray, " m"]


@functools.lru_cache(maxsize=2)
def best_guess(result: Result) -> tuple[Float[Tensor, " m"], Int64[Tensor, " m"]]:
    """Of each embedded picture the largest score and its column."""
    confidence, column = result.scores.max(1)
    return confidence, column


def current_columns(result: Result, state: State) -> Int64[np.ndarray, " C"]:
    """The classes' numbers, as merging has left them."""
    return np.array([label if label == NONE_ID else state.current(label) for label in result.columns], dtype=np.int64)


def merged_columns(
    table: Float[Tensor, "m c"], columns: Int64[np.ndarray, " c"]
) -> tuple[Float[Tensor, "m C"], Int64[np.ndarray, " C"]]:
    """The table with one column for each class, the sum where classes were merged; and the classes."""
    classes, places = np.unique(columns, return_inverse=True)
    found = table.new_zeros(len(table), len(classes))
    return found.index_add_(1, torch.from_numpy(places), table), classes


def shown_labels(known: Known, result: Result, columns: Int64[np.ndarray, " C"]) -> ShownLabels:
    numbers = result.embedded.rows.numpy()
    given = known.shown[numbers]
    is_given = given != UNKNOWN
    if not len(columns):
        return ShownLabels(numbers, given, is_given.astype(np.float32), is_given)
    confidence, column = best_guess(result)
    labels = np.where(is_given, given, columns[column.numpy()])
    return ShownLabels(numbers, labels, np.where(is_given, 1.0, confidence.numpy()), is_given)


def given_rows(known: Known) -> dict[int, int]:
    """The pictures that the model learns from, with their classes."""
    rows = np.flatnonzero(known.shown != UNKNOWN)
    return dict(zip(rows.tolist(), known.targets[rows].tolist(), strict=True))


def is_open(known: Known, is_readable: Bool[np.ndarray, " pictures"]) -> Bool[Tensor, " pictures"]:
    """Pictures that may be asked for: without an answer, or with one that is kept back."""
    return torch.from_numpy(is_readable & (~known.is_answered | known.is_kept_back))
