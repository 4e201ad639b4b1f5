"""A simulated person: the review's own questions, answered from the truth."""

import numpy as np
import pytest
import torch
from references_review_simulation import Classifier, margin_grids, margin_order, pool_of, random_order, review
from sklearn.linear_model import LogisticRegression

from laplacenet.review.propagation import SCALE, believed_shares
from laplacenet.review.questions import GRID


@pytest.fixture(scope="module")
def pool_and_truth():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 100)
    centers = rng.normal(0, 1, (4, 16))
    return pool_of(centers[truth] + rng.normal(0, 0.9, (100, 16))), truth


def test_a_simulated_person_reaches_the_goal_and_every_answer_counts(pool_and_truth):
    curve = review(*pool_and_truth, seed=0, goal=0.95)
    assert curve.right[-1] >= 0.95
    assert curve.answers == list(range(1, len(curve.answers) + 1))
    assert np.diff(curve.shown).max() <= GRID
    assert curve.shown[-1] >= curve.answers[-1] - GRID


def test_answers_kept_back_are_part_of_the_cost(pool_and_truth):
    """All pictures asked for one at a time are as many answers as pictures."""
    pool, truth = pool_and_truth
    pool, truth = pool_of(pool.vectors()[:40].numpy()), truth[:40]
    curve = review(pool, truth, seed=0, mode="single", goal=2.0)
    assert curve.answers[-1] == curve.shown[-1] == len(truth)
    assert curve.right[-1] == 1.0


@pytest.mark.parametrize("order", [random_order, margin_order, margin_grids])
def test_the_baselines_reach_the_goal(pool_and_truth, order):
    assert order(*pool_and_truth, seed=0, goal=0.9).right[-1] >= 0.9


def test_the_baseline_is_scikit_learn_s_logistic_regression(pool_and_truth):
    pool, truth = pool_and_truth
    y = np.where(np.arange(len(truth)) < 60, truth, -1)
    theirs = LogisticRegression(C=1.0, max_iter=2000, tol=1e-8).fit(SCALE * pool.points.numpy()[:60], truth[:60])
    ours = Classifier(pool, 4).scores(y)
    assert np.allclose(ours.numpy(), theirs.predict_proba(SCALE * pool.points.numpy()), atol=1e-2)


def test_shares_move_from_equal_ones_to_those_found():
    found = torch.tensor([90, 10])
    few, many = (believed_shares(found, n_answers=n) for n in (0, 10_000))
    assert few.tolist() == [0.5, 0.5]
    assert abs(float(many[0]) - 0.9) < 0.01
    assert abs(float(many.sum()) - 1) < 1e-9
