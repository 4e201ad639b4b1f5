"""Folds: every label that can be hidden is, once; classes give evenly; a class's only label stays."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from laplacenet.labeling.evidence import NEVER, stratified_folds, without_fold
from laplacenet.labeling.stage_plan import hidden_folds

LABELS = st.lists(st.integers(-1, 4), min_size=1, max_size=80).filter(lambda labels: max(labels) >= 0)


@given(LABELS, st.integers(2, 10), st.integers(0, 5))
def test_each_label_is_hidden_once_unless_it_is_its_class_s_only_one(
    labels: list[int], n_folds: int, seed: int
) -> None:
    y = torch.tensor(labels)
    folds = stratified_folds(y, n_folds, seed=seed)
    counts = torch.bincount(y[y >= 0], minlength=5)
    can_be_hidden = (y >= 0) & (counts[y.clamp(min=0)] >= 2)
    assert torch.equal(folds != NEVER, can_be_hidden)
    assert int(folds.max()) < n_folds


@given(LABELS, st.integers(2, 10))
def test_no_fold_takes_all_labels_of_a_class_and_sizes_differ_by_one_at_most(labels: list[int], n_folds: int) -> None:
    y = torch.tensor(labels)
    folds = stratified_folds(y, n_folds, seed=0)
    sizes = torch.bincount(folds[folds >= 0], minlength=n_folds)
    assert int(sizes.max() - sizes.min()) <= 1
    for fold in range(n_folds):
        seen = without_fold(y, folds, fold)
        assert set(seen[seen >= 0].tolist()) == set(y[y >= 0].tolist())
        hidden_per_class = torch.bincount(y[folds == fold], minlength=5)
        counts = torch.bincount(y[y >= 0], minlength=5)
        assert bool((hidden_per_class <= -(-counts // n_folds)).all())


def test_another_seed_hides_other_labels() -> None:
    y = torch.arange(100) % 5
    assert not torch.equal(stratified_folds(y, 5, seed=0), stratified_folds(y, 5, seed=1))


def test_a_fifth_judges_or_with_few_labels_a_quarter_or_a_third_but_never_fewer_than_ten() -> None:
    for n_given, n_judges in ((100, 20), (50, 10), (40, 10), (30, 10)):
        folds = hidden_folds(torch.arange(n_given) % 10, seed=0)
        assert folds is not None
        assert int((folds == 0).sum()) == n_judges
    assert hidden_folds(torch.arange(27) % 10, seed=0) is None


def test_labels_of_classes_with_one_label_judge_nothing() -> None:
    assert hidden_folds(torch.arange(60), seed=0) is None
