"""Algorithm 1 against its literal form."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from references_graph import literal_alignment

from laplacenet.graph import align_to_prior, alignment


def case(n, n_classes, seed, levels=None):
    """Scores, mask and prior; `levels` draws the scores from so few values that ties are common."""
    rng = np.random.default_rng(seed)
    scores = rng.gamma(0.5, size=(n, n_classes)) + 1e-3
    if levels:
        scores = rng.integers(1, levels + 1, size=(n, n_classes)).astype(np.float64)
    is_labeled = rng.random(n) < 0.2
    return scores, is_labeled, rng.dirichlet(np.ones(n_classes))


@given(st.integers(1, 80), st.integers(1, 8), st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_alignment_is_the_literal_loop(n, n_classes, iterations, seed):
    scores, is_labeled, prior = case(n, n_classes, seed)
    aligned = align_to_prior(scores, is_labeled, prior, iterations=iterations)
    expected = literal_alignment(scores, prior, np.flatnonzero(~is_labeled), iterations)
    np.testing.assert_allclose(aligned.numpy(), expected, rtol=1e-9)


@given(st.integers(1, 80), st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_ties_go_to_the_first_class_as_in_the_literal_loop(n, n_classes, seed):
    scores, is_labeled, prior = case(n, n_classes, seed, levels=2)
    aligned = align_to_prior(scores, is_labeled, prior, iterations=1)
    expected = literal_alignment(scores, prior, np.flatnonzero(~is_labeled), 1)
    np.testing.assert_allclose(aligned.numpy(), expected, rtol=1e-9)


def test_blocks_of_rows_change_nothing(monkeypatch):
    scores, is_labeled, prior = case(500, 7, seed=0)
    scores[3] = 0
    aligned = align_to_prior(scores, is_labeled, prior, iterations=60)
    monkeypatch.setattr(alignment, "BLOCK_BYTES", 999)
    assert torch.equal(align_to_prior(scores, is_labeled, prior, iterations=60), aligned)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_hundred_rounds_over_many_points_are_the_literal_loop(dtype):
    scores, is_labeled, prior = case(600, 10, seed=3)
    aligned = align_to_prior(torch.from_numpy(scores).to(dtype), is_labeled, prior, iterations=100)
    expected = literal_alignment(scores, prior, np.flatnonzero(~is_labeled), 100)
    np.testing.assert_allclose(aligned.numpy(), expected, rtol=1e-4 if dtype == torch.float32 else 1e-9)


@given(st.integers(1, 60), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_rows_sum_to_one_and_labeled_rows_are_only_normalized(n, n_classes, seed):
    scores, is_labeled, prior = case(n, n_classes, seed)
    aligned = align_to_prior(scores, is_labeled, prior, iterations=20).numpy()
    np.testing.assert_allclose(aligned.sum(1), 1, rtol=1e-12)
    np.testing.assert_allclose(aligned[is_labeled], (scores / scores.sum(1, keepdims=True))[is_labeled], rtol=1e-12)


def test_frequencies_come_nearer_to_the_prior():
    scores, is_labeled, prior = case(2000, 5, seed=7)
    is_labeled[:] = False
    prior[:] = 0.2
    scores[:, 0] *= 3

    def distance(aligned):
        return abs(np.bincount(aligned.argmax(1), minlength=5) / 2000 - prior).sum()

    before = distance(scores)
    assert distance(align_to_prior(scores, is_labeled, prior, iterations=100).numpy()) < before / 5


def test_a_class_that_is_never_seen_grows_and_one_neither_seen_nor_expected_does_not():
    scores = np.array([[0.6, 0.3, 0.1]])
    aligned = align_to_prior(scores, np.array([False]), np.array([0.5, 0.5, 0.0]), iterations=1).numpy()
    expected = np.array([[0.6 * 0.99, 0.3 * 1.01, 0.1]])
    np.testing.assert_allclose(aligned, expected / expected.sum())


def test_a_prior_that_does_not_sum_to_one_is_normalized():
    scores, is_labeled, prior = case(60, 4, seed=5)
    torch.testing.assert_close(
        align_to_prior(scores, is_labeled, 7 * prior, iterations=30),
        align_to_prior(scores, is_labeled, prior, iterations=30),
    )


def test_negative_scores_count_as_zero():
    aligned = align_to_prior(np.array([[2.0, -5.0, 2.0]]), np.array([False]), np.ones(3) / 3, iterations=0)
    np.testing.assert_allclose(aligned.numpy(), [[0.5, 0.0, 0.5]])


def test_a_row_that_says_nothing_becomes_the_prior_and_is_not_counted():
    scores, is_labeled, prior = case(50, 4, seed=1)
    silent = np.concatenate([scores, np.zeros((30, 4))])
    mask = np.concatenate([is_labeled, np.zeros(30, dtype=bool)])
    aligned = align_to_prior(silent, mask, prior, iterations=50).numpy()
    np.testing.assert_allclose(aligned[50:], np.tile(prior, (30, 1)), rtol=1e-12)
    np.testing.assert_allclose(aligned[:50], align_to_prior(scores, is_labeled, prior, iterations=50).numpy())


def test_all_points_labeled_is_no_division_by_zero():
    scores, _, prior = case(10, 3, seed=2)
    aligned = align_to_prior(scores, np.ones(10, dtype=bool), prior, iterations=5).numpy()
    np.testing.assert_allclose(aligned, scores / scores.sum(1, keepdims=True))


def test_the_input_is_left_as_it_was():
    scores, is_labeled, prior = case(30, 3, seed=4)
    given_scores = torch.from_numpy(scores)
    before = given_scores.clone()
    align_to_prior(given_scores, is_labeled, prior, iterations=10)
    assert torch.equal(given_scores, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_class_that_stays_too_rare_however_long_it_grows_leaves_numbers(dtype):
    scores = torch.rand(20, 3, dtype=dtype, generator=torch.Generator().manual_seed(0))
    scores[:, 2] = 0
    scores[0, 2] = 0.1
    is_labeled = np.zeros(20, dtype=bool)
    aligned = align_to_prior(scores, is_labeled, np.array([0.3, 0.3, 0.4]), iterations=100_000)
    assert bool(aligned.isfinite().all())
    torch.testing.assert_close(aligned.sum(1), torch.ones(20, dtype=dtype))
    assert aligned[0].argmax() == 2
    assert (aligned[1:, 2] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_smallest_score_there_is_outlives_every_round(dtype):
    scores = torch.ones(20, 2, dtype=dtype)
    scores[:, 1] = 0.1
    scores[0] = torch.tensor([torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps, 0], dtype=dtype)
    is_labeled = np.zeros(20, dtype=bool)
    for iterations in (100, 10_000):
        aligned = align_to_prior(scores, is_labeled, np.array([0.01, 0.99]), iterations=iterations)
        assert aligned[0].tolist() == [1, 0]
        assert bool(aligned.isfinite().all())


@given(st.integers(1, 60), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_rows_may_be_of_any_size_without_a_bit_of_difference(n, n_classes, seed):
    scores, is_labeled, prior = case(n, n_classes, seed)
    rows = 2.0 ** np.random.default_rng(seed).integers(-900, 900, size=(n, 1))
    together = align_to_prior(scores * rows, is_labeled, prior, iterations=30)
    assert torch.equal(together, align_to_prior(scores, is_labeled, prior, iterations=30))
