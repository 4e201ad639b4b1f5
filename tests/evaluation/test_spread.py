"""Mean and deviation against NumPy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laplacenet.evaluation import mean_and_std
from laplacenet.runtime import InputError


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_the_deviation_is_that_of_a_sample(values: list[float]) -> None:
    mean, std = mean_and_std(values)
    assert mean == pytest.approx(np.mean(values))
    assert std == pytest.approx(np.std(values, ddof=1), abs=1e-12)


def test_one_run_has_no_deviation() -> None:
    assert mean_and_std([0.25]) == (0.25, None)


def test_no_run_has_no_mean() -> None:
    with pytest.raises(InputError, match="at least one"):
        mean_and_std([])
