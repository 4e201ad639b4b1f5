"""The parts of a step and of the schedule, each against the paper's formula written out."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from laplacenet.runtime import InputError, stream
from laplacenet.training import (
    LaplaceNet,
    LaplaceNetConfig,
    Problem,
    TrainConfig,
    VectorViews,
    multi_view_cross_entropy,
)
from laplacenet.training.batches import epoch_rows, reshuffled_rows
from laplacenet.training.objective import (
    boxes_in_pixels,
    mix,
    mixed_cross_entropy,
    own_shares,
    sample_boxes,
    sample_mix_weights,
    sample_partners,
)
from laplacenet.training.schedule import learning_rates


def test_the_loss_is_the_papers_double_sum() -> None:
    logits, targets = torch.randn(3, 5, 4), torch.tensor([0, 3, 1, 1, 2])
    total = 0.0
    for i in range(5):
        for j in range(3):
            total -= math.log(logits[j, i].exp()[targets[i]] / logits[j, i].exp().sum())
    assert float(multi_view_cross_entropy(logits, targets)) == pytest.approx(total / (5 * 3), rel=1e-5)


def test_a_mixed_loss_is_cross_entropy_with_the_mixed_target() -> None:
    logits, targets, partners = torch.randn(2, 4, 3), torch.tensor([0, 1, 2, 1]), torch.tensor([2, 0, 1, 3])
    weight = torch.tensor(0.3)
    soft = 0.3 * functional.one_hot(targets, 3) + 0.7 * functional.one_hot(targets[partners], 3)
    expected = functional.cross_entropy(logits.flatten(0, 1), soft.repeat(2, 1))
    assert torch.allclose(mixed_cross_entropy(logits, targets, partners, weight), expected)


def test_mixing_uses_one_partner_and_one_weight_in_every_view() -> None:
    views = torch.randn(3, 4, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    partners = torch.tensor([1, 2, 3, 0])
    mixed = mix(views, partners, torch.tensor(0.25))
    for j in range(3):
        for i in range(4):
            assert torch.allclose(mixed[j, i], 0.25 * views[j, i] + 0.75 * views[j, partners[i]], atol=1e-6)


def test_without_mixup_views_and_loss_are_untouched() -> None:
    weights = sample_mix_weights(5, 0.0, stream(0, "mixup"))
    assert weights.tolist() == [1.0] * 5
    views, partners = torch.randn(2, 3, 4), torch.tensor([2, 0, 1])
    assert torch.equal(mix(views, partners, torch.tensor(1.0)), views)


def test_mix_weights_follow_a_beta_distribution() -> None:
    weights = sample_mix_weights(20_000, 0.5, stream(0, "mixup"))
    assert weights.mean() == pytest.approx(0.5, abs=0.01)
    assert weights.var() == pytest.approx(1 / 8, abs=0.005)  # αβ/((α+β)²(α+β+1))


@pytest.mark.parametrize("alpha", [5e-324, 1e-300, 1e-100, 1e-10, 1e-3, 1e10, 1e308])
def test_mix_weights_stay_numbers_between_zero_and_one_however_small_or_large_alpha_is(alpha: float) -> None:
    weights = sample_mix_weights(5_000, alpha, stream(0, "mixup"))
    assert bool(((weights >= 0) & (weights <= 1)).all())


@pytest.mark.parametrize("weight", [0.0, 1e-45, 1.0])
def test_a_mix_weight_at_an_end_leaves_one_picture_whole(weight: float) -> None:
    views, partners = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([2, 0, 1])
    expected = views if weight == 1 else views[:, partners]
    assert torch.equal(mix(views, partners, torch.tensor(weight)), expected)


def test_a_box_pastes_the_partners_pixels_and_counts_by_their_number() -> None:
    views, partners = torch.randn(2, 3, 1, 4, 8, generator=torch.Generator().manual_seed(0)), torch.tensor([2, 0, 1])
    boxes = boxes_in_pixels(np.array([[0.25, 1.0, 0.0, 0.5]], dtype=np.float32), 4, 8)
    assert boxes.tolist() == [[1, 4, 0, 4]]  # rows 1 to 3, columns 0 to 3
    share = torch.from_numpy(own_shares(boxes, 4, 8))[0]
    expected = views.clone()
    expected[..., 1:4, 0:4] = views[:, partners][..., 1:4, 0:4]
    assert torch.equal(mix(views, partners, share, torch.from_numpy(boxes)[0]), expected)
    assert float(share) == 1 - 12 / 32


def test_an_empty_box_leaves_mixup_as_it_is() -> None:
    views, partners = torch.randn(2, 3, 1, 4, 8, generator=torch.Generator().manual_seed(0)), torch.tensor([2, 0, 1])
    weight = torch.tensor(0.3)
    for box in ([0, 0, 0, 0], [2, 2, 1, 5], [1, 3, 7, 7]):
        assert torch.equal(mix(views, partners, weight, torch.tensor(box)), mix(views, partners, weight))


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_a_pixel_belongs_to_a_box_if_its_center_does(height: int, width: int, seed: int) -> None:
    boxes = sample_boxes(20, stream(seed, "cutmix"))
    for (top, bottom, left, right), pixels in zip(boxes, boxes_in_pixels(boxes, height, width), strict=True):
        rows = [i for i in range(height) if top <= np.float32((i + 0.5) / height) < bottom]
        columns = [i for i in range(width) if left <= np.float32((i + 0.5) / width) < right]
        assert rows == list(range(pixels[0], pixels[1]))
        assert columns == list(range(pixels[2], pixels[3]))


def test_boxes_have_uniform_areas_and_centers_before_they_are_cut_off() -> None:
    """A square of side s lies inside the picture with the probability (1 − s)², as its center is uniform."""
    boxes = sample_boxes(40_000, stream(0, "cutmix"))
    top, bottom, left, right = boxes.T
    assert bool(((boxes >= 0) & (boxes <= 1)).all())
    assert bool(((top <= bottom) & (left <= right)).all())
    is_inside = (top > 0) & (bottom < 1) & (left > 0) & (right < 1)
    np.testing.assert_allclose((bottom - top)[is_inside], (right - left)[is_inside], atol=1e-6)
    assert is_inside.mean() == pytest.approx(1 / 6, abs=0.01)  # ∫ (1 − √a)² da
    height = ((top + bottom) / 2)[is_inside]
    assert height.mean() == pytest.approx(0.5, abs=0.01)


def test_partners_are_a_fresh_permutation_each_step() -> None:
    partners = sample_partners(6, 10, stream(0, "mixup"))
    assert all(sorted(row) == list(range(10)) for row in partners.tolist())
    assert len({tuple(row) for row in partners.tolist()}) == 6


@given(n=st.integers(1, 20), first=st.integers(0, 100), count=st.integers(1, 60), cut=st.integers(0, 59))
def test_reshuffled_rows_are_one_endless_sequence_however_it_is_cut(n: int, first: int, count: int, cut: int) -> None:
    rows = np.arange(100, 100 + n)
    cut = min(cut, count - 1)
    whole = reshuffled_rows(rows, first, count, seed=3, name="labeled")
    tail = reshuffled_rows(rows, first + cut, count - cut, seed=3, name="labeled")
    assert np.array_equal(whole[cut:], tail)


@given(n=st.integers(1, 20), n_passes=st.integers(1, 5))
def test_each_pass_of_a_reshuffle_sees_every_row_once(n: int, n_passes: int) -> None:
    rows = reshuffled_rows(np.arange(n), 0, n * n_passes, seed=1, name="labeled").reshape(n_passes, n)
    assert all(sorted(one_pass) == list(range(n)) for one_pass in rows.tolist())


def test_epochs_shuffle_differently_and_hold_each_row_once() -> None:
    first, second = (epoch_rows(np.arange(50), seed=0, epoch=epoch) for epoch in (0, 1))
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(50))
    assert first.tolist() != second.tolist()


def test_the_learning_rate_is_half_a_cosine_that_reaches_zero_just_behind_the_end() -> None:
    config = TrainConfig(steps=250_000)
    assert config.lr_zero_at_step == 255_000
    rates = learning_rates(config, 0, 250_000)
    assert rates[0] == pytest.approx(0.03)
    assert rates[127_500] == pytest.approx(0.015, rel=1e-5)
    assert 0 < rates[-1] < 0.03 * 0.001
    assert np.array_equal(learning_rates(config, 1000, 10), rates[1000:1010])


def test_fixmatchs_rate_ends_at_a_fifth() -> None:
    rates = learning_rates(TrainConfig(steps=1000, lr=0.03, schedule="cosine-7/16"), 0, 1000)
    assert rates[0] == pytest.approx(0.03)
    assert rates[400] == pytest.approx(0.03 * math.cos(7 * math.pi * 0.4 / 16))
    assert rates[-1] == pytest.approx(0.03 * 0.195, rel=0.02)


def test_a_rate_that_rises_and_falls_is_whole_between() -> None:
    """Laine and Aila: exp(−5(1 − t/80)²) for 80 of 300 epochs, exp(−(t/2)²/50) in the t-th of the last 50."""
    rates = learning_rates(TrainConfig(steps=300, lr=0.003, schedule="rise-and-fall"), 0, 300)
    assert rates[40] == pytest.approx(0.003 * math.exp(-5 * 0.25))
    assert rates[80:251] == pytest.approx(np.full(171, 0.003))
    assert rates[290] == pytest.approx(0.003 * math.exp(-((40 / 2) ** 2) / 50))


def test_a_rate_drops_twice() -> None:
    rates = learning_rates(TrainConfig(steps=400, lr=0.1, schedule="two-drops"), 0, 400)
    assert [float(rates[step]) for step in (249, 250, 349, 350)] == pytest.approx([0.1, 0.01, 0.01, 0.001])


def test_a_rate_that_falls_late_is_that_of_vat() -> None:
    """takerum/vat_tf on CIFAR-10: 500 epochs, from the 460th on times (500 − epoch)/40."""
    rates = learning_rates(TrainConfig(steps=500, lr=1e-3, schedule="late-linear"), 0, 500)
    assert rates == pytest.approx(np.array([1e-3 * (1 if e < 460 else (500 - e) / 40) for e in range(500)]))


@pytest.mark.parametrize(
    ("steps", "n_labeled", "expected"),
    [(250_000, 4000, 4000), (250_000, 40, 100), (1000, 4000, 200), (250_000, 10_000, 10_000)],
)
def test_the_supervised_start_is_a_hundred_passes_but_at_most_a_fifth(
    steps: int, n_labeled: int, expected: int
) -> None:
    labels = torch.cat([torch.zeros(n_labeled, dtype=torch.int64), torch.full((60_000,), -1)])
    method = LaplaceNet(Problem(labels, 1, VectorViews()), TrainConfig(steps=steps), LaplaceNetConfig())
    assert method.supervised_steps == expected
    assert bool(method.notes()) == (steps == 1000)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("steps", 0, "train.steps = 0; it must be at least 1"),
        ("labeled_batch_size", 100, "leaves no room for unlabeled images"),
        ("momentum", 1.0, r"it must lie in \[0, 1\)"),
        ("lr", float("nan"), "must lie between 0 and"),
        ("optimizer", "adagrad", "choose one of sgd, adamw, muon"),
        (
            "schedule",
            "steps",
            "choose one of cosine, cosine-7/16, rise-and-fall, two-drops, late-linear, linear, constant",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(field: str, value: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        TrainConfig(**{field: value})
