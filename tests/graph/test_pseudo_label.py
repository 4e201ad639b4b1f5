"""The whole pass: what it keeps, what it refuses, and how it answers awkward data."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from references_graph import dense_normalized, literal_affinity, literal_alignment
from sklearn.datasets import load_digits, make_moons

from laplacenet.graph import GraphConfig, pseudo_label
from laplacenet.runtime import InputError


def clusters(n=120, n_classes=3, d=8, seed=0, spread=0.6):
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(99).normal(size=(n_classes, d))
    truth = rng.integers(n_classes, size=n)
    truth[:n_classes] = np.arange(n_classes)
    labels = np.where(rng.random(n) < 0.15, truth, -1)
    labels[:n_classes] = np.arange(n_classes)
    return centers[truth] + spread * rng.normal(size=(n, d)), labels, truth


SMALL = GraphConfig(k=6, tol=1e-10, max_iterations=500)


def test_the_pass_is_its_parts_in_their_literal_form():
    X, labels, _ = clusters()
    found = pseudo_label(X, labels, SMALL)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    Y = (labels[:, None] == np.arange(3)).astype(float)
    F = np.linalg.solve(np.eye(120) - SMALL.gamma * dense_normalized(literal_affinity(unit, 6)), Y)
    prior = Y.sum(0) / Y.sum()
    expected = literal_alignment(F, prior, np.flatnonzero(labels < 0), 100)
    np.testing.assert_allclose(found.scores.numpy(), expected, atol=1e-7)
    np.testing.assert_array_equal(found.labels.numpy(), np.where(labels >= 0, labels, expected.argmax(1)))
    assert found.is_converged
    assert found.recall is None


def test_digits_are_read_from_a_few_labels():
    X, truth = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    labels = np.full(len(truth), -1)
    for c in range(10):
        labels[rng.choice(np.flatnonzero(truth == c), 5, replace=False)] = c
    found = pseudo_label(X, labels, GraphConfig(k=10))
    assert (found.labels.numpy() == truth).mean() > 0.93


@settings(max_examples=30)
@given(st.integers(4, 80), st.integers(1, 5), st.integers(1, 100), st.integers(0, 2**32 - 1))
def test_given_labels_are_kept_and_rows_sum_to_one(n, n_classes, k, seed):
    n_classes = min(n, n_classes)
    X, labels, _ = clusters(n, n_classes, seed=seed)
    found = pseudo_label(X.astype(np.float32), labels, GraphConfig(k=k))
    given_labels = torch.from_numpy(labels)
    assert torch.equal(found.labels[given_labels >= 0], given_labels[given_labels >= 0])
    assert ((found.labels >= 0) & (found.labels < n_classes)).all()
    torch.testing.assert_close(found.scores.sum(1), torch.ones(n))
    assert (found.scores >= 0).all()
    assert found.labels.dtype == torch.int64
    assert found.unreachable.dtype == torch.bool


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_permuting_the_points_permutes_the_answer(seed):
    X, labels, _ = clusters(seed=seed)
    order = np.random.default_rng(seed).permutation(len(X))
    straight, permuted = pseudo_label(X, labels, SMALL), pseudo_label(X[order], labels[order], SMALL)
    torch.testing.assert_close(straight.scores[order], permuted.scores, rtol=1e-6, atol=1e-8)
    assert torch.equal(straight.labels[order], permuted.labels)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_permuting_the_classes_permutes_the_answer(seed):
    X, labels, _ = clusters(n_classes=4, seed=seed)
    order = np.random.default_rng(seed).permutation(4)
    renamed = np.where(labels >= 0, order[labels], -1)
    straight, permuted = pseudo_label(X, labels, SMALL), pseudo_label(X, renamed, SMALL)
    torch.testing.assert_close(straight.scores, permuted.scores[:, order], rtol=1e-6, atol=1e-8)


def test_rescaling_the_features_changes_nothing():
    X, labels, _ = clusters()
    factors = np.random.default_rng(1).uniform(0.1, 10, size=(len(X), 1))
    torch.testing.assert_close(
        pseudo_label(X, labels, SMALL).scores, pseudo_label(X * factors, labels, SMALL).scores, rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_tiny_and_huge_features_are_normalized_all_the_same(scale):
    X, labels, _ = clusters()
    found = pseudo_label((X * scale).astype(np.float32), labels, SMALL)
    assert torch.equal(found.labels, pseudo_label(X.astype(np.float32), labels, SMALL).labels)
    assert not found.unreachable.any()


def test_a_class_without_labels_is_never_predicted():
    X, labels, _ = clusters()
    labels[labels == 1] = -1
    found = pseudo_label(X, labels, GraphConfig(k=6), n_classes=5)
    assert found.scores.shape == (120, 5)
    assert set(found.labels.tolist()) == {0, 2}
    assert (found.scores[:, [1, 3, 4]] == 0).all()


def test_a_prior_for_a_class_without_labels_gives_nothing_that_is_not_a_number():
    X, labels, _ = clusters()
    found = pseudo_label(X, labels, GraphConfig(k=6, prior=(1.0, 1.0, 1.0, 1.0)), n_classes=4)
    assert found.scores.isfinite().all()
    assert (found.scores[:, 3] == 0).all()


def test_a_given_prior_is_normalized_and_steers_the_labels():
    X, labels, _ = clusters(n=600, spread=2.0)
    plain = pseudo_label(X, labels, GraphConfig(k=6))
    steered = pseudo_label(X, labels, GraphConfig(k=6, prior=(8.0, 1.0, 1.0)))
    rescaled = pseudo_label(X, labels, GraphConfig(k=6, prior=(0.8, 0.1, 0.1)))
    torch.testing.assert_close(steered.scores, rescaled.scores)
    assert (steered.labels == 0).sum() > (plain.labels == 0).sum()


def test_a_component_without_a_label_is_unreachable_and_gets_the_prior():
    rng = np.random.default_rng(0)
    near, far = rng.normal(size=(30, 4)) * 0.1 + [1, 0, 0, 0], rng.normal(size=(20, 4)) * 0.1 - [1, 0, 0, 0]
    labels = np.full(50, -1)
    labels[[0, 1, 2]] = [0, 1, 1]
    found = pseudo_label(np.concatenate([near, far]), labels, GraphConfig(k=5))
    assert torch.equal(found.unreachable, torch.arange(50) >= 30)
    torch.testing.assert_close(found.scores[30:], torch.tensor([[1 / 3, 2 / 3]], dtype=torch.float64).expand(20, 2))
    assert (found.labels[30:] == 1).all()


def test_unreachable_points_do_not_change_the_others():
    X, labels, _ = clusters(d=8)
    X, far = np.concatenate([X, np.zeros((120, 4))], axis=1), np.zeros((40, 12))
    far[:, 8:] = 1 + np.random.default_rng(0).random((40, 4))
    alone = pseudo_label(X, labels, SMALL)
    together = pseudo_label(np.concatenate([X, far]), np.concatenate([labels, np.full(40, -1)]), SMALL)
    assert torch.equal(together.unreachable, torch.arange(160) >= 120)
    torch.testing.assert_close(together.scores[:120], alone.scores, rtol=1e-9, atol=1e-12)


def test_a_row_of_zeros_is_isolated():
    X, labels, _ = clusters()
    X[[50, 60]], labels[[50, 60]] = 0, [-1, 2]
    found = pseudo_label(X, labels, SMALL)
    assert found.unreachable.nonzero().flatten().tolist() == [50]
    assert found.labels[60] == 2
    assert found.scores.isfinite().all()


def test_a_long_chain_is_reached_to_its_end():
    angle = np.linspace(0, 1.5, 2000)
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    labels = np.full(2000, -1)
    labels[0] = 0
    found = pseudo_label(X, labels, GraphConfig(k=2), n_classes=2)
    assert not found.unreachable.any()
    assert (found.labels == 0).all()
    assert (found.scores[:, 0] == 1).all()


def test_beyond_the_solver_each_point_follows_its_own_end_of_the_chain():
    angle = np.concatenate([np.linspace(0, 1.0, 1500), np.linspace(1.01, 1.5, 700)])
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    labels = np.full(2200, -1)
    labels[[0, 2199]] = [0, 1]
    found = pseudo_label(X, labels, GraphConfig(k=2, alignment_iterations=0))
    expected = torch.cat([torch.zeros(1500), torch.ones(700)])
    assert (found.labels == expected).float().mean() > 0.99
    assert not found.unreachable.any()


def test_duplicates_share_their_label():
    X, labels, truth = clusters(n=40, spread=0.2)
    X, labels = np.repeat(X, 9, axis=0), np.repeat(labels, 9)
    labels[np.arange(len(labels)) % 9 > 0] = -1
    found = pseudo_label(X, labels, GraphConfig(k=12, alignment_iterations=0))
    is_reached = ~found.unreachable.numpy()
    assert is_reached.any()
    np.testing.assert_array_equal(found.labels.numpy()[is_reached], np.repeat(truth, 9)[is_reached])


def test_all_points_labeled_keep_their_labels():
    X, _, truth = clusters()
    found = pseudo_label(X, truth, GraphConfig(k=6))
    np.testing.assert_array_equal(found.labels.numpy(), truth)
    assert found.scores.isfinite().all()


def test_one_point_alone():
    found = pseudo_label(np.ones((1, 2)), np.array([1]), GraphConfig())
    assert found.labels.tolist() == [1]
    assert found.scores.tolist() == [[0, 1]]


def test_hidden_labels_are_the_only_ones_that_may_be_minus_one():
    X, labels, _ = clusters()
    labels[5] = -2
    with pytest.raises(InputError, match="−1 or a class"):
        pseudo_label(X, labels, SMALL)


def test_a_label_beyond_the_classes_is_refused():
    X, labels, _ = clusters()
    with pytest.raises(InputError, match="from 0 to 1"):
        pseudo_label(X, labels, SMALL, n_classes=2)


def test_no_label_at_all_is_refused():
    X, labels, _ = clusters()
    with pytest.raises(InputError, match="at least one"):
        pseudo_label(X, np.full_like(labels, -1), SMALL)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_features_that_are_not_finite_are_refused(value):
    X, labels, _ = clusters()
    X[3, 2] = value
    with pytest.raises(InputError, match="finite"):
        pseudo_label(X, labels, SMALL)


def test_features_without_points_are_refused():
    with pytest.raises(InputError, match="at least one point"):
        pseudo_label(np.zeros((0, 3)), np.zeros(0, dtype=np.int64), SMALL)


def test_a_prior_of_another_length_is_refused():
    X, labels, _ = clusters()
    with pytest.raises(InputError, match="each of the 3 classes"):
        pseudo_label(X, labels, GraphConfig(prior=(0.5, 0.5)))


def test_labels_of_another_length_or_kind_are_refused():
    X, labels, _ = clusters()
    with pytest.raises(InputError, match="give 120 integers"):
        pseudo_label(X, labels[:-1], SMALL)
    with pytest.raises(InputError, match="give 120 integers"):
        pseudo_label(X, labels.astype(float), SMALL)


def test_arrays_and_tensors_give_the_same_and_neither_is_changed():
    X, labels, _ = clusters()
    X_tensor, labels_tensor = torch.from_numpy(X.copy()), torch.from_numpy(labels.copy())
    a, b = pseudo_label(X, labels, SMALL), pseudo_label(X_tensor.requires_grad_(), labels_tensor, SMALL)
    assert torch.equal(a.scores, b.scores)
    assert not b.scores.requires_grad
    np.testing.assert_array_equal(X, X_tensor.detach().numpy())
    np.testing.assert_array_equal(labels, labels_tensor.numpy())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32])
def test_features_of_other_kinds_are_taken_as_float32(dtype):
    X, labels, _ = clusters()
    features = torch.from_numpy(10 * X).to(dtype)
    found = pseudo_label(features, labels, GraphConfig(k=6))
    assert found.scores.dtype == torch.float32
    assert torch.equal(found.scores, pseudo_label(features.float(), labels, GraphConfig(k=6)).scores)


def test_two_moons_are_told_apart():
    X, truth = make_moons(400, noise=0.05, random_state=0)
    features = np.stack([np.cos(X[:, 0]), np.sin(X[:, 0]), np.cos(2 * X[:, 1]), np.sin(2 * X[:, 1])], axis=1)
    labels = np.full(400, -1)
    for c in range(2):
        labels[np.flatnonzero(truth == c)[:3]] = c
    found = pseudo_label(features, labels, GraphConfig(k=8, alignment_iterations=0))
    assert (found.labels.numpy() == truth).mean() > 0.9


@pytest.mark.parametrize(
    "fields",
    [
        {"k": 0},
        {"mu": 0.0},
        {"mu": float("nan")},
        {"tol": -1.0},
        {"max_iterations": 0},
        {"alignment_iterations": -1},
        {"prior": ()},
        {"prior": (0.5, 0.0)},
        {"search": "fast"},
    ],
)
def test_settings_out_of_range_are_refused(fields):
    with pytest.raises(InputError, match=next(iter(fields))):
        GraphConfig(**fields)


def test_gamma_follows_from_mu():
    assert GraphConfig().gamma == pytest.approx(1 / 1.01)
    assert GraphConfig(mu=1.0).gamma == 0.5


@pytest.mark.parametrize(
    ("features", "labels", "n_classes", "said"),
    [
        (np.ones((3, 2)), np.ma.masked_array([0, 1, 1], mask=[0, 0, 1]), None, "labels are a masked array"),
        (np.ma.masked_array(np.ones((3, 2)), mask=[[1, 0]] * 3), np.array([0, 1, -1]), None, "features are a masked"),
        (np.ones((3, 2)), np.array([0, 1, -1]), 10**9, "n_classes = 1000000000; give an integer"),
    ],
)
def test_masks_and_classes_without_end_are_refused(features, labels, n_classes, said):
    with pytest.raises(InputError, match=said):
        pseudo_label(features, labels, GraphConfig(k=1), n_classes=n_classes)
