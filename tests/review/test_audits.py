"""The estimate by answers that the model has not seen."""

import numpy as np
import pytest

from laplacenet.review.audits import FEWEST, GOALS, answers_to_goals, estimate_accuracy


def coverage(order: str, *, n_runs: int, n_pictures: int = 600, n_questions: int = 300) -> tuple[float, float]:
    """How often the interval covers the truth in a world where a picture's chance to be right is known.

    The queue asks for pictures by `order`; an audit is kept back until the queue comes to it. What is asked changes
    what the model says of the others, as learning does.
    """
    rng = np.random.default_rng(5)
    n_covered, widths = 0, []
    for _ in range(n_runs):
        difficulty = rng.beta(0.5, 1.5, n_pictures)
        luck = rng.random(n_pictures)
        queue = {
            "hardest first": np.argsort(-difficulty),
            "easiest first": np.argsort(difficulty),
            "at random": rng.permutation(n_pictures),
        }[order].tolist()
        audit_order = rng.permutation(n_pictures).tolist()
        known, kept_back = set(), set()
        for question in range(n_questions):
            if question % 5 == 1:
                kept_back.add(next(p for p in audit_order if p not in known and p not in kept_back))
                continue
            while queue[0] in kept_back:
                kept_back.discard(queue[0])
                known.add(queue.pop(0))
            known.add(queue.pop(0))
        is_right = luck > difficulty * (1 - 0.5 * len(known) / n_pictures)
        n_right = sum(bool(is_right[picture]) for picture in kept_back)
        everyone = known | kept_back
        truth = (len(everyone) + sum(bool(is_right[p]) for p in range(n_pictures) if p not in everyone)) / n_pictures
        found = estimate_accuracy(n_right, len(kept_back), n_known=len(everyone), n_pictures=n_pictures)
        n_covered += found.low <= truth <= found.high
        widths.append(found.high - found.low)
    return n_covered / n_runs, float(np.mean(widths))


@pytest.mark.parametrize("order", ["hardest first", "easiest first", "at random"])
def test_the_interval_covers_the_truth_whatever_the_order_of_questions(order):
    share, width = coverage(order, n_runs=200)
    assert share >= 0.90  # 95 % less three standard errors
    assert width < 0.35


@pytest.mark.long
@pytest.mark.parametrize("order", ["hardest first", "easiest first", "at random"])
def test_the_interval_covers_the_truth_in_thousands_of_runs(order):
    share, _ = coverage(order, n_runs=4000)
    assert 0.93 <= share <= 0.995


def test_below_fifty_audits_only_the_range_is_known():
    assert estimate_accuracy(40, FEWEST - 1, n_known=100, n_pictures=1000).value is None
    assert estimate_accuracy(40, FEWEST, n_known=100, n_pictures=1000).value is not None


def test_without_audits_nothing_but_the_person_s_own_labels_is_certain():
    found = estimate_accuracy(0, 0, n_known=100, n_pictures=1000)
    assert (found.low, found.high) == (0.1, 1.0)


def test_when_everything_is_answered_everything_is_right():
    assert estimate_accuracy(10, 10, n_known=1000, n_pictures=1000).value == 1.0


def test_goals_take_fewer_answers_the_more_doubt_lies_in_few_pictures():
    found = estimate_accuracy(80, 100, n_known=200, n_pictures=1000)
    sharp, flat = np.full(800, 0.01), np.full(800, 0.2)
    sharp[:160] = 0.9
    few, many = (answers_to_goals(found, doubts, n_pictures=1000, curve=[]) for doubts in (sharp, flat))
    assert few[0.90] < many[0.90]
    assert few[0.90] <= few[0.95] <= few[0.99] <= 800


def test_goals_follow_the_curve_where_it_promises_more():
    found = estimate_accuracy(80, 100, n_known=200, n_pictures=1000)
    curve = [(n, 1 - n**-0.4) for n in (20.0, 40.0, 60.0, 80.0)]
    with_curve = answers_to_goals(found, np.full(800, 0.2), n_pictures=1000, curve=curve)
    without = answers_to_goals(found, np.full(800, 0.2), n_pictures=1000, curve=[])
    assert with_curve[0.90] < without[0.90]
    assert abs(with_curve[0.90] + 80 - 0.1 ** (-1 / 0.4)) < 2


def test_goals_are_unknown_while_the_estimate_is():
    found = estimate_accuracy(8, 10, n_known=20, n_pictures=1000)
    assert answers_to_goals(found, np.full(980, 0.2), n_pictures=1000, curve=[]) == dict.fromkeys(GOALS)
