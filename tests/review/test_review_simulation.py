"""A simulated person: the review's own questions, answered from the truth."""

import json
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from references_review_page import PAGE, ROOT, page_of
from references_review_simulation import (
    BASELINE_C,
    ORDERS,
    Classifier,
    cover,
    last,
    main,
    pool_of,
    review,
    usual_points,
)
from sklearn.linear_model import LogisticRegression

from laplacenet.review.questions import GRID, LEAST_IN_GRID, best_grid


@pytest.fixture(scope="module")
def pool_and_truth():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 100)
    centers = rng.normal(0, 1, (4, 16))
    return pool_of(centers[truth] + rng.normal(0, 0.9, (100, 16))), truth


def test_a_simulated_person_reaches_the_goal_and_every_answer_counts(pool_and_truth):
    curve = last(review(*pool_and_truth, seed=0, goal=0.95))
    assert curve.right[-1] >= 0.95
    assert curve.answers == list(range(1, len(curve.answers) + 1))
    assert np.diff(curve.shown).max() <= GRID
    assert curve.shown[-1] >= curve.answers[-1] - GRID


def test_answers_kept_back_are_part_of_the_cost(pool_and_truth):
    """All pictures asked for one at a time are as many answers as pictures."""
    pool, truth = pool_and_truth
    pool, truth = pool_of(pool.vectors()[:40].numpy()), truth[:40]
    curve = last(review(pool, truth, seed=0, mode="single", goal=2.0))
    assert curve.answers[-1] == curve.shown[-1] == len(truth)
    assert curve.right[-1] == 1.0


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_reaches_the_goal(pool_and_truth, order):
    assert last(ORDERS[order](*pool_and_truth, seed=0, goal=0.9)).right[-1] >= 0.9


def test_the_baseline_is_scikit_learn_s_logistic_regression(pool_and_truth):
    pool, truth = pool_and_truth
    y = np.where(np.arange(len(truth)) < 60, truth, -1)
    X = usual_points(pool).numpy()
    theirs = LogisticRegression(C=BASELINE_C, max_iter=2000, tol=1e-8).fit(X[:60], truth[:60])
    ours = Classifier(pool, 4).scores(y)
    assert np.allclose(ours.numpy(), theirs.predict_proba(X), atol=1e-2)


def test_shards_are_merged_into_a_record(pool_and_truth, tmp_path, monkeypatch):
    pool, truth = pool_and_truth
    np.savez(tmp_path / "pool.npz", embeddings=pool.vectors().numpy())
    np.save(tmp_path / "truth.npy", truth)
    data = ["--embeddings", str(tmp_path / "pool.npz"), "--truth", str(tmp_path / "truth.npy")]
    shards = ["--shards", str(tmp_path / "shards")]
    for order, seed in (("review", 0), ("review", 1), ("margin", 0)):
        run = ["run", "--set", "blobs", *data, *shards, "--order", order, "--seed", str(seed)]
        monkeypatch.setattr("sys.argv", ["simulation", *run])
        main()
    out, picture = tmp_path / "blobs.json", tmp_path / "curves.png"
    merge = ["merge", "--set", "blobs", *shards, "--out", str(out), "--picture", str(picture)]
    monkeypatch.setattr("sys.argv", ["simulation", *merge])
    main()
    found = json.loads(out.read_text())["orders"]
    assert list(found) == ["review", "margin"]
    assert found["review"]["seeds"] == [0, 1]
    assert found["review"]["95%"]["mean answers"] == np.mean(found["review"]["95%"]["answers"])
    assert picture.stat().st_size > 0


def test_coverage_is_noted_at_every_mark(pool_and_truth):
    found = cover(*pool_and_truth, mode="grid", seed=0, marks=(10, 20))
    assert [one["answers"] for one in found] == [10, 20]
    assert all(0 < one["width"] <= 1 and abs(one["bias"]) <= 1 for one in found)


def test_runs_of_coverage_are_merged_by_set_and_order(pool_and_truth, tmp_path, monkeypatch):
    pool, truth = pool_and_truth
    np.savez(tmp_path / "pool.npz", embeddings=pool.vectors().numpy())
    np.save(tmp_path / "truth.npy", truth)
    monkeypatch.setenv("LAPLACENET_COMMIT", "abc")
    shards = ["--shards", str(tmp_path / "shards")]
    for first in (0, 1):
        data = ["--embeddings", str(tmp_path / "pool.npz"), "--truth", str(tmp_path / "truth.npy"), *shards]
        drawn = ["--pictures", "60", "--classes", "3", "--marks", "10", "15", "--seeds", str(first), str(first + 1)]
        monkeypatch.setattr("sys.argv", ["s", "coverage", "--set", "blobs", "--mode", "single", *data, *drawn])
        main()
    monkeypatch.setattr("sys.argv", ["s", "merge-coverage", *shards, "--out", str(tmp_path / "coverage.json")])
    main()
    record = json.loads((tmp_path / "coverage.json").read_text())
    assert record["provenance"]["commit"] == "abc"
    found = record["sets"]["blobs"]
    assert (found["pictures"], found["classes"]) == (60, 3)
    assert {answers: mark["runs"] for answers, mark in found["orders"]["single"].items()} == {"10": 2, "15": 2}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0.01, 3), st.floats(0, 1)), min_size=5, max_size=9))
def test_the_best_grid_is_the_best_of_all_subsets(rows):
    gain, doubt = (np.array(column) for column in zip(*rows, strict=True))
    members, rate = best_grid(gain, doubt)
    subsets = (s for size in range(LEAST_IN_GRID, len(rows) + 1) for s in combinations(range(len(rows)), size))
    best = max(float(gain[list(s)].sum() / (1 + doubt[list(s)].sum())) for s in subsets)
    assert rate == pytest.approx(best, rel=1e-3)
    assert rate == pytest.approx(float(gain[members].sum() / (1 + doubt[members].sum())), rel=1e-3)


def test_the_tables_on_the_page_are_those_of_the_records():
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    assert page_of(page) == page


def test_an_order_that_is_not_through_leaves_the_recorded_one(pool_and_truth, tmp_path, monkeypatch):
    pool, truth = pool_and_truth
    np.savez(tmp_path / "pool.npz", embeddings=pool.vectors().numpy())
    np.save(tmp_path / "truth.npy", np.roll(truth, 1))  # which nothing can learn
    out, shards = tmp_path / "blobs.json", ["--shards", str(tmp_path / "shards")]
    run = ["run", "--set", "blobs", "--embeddings", str(tmp_path / "pool.npz"), "--truth", str(tmp_path / "truth.npy")]
    merge = ["merge", "--set", "blobs", *shards, "--out", str(out)]
    for order, seconds in (("margin", "60"), ("random", "60"), ("margin", "0")):
        one = [*run, *shards, "--order", order, "--seed", "0", "--seconds", seconds, "--goal", "0.95"]
        for words in (one, merge):
            monkeypatch.setattr("sys.argv", ["simulation", *words])
            main()
        for shard in (tmp_path / "shards").iterdir():
            shard.unlink()
    orders = json.loads(out.read_text())["orders"]
    assert list(orders) == ["margin", "random"]
    assert orders["margin"]["95%"]["mean answers"] is not None
    assert orders["margin"]["provenance"]["date"] <= orders["random"]["provenance"]["date"]
