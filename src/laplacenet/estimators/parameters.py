"""An estimator's parameters in scikit-learn's terms: whole numbers of any type are accepted, invalid values raise
ValueError.
"""

import contextlib
import operator
import re
from collections.abc import Iterator
from numbers import Real
from typing import Any

from laplacenet.runtime import InputError
from laplacenet.training import DivergedError

NAMES = {"k": "n_neighbors", "max_iterations": "max_iter"}
"""Settings of the rooms that an estimator calls otherwise."""


@contextlib.contextmanager
def value_errors() -> Iterator[None]:
    """scikit-learn and its users expect ValueError, with the name of the estimator's own parameter."""
    try:
        yield
    except (InputError, DivergedError) as error:
        sections = r"\b(?:graph|train|method)\.(\w+)"
        message = re.sub(sections, lambda setting: NAMES.get(setting[1], setting[1]), str(error))
        raise ValueError(message) from error


def whole_number(name: str, value: Any, *, otherwise: str = "") -> int:
    """The value as an int; NumPy's integers are accepted, since parameter grids are often arrays.

    `otherwise` says in the message what is accepted besides.
    """
    try:
        return operator.index(value)
    except TypeError as error:
        raise ValueError(f"{name} = {value!r}; give an integer{otherwise}") from error


def real_number(name: str, value: Any, *, otherwise: str = "") -> float:
    if not isinstance(value, Real):
        raise ValueError(f"{name} = {value!r}; give a number{otherwise}")  # noqa: TRY004 - what scikit-learn's users catch
    return float(value)
