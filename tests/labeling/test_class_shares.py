"""The classes' shares, from a word or from numbers."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from laplacenet.graph.priors import PRIORS
from laplacenet.labeling.evidence import class_shares
from laplacenet.runtime import InputError


@given(st.lists(st.integers(0, 3), min_size=1, max_size=50), st.sampled_from(PRIORS))
def test_shares_are_positive_and_sum_to_one(labels: list[int], prior: str) -> None:
    shares = class_shares(prior, torch.tensor(labels), 5)
    assert len(shares) == 5
    assert min(shares) > 0
    assert sum(shares) == pytest.approx(1)


def test_labeled_shares_are_those_that_were_counted() -> None:
    assert class_shares("labeled", torch.tensor([0, 0, 0, 1, -1]), 2) == pytest.approx((0.75, 0.25))


def test_shrunk_shares_lie_between_equal_and_counted_ones() -> None:
    counted = torch.tensor([0] * 30 + [1] * 10)
    shrunk = class_shares("shrunk", counted, 2)[0]
    assert 0.5 < shrunk < 0.75


def test_numbers_are_taken_in_proportion() -> None:
    assert class_shares("2,6", torch.tensor([0, 1]), 2) == pytest.approx((0.25, 0.75))


@pytest.mark.parametrize("prior", ["1,2,3", "1", "0,1", "-1,2", "a,b", "", "nan,1", "inf,1", "1e400,1"])
def test_anything_else_is_refused_with_what_would_be_accepted(prior: str) -> None:
    with pytest.raises(InputError, match="shrunk, labeled, equal or give 2 positive numbers"):
        class_shares(prior, torch.tensor([0, 1]), 2)


@pytest.mark.parametrize("prior", ["1e308,1", "1e-300,1"])
def test_a_share_too_small_to_compute_with_is_refused(prior: str) -> None:
    with pytest.raises(InputError, match="the smallest share is below"):
        class_shares(prior, torch.tensor([0, 1]), 2)


def test_numbers_near_the_largest_float_are_taken_in_proportion() -> None:
    assert class_shares("1e308,1e308", torch.tensor([0, 1]), 2) == pytest.approx((0.5, 0.5))
