"""A classifier's opinion spread over the graph."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from laplacenet.graph import GraphConfig
from laplacenet.graph.estimated_prior import doubted_shares, estimated_shares, too_even
from laplacenet.graph.guided import (
    Guide,
    GuidedConfig,
    diffuse,
    guided_labels,
    landscape,
    partly_aligned,
    stratified_folds,
)
from laplacenet.graph.temperature import tempered
from laplacenet.graph.transform import fit_row_transform
from laplacenet.runtime import InputError


def clouds(n: int = 300, n_classes: int = 3, d: int = 20, noise: float = 1.0) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(0)
    truth = np.arange(n) % n_classes
    features = 3.0 + rng.normal(size=(n_classes, d))[truth] + noise * rng.normal(size=(n, d))
    return torch.from_numpy(features).float(), torch.from_numpy(truth)


def test_features_come_back_from_their_rows() -> None:
    features, _ = clouds()
    for some in (features, features.clamp(min=0)):
        transform = fit_row_transform(some)
        torch.testing.assert_close(transform.undo(transform.centered(some)), some, rtol=1e-4, atol=1e-5)
    assert transform.is_rooted


def test_diffusion_from_any_start_solves_its_linear_system() -> None:
    features, _ = clouds(n=60)
    W, config = landscape(features, GuidedConfig()).graph.W_normalized, GraphConfig(tol=1e-4)
    Y = torch.rand(60, 3)
    exact = torch.linalg.solve(torch.eye(60) - 0.7 * W.to_dense(), Y)
    for start in (None, Y, exact, torch.zeros(60, 3)):
        found = diffuse(W, Y, gamma=0.7, config=config, start=start)
        assert found.is_converged
        torch.testing.assert_close(found.F, exact, rtol=1e-3, atol=1e-3)
    assert diffuse(W, Y, gamma=0.7, config=config, start=exact).n_iterations == 0


def test_shares_move_from_equal_ones_to_those_found() -> None:
    few, many = (doubted_shares(np.array([0.9, 0.1]), n_given=n, doubt=5.0) for n in (0, 10_000))
    assert few.tolist() == [0.5, 0.5]
    assert abs(many[0] - 0.9) < 0.01
    assert abs(many.sum() - 1) < 1e-9


def some_labels(truth: Tensor, per_class: int) -> Tensor:
    labels = torch.full_like(truth, -1)
    for number in range(int(truth.max()) + 1):
        rows = torch.nonzero(truth == number).flatten()[:per_class]
        labels[rows] = number
    return labels


@pytest.mark.parametrize("per_class", [1, 2, 5, 10])
def test_it_is_better_than_logistic_regression(per_class: int) -> None:
    features, truth = clouds(noise=2.0)
    labels = some_labels(truth, per_class)
    is_hidden = labels < 0
    X = landscape(features, GuidedConfig()).X.numpy()
    reference = LogisticRegression().fit(X[~is_hidden], labels[~is_hidden]).predict(X[is_hidden])
    found = guided_labels(features, labels)
    ours = float((found.labels == truth)[is_hidden].float().mean())
    assert ours > float((torch.from_numpy(reference) == truth[is_hidden]).float().mean())


def test_given_labels_are_kept_and_scores_are_probabilities() -> None:
    features, truth = clouds(60)
    labels = some_labels(truth, 5)
    labels[0] = 2  # wrong, and given
    found = guided_labels(features, labels)
    assert torch.equal(found.labels[labels >= 0], labels[labels >= 0])
    torch.testing.assert_close(found.scores.sum(dim=1), torch.ones(60))
    assert (found.scores >= 0).all()


def test_no_hidden_label_takes_part_in_what_is_said_of_its_own_row() -> None:
    features, truth = clouds(90)
    labels = some_labels(truth, 6)
    row = int(torch.nonzero(labels == 1)[0])
    config = GuidedConfig(C=10.0)
    folds = stratified_folds(labels[labels >= 0].numpy(), config.n_folds, seed=0)
    found = guided_labels(features, labels, n_classes=3, config=config)
    assert not found.unseen[row].isnan().any()
    assert found.unseen[labels < 0].isnan().all()
    assert len(np.unique(folds)) == 6


def test_what_is_said_of_hidden_rows_is_not_better_than_what_is_said_of_others() -> None:
    """Labels that tell nothing are not found again, however well a classifier could learn them by heart."""
    rng = np.random.default_rng(0)
    features, labels = torch.from_numpy(rng.normal(size=(60, 200))), torch.from_numpy(rng.integers(0, 3, 60))
    found = guided_labels(features, labels, config=GuidedConfig(C=1000.0))
    assert float((found.unseen.argmax(dim=1) == labels).float().mean()) < 0.55


def test_a_wrong_label_is_contradicted_while_it_is_hidden() -> None:
    features, truth = clouds(150, noise=0.4)
    labels = some_labels(truth, 10)
    labels[0] = 1
    found = guided_labels(features, labels)
    assert int(found.unseen[0].argmax()) == int(truth[0]) == 0


@pytest.mark.parametrize("per_class", [1, 4])
def test_order_of_points_does_not_matter(per_class: int) -> None:
    features, truth = clouds(90)
    labels = some_labels(truth, per_class)
    order = torch.from_numpy(np.random.default_rng(0).permutation(90))
    config = GuidedConfig(n_folds=0, C=10.0)
    found, moved = (guided_labels(features[at], labels[at], config=config) for at in (torch.arange(90), order))
    torch.testing.assert_close(moved.scores, found.scores[order], atol=5e-3, rtol=0)


def test_a_class_without_labels_is_never_found() -> None:
    features, truth = clouds(90)
    labels = some_labels(truth, 5)
    labels[labels == 1] = -1
    found = guided_labels(features, labels, n_classes=4)
    assert set(found.labels.tolist()) <= {0, 2}
    assert found.scores.isfinite().all()


def test_one_label_is_enough_to_answer() -> None:
    features, _ = clouds(30)
    labels = torch.full((30,), -1)
    labels[4] = 0
    found = guided_labels(features, labels, n_classes=2)
    assert (found.labels == 0).all()


def test_every_point_may_be_labeled() -> None:
    features, truth = clouds(30)
    found = guided_labels(features, truth)
    assert torch.equal(found.labels, truth)


def test_equal_features_say_nothing_and_break_nothing() -> None:
    found = guided_labels(torch.ones(20, 5), torch.tensor([0, 1] + [-1] * 18))
    assert found.scores.isfinite().all()


def test_a_given_prior_is_followed() -> None:
    features, truth = clouds(300, noise=3.0)
    labels = some_labels(truth, 4)
    config = GuidedConfig(prior=(0.8, 0.1, 0.1), graph=GraphConfig(k=10, mu=0.18, alignment_iterations=300))
    found = guided_labels(features, labels, config=config)
    share = float((found.labels[labels < 0] == 0).float().mean())
    assert abs(share - 0.8) < 0.05


def test_features_without_negative_numbers_are_rooted() -> None:
    features = torch.rand(20, 5)
    rooted = landscape(features, GuidedConfig()).X
    expected = features.sqrt() - features.sqrt().mean(dim=0)
    torch.testing.assert_close(rooted, torch.nn.functional.normalize(expected, dim=1))
    for pixels in (torch.randint(0, 256, (20, 5)), torch.randint(0, 256, (20, 5)) / 255):
        assert not landscape(pixels, GuidedConfig()).transform.is_rooted
    signed = features - 0.5
    expected = signed - signed.mean(dim=0)
    torch.testing.assert_close(
        landscape(signed, GuidedConfig()).X, torch.nn.functional.normalize(expected, dim=1), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("n_arcs", [2, 8])
def test_the_graph_is_heard_where_it_finds_more_hidden_labels_than_the_classifier(n_arcs: int) -> None:
    """Arcs of a circle, of two classes by turns: a line parts two of them, but not eight."""
    rng = np.random.default_rng(0)
    arc = np.arange(800) % n_arcs
    angle = 2 * np.pi * (arc + 0.8 * rng.random(800)) / n_arcs
    features = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    labels = some_labels(torch.from_numpy(arc % 2), 40)
    guide = Guide(landscape(features, GuidedConfig()), labels, 2, GuidedConfig())
    assert guide.hears_graph == (n_arcs == 8)


@given(strength=st.floats(0, 1), seed=st.integers(0, 1000))
def test_partial_alignment_raises_the_weights_of_classes_to_a_power(strength: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    F = torch.from_numpy(rng.random((6, 3)) + 0.01)
    weights = torch.from_numpy(rng.random(3) + 0.1)
    aligned = F * weights / (F * weights).sum(dim=1, keepdim=True)
    expected = F * weights**strength
    found = partly_aligned(F, aligned, strength=strength)
    torch.testing.assert_close(found, expected / expected.sum(dim=1, keepdim=True))


def test_the_classifier_alone_answers_for_new_points() -> None:
    features, truth = clouds(300, noise=0.5)
    found = guided_labels(features[:200], some_labels(truth[:200], 10))
    predicted = found.classifier.probabilities(features[200:]).argmax(dim=1)
    assert float((predicted == truth[200:]).float().mean()) > 0.95


@pytest.mark.parametrize("labels", [torch.full((20,), -1), torch.zeros(3, dtype=torch.long), torch.full((20,), 7)])
def test_labels_that_make_no_sense_are_refused(labels: Tensor) -> None:
    with pytest.raises(InputError):
        guided_labels(torch.rand(20, 4), labels, n_classes=3)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8).filter(any), st.data())
@settings(max_examples=50)
def test_shares_are_shares(counts: list[int], data: st.DataObject) -> None:
    found = data.draw(st.lists(st.integers(0, 500), min_size=len(counts), max_size=len(counts)))
    shares = estimated_shares(np.array(counts), np.array(found))
    assert shares.sum() == pytest.approx(1)
    assert ((shares > 0) == (np.array(counts) > 0)).all()


def test_counts_chosen_class_by_class_are_told_from_a_random_draw() -> None:
    assert too_even(np.array([5] * 10))
    assert not too_even(np.array([9, 3, 6, 2, 8, 5, 4, 7, 1, 5]))


def test_the_only_label_of_a_class_is_never_hidden() -> None:
    folds = stratified_folds(np.array([0, 0, 0, 1, 2, 2, 2]), 10, seed=0)
    assert folds[3] == -1
    assert (np.delete(folds, 3) >= 0).all()


def test_a_temperature_of_one_changes_nothing() -> None:
    scores = torch.tensor([[0.2, 0.8], [0.5, 0.5]])
    torch.testing.assert_close(tempered(scores, 1.0), scores)
    assert tempered(scores, 0.5)[0, 1] > 0.8
