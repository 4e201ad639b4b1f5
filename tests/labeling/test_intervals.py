"""Intervals: Wilson's against SciPy, and what unequal weights and a finite number of others do to them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from laplacenet.labeling.estimate import share_among, wilson


@given(st.integers(1, 300), st.floats(0, 1), st.sampled_from([0.8, 0.95, 0.99]))
def test_it_is_scipy_s_wilson_interval(n: int, share: float, level: float) -> None:
    n_right = round(share * n)
    expected = binomtest(n_right, n).proportion_ci(level, method="wilson")
    found = wilson(n_right / n, n, level=level)
    assert found.low == pytest.approx(expected.low, abs=1e-9)
    assert found.high == pytest.approx(expected.high, abs=1e-9)
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_equal_weights_and_endless_others_leave_it_as_it_is() -> None:
    is_right = torch.arange(40) < 30
    found = share_among(is_right, torch.full((40,), 0.3), n_others=10**9)
    assert found.low == pytest.approx(wilson(0.75, 40).low, abs=1e-6)
    assert found.high == pytest.approx(wilson(0.75, 40).high, abs=1e-6)


def test_unequal_weights_and_few_others_widen_it() -> None:
    is_right = torch.arange(40) % 4 > 0
    weights = torch.where(torch.arange(40) < 20, 1.0, 5.0)
    plain, weighted, few = (
        share_among(is_right, w, n_others=m)
        for w, m in ((torch.ones(40), 10**6), (weights, 10**6), (torch.ones(40), 20))
    )
    assert plain.high - plain.low < weighted.high - weighted.low
    assert plain.high - plain.low < few.high - few.low


def test_weights_make_classes_count_by_their_shares() -> None:
    is_right = torch.tensor([True] * 10 + [False] * 10)
    weights = torch.tensor([0.9 / 10] * 10 + [0.1 / 10] * 10)
    assert share_among(is_right, weights, n_others=1000).value == pytest.approx(0.9)


def test_it_covers_the_share_of_a_finite_population_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    n_covered = 0
    for _ in range(2000):
        is_right = rng.random(90) < 0.8
        found = share_among(torch.from_numpy(is_right[:30]), torch.ones(30), n_others=60)
        n_covered += found.low <= is_right[30:].mean() <= found.high
    assert 0.93 <= n_covered / 2000 <= 0.985
