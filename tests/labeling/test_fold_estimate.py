"""The estimate from folds allows for fewer labels and for classes that cannot be judged."""

import pytest
import torch
from hypothesis import given as for_all
from hypothesis import strategies as st

from laplacenet.labeling.estimate import estimate_accuracy, estimate_by_folds, shares_to_count, widen, wilson

SHARES = st.floats(0, 1)


@for_all(share=SHARES, n=st.integers(1, 1000), n_folds=st.integers(2, 20), unjudged=SHARES)
def test_an_interval_only_grows_and_holds_its_value(share: float, n: int, n_folds: int, unjudged: float) -> None:
    before = wilson(share, n)
    after = widen(before, n_folds=n_folds, unjudged=unjudged)
    assert 0 <= after.low <= before.low
    assert before.high <= after.high + 1e-12 <= 1 + 2e-12
    assert after.low <= after.value + 1e-12 <= after.high + 2e-12


def test_with_many_folds_and_all_classes_judged_hardly_anything_is_left_open() -> None:
    before = wilson(0.8, 100)
    after = widen(before, n_folds=1000, unjudged=0.0)
    assert (after.low, after.value) == (before.low, before.value)
    assert after.high == pytest.approx(before.high, abs=1e-3)


def test_half_of_the_labels_leave_room_for_an_error_smaller_by_the_square_root_of_two() -> None:
    before = wilson(0.6, 50)
    after = widen(before, n_folds=2, unjudged=0.0)
    assert 1 - after.high == pytest.approx((1 - before.high) / 2**0.5)


def test_classes_count_as_often_as_they_were_drawn_unless_all_were_given_alike() -> None:
    estimated = torch.tensor([0.7, 0.2, 0.1])
    alike = torch.tensor([0, 1, 2] * 4 + [-1] * 10)
    torch.testing.assert_close(shares_to_count(alike, estimated), (torch.full((3,), 1 / 3), estimated))
    drawn = torch.tensor([0] * 14 + [1] * 5 + [2] + [-1] * 10)
    torch.testing.assert_close(shares_to_count(drawn, estimated), (torch.tensor([0.7, 0.25, 0.05]),))


def test_the_interval_holds_for_every_way_to_count_the_classes() -> None:
    given = torch.tensor([0] * 10 + [1] * 10)
    unseen = torch.eye(2)[torch.tensor([0] * 18 + [1] * 2)]  # all of one class are found, a fifth of the other
    ways = (torch.tensor([0.5, 0.5]), torch.tensor([0.9, 0.1]))
    options = {"n_folds": 10, "method": "", "class_names": ("a", "b")}
    alone = [estimate_by_folds(unseen, given, (one,), **options).accuracy for one in ways]  # type: ignore[arg-type]
    both = estimate_by_folds(unseen, given, ways, **options).accuracy  # type: ignore[arg-type]
    assert both is not None
    assert both.value == pytest.approx((0.6 + 0.92) / 2)
    assert both.low == min(one.low for one in alone if one is not None)
    assert both.high == max(one.high for one in alone if one is not None)


def test_a_class_with_one_label_may_be_all_wrong() -> None:
    given = torch.tensor([0] * 10 + [1] * 9 + [2])
    unseen = torch.eye(3)[given]
    unseen[-1] = torch.nan
    shares = torch.tensor([0.5, 0.4, 0.1])
    options = {"method": "", "class_names": ("a", "b", "c")}
    plain = estimate_accuracy(unseen, given, shares, **options).accuracy  # type: ignore[arg-type]
    found = estimate_by_folds(unseen, given, (shares,), n_folds=10, **options).accuracy  # type: ignore[arg-type]
    assert plain is not None
    assert found is not None
    assert found.value == pytest.approx(0.95)
    assert found.low == pytest.approx(0.9 * plain.low)


def test_too_few_labels_make_no_estimate_by_folds() -> None:
    given = torch.tensor([0, 0, 1, 1])
    names = ("a", "b")
    found = estimate_by_folds(torch.eye(2)[given], given, (torch.ones(2) / 2,), n_folds=2, method="", class_names=names)
    assert found.accuracy is None
