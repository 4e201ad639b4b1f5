"""The graph as an estimator: the same answers as the graph's own, as good as LabelSpreading's, in bounded memory."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from references_estimators import digits, literal_neighbor_means, random_labels, some_labels
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.semi_supervised import LabelSpreading
from torch.utils._python_dispatch import TorchDispatchMode

from laplacenet.estimators import LaplacePropagation
from laplacenet.estimators.labels import numbered
from laplacenet.graph import GraphConfig, pseudo_label
from laplacenet.graph.priors import shrunk_shares

X, TRUTH = digits()


def accuracy(labels, y):
    """In percent, on the points that had no label."""
    return 100 * np.mean(labels[y < 0] == TRUTH[y < 0])


@pytest.mark.parametrize("draw", [some_labels, random_labels])
def test_the_answers_are_those_of_the_graph(draw):
    y = draw(TRUTH, 100) if draw is random_labels else draw(TRUTH, 4)
    fitted = LaplacePropagation(n_neighbors=15, mu=0.02).fit(X, y)
    found = pseudo_label(X, y, GraphConfig(k=15, mu=0.02))
    np.testing.assert_array_equal(fitted.transduction_, found.labels.numpy())
    np.testing.assert_allclose(fitted.label_distributions_, found.scores.numpy(), atol=1e-3)
    np.testing.assert_array_equal(fitted.unreachable_, found.unreachable.numpy())
    assert fitted.n_iter_ == found.n_iterations
    assert fitted.recall_ is None
    np.testing.assert_array_equal(fitted.X_, X)


def test_the_prior_is_aligned_to_as_the_graph_does():
    y = random_labels(TRUTH, 100)
    shares = np.arange(1, 11)
    fitted = LaplacePropagation(n_neighbors=10, prior=shares).fit(X, y)
    found = pseudo_label(X, y, GraphConfig(k=10, prior=tuple(map(float, range(1, 11)))))
    np.testing.assert_array_equal(fitted.transduction_, found.labels.numpy())
    np.testing.assert_allclose(fitted.class_prior_, shares / 55)
    unaligned = LaplacePropagation(n_neighbors=10, prior=None).fit(X, y)
    found = pseudo_label(X, y, GraphConfig(k=10, alignment_iterations=0))
    np.testing.assert_array_equal(unaligned.transduction_, found.labels.numpy())
    assert np.mean(unaligned.transduction_ != fitted.transduction_) > 0.01


@pytest.mark.parametrize("n_neighbors", [7, 50])
def test_digits_with_forty_labels_are_labeled_as_well_as_by_label_spreading(n_neighbors):
    ours, theirs = [], []
    for seed in range(3):
        y = some_labels(TRUTH, 4, seed)
        ours.append(accuracy(LaplacePropagation(n_neighbors).fit(X, y).transduction_, y))
        theirs.append(accuracy(LabelSpreading(kernel="knn", n_neighbors=n_neighbors).fit(X, y).transduction_, y))
    assert np.mean(ours) >= np.mean(theirs) - 0.5


def test_a_shrunk_prior_bears_labels_drawn_at_random():
    """The shares among forty random labels are far from those of the points; aligning to them does harm."""
    shrunk, labeled, theirs = [], [], []
    for seed in range(4):
        y = random_labels(TRUTH, 50, seed)
        shrunk.append(accuracy(LaplacePropagation(10, prior="shrunk").fit(X, y).transduction_, y))
        labeled.append(accuracy(LaplacePropagation(10).fit(X, y).transduction_, y))
        theirs.append(accuracy(LabelSpreading(kernel="knn", n_neighbors=10).fit(X, y).transduction_, y))
    assert np.mean(shrunk) > np.mean(labeled) + 5
    assert np.mean(shrunk) >= np.mean(theirs) - 0.5


def test_clustered_data_is_labeled_as_well_as_by_label_spreading():
    points, truth = make_blobs(1000, 64, centers=10, cluster_std=6, random_state=0)
    y = some_labels(truth, 2)
    ours = LaplacePropagation(20).fit(points, y).transduction_
    theirs = LabelSpreading(kernel="knn", n_neighbors=20).fit(points, y).transduction_
    assert np.mean(ours == truth) >= np.mean(theirs == truth) - 0.005


def test_prediction_agrees_mostly_with_the_labels_spread_in_training():
    y = some_labels(TRUTH, 4)
    fitted = LaplacePropagation(n_neighbors=10).fit(X, y)
    assert np.mean(fitted.predict(X) == fitted.transduction_) > 0.97


def test_new_points_are_labeled_nearly_as_well_as_those_of_the_graph():
    y = some_labels(TRUTH[:1200], 8)
    fitted = LaplacePropagation(n_neighbors=10).fit(X[:1200], y)
    new = np.mean(fitted.predict(X[1200:]) == TRUTH[1200:])
    assert new > np.mean(fitted.transduction_ == TRUTH[:1200]) - 0.05


def test_probabilities_of_new_points_are_means_over_their_nearest_neighbors():
    y = some_labels(TRUTH[:150], 3)
    fitted = LaplacePropagation(n_neighbors=7).fit(X[:150], y)
    expected = literal_neighbor_means(X[150:190], X[:150], fitted.label_distributions_, 7)
    np.testing.assert_allclose(fitted.predict_proba(X[150:190]), expected, atol=1e-6)


def test_blocks_do_not_change_a_prediction(monkeypatch):
    fitted = LaplacePropagation(n_neighbors=7).fit(X[:300], some_labels(TRUTH[:300], 3))
    whole = fitted.predict_proba(X[300:400])
    monkeypatch.setattr("laplacenet.graph.induction.BLOCK_BYTES", 7 * 300 * 4)
    np.testing.assert_allclose(fitted.predict_proba(X[300:400]), whole, atol=1e-6)


def test_a_point_that_resembles_nothing_gets_the_prior():
    fitted = LaplacePropagation(n_neighbors=3).fit(np.eye(4) + 0.1, [0, 1, 1, -1])
    probabilities = fitted.predict_proba(np.array([[0.0, 0, 0, 0], [-1, -1, -1, -1]]))
    np.testing.assert_allclose(probabilities, [[1 / 3, 2 / 3]] * 2)


def test_points_that_no_label_reaches_have_no_voice():
    island = np.array([[0.0, 1], [0.01, 1], [0.02, 1]])
    land = np.array([[1.0, 0], [1, 0.01], [1, 0.02]])
    points = np.concatenate([land, island])
    fitted = LaplacePropagation(n_neighbors=2).fit(points, [0, 0, 1, -1, -1, -1])
    assert fitted.unreachable_.tolist() == [False] * 3 + [True] * 3
    np.testing.assert_allclose(fitted.label_distributions_[3:], [[2 / 3, 1 / 3]] * 3, atol=1e-6)
    # its nearest neighbors are of the island: nothing is known of them
    np.testing.assert_allclose(fitted.predict_proba([[0.0, 5.0]]), [[2 / 3, 1 / 3]])


def test_the_length_of_a_vector_does_not_matter():
    y = some_labels(TRUTH[:300], 3)
    plain = LaplacePropagation(n_neighbors=7).fit(X[:300], y)
    lengths = 10.0 ** np.linspace(-200, 200, 300)[:, None]
    scaled = LaplacePropagation(n_neighbors=7).fit(X[:300] * lengths, y)
    np.testing.assert_array_equal(scaled.transduction_, plain.transduction_)
    np.testing.assert_allclose(scaled.predict_proba(X[300:350] * 1e-180), plain.predict_proba(X[300:350]), atol=1e-5)


def test_too_few_iterations_are_told():
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        LaplacePropagation(n_neighbors=10, max_iter=2).fit(X, some_labels(TRUTH, 4))


def test_an_approximate_search_says_how_much_it_found():
    points, truth = make_blobs(6000, 16, centers=5, random_state=0)
    fitted = LaplacePropagation(n_neighbors=10, search="approximate").fit(points, some_labels(truth, 3))
    assert 0.9 < fitted.recall_ <= 1
    assert np.mean(fitted.transduction_ == truth) > 0.99


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("n_neighbors", 0),
        ("n_neighbors", 2.5),
        ("mu", -1),
        ("mu", "small"),
        ("tol", 0),
        ("max_iter", 0),
        ("alignment_iterations", -1),
        ("search", "quick"),
        ("device", "tpu"),
        ("prior", "flat"),
        ("prior", 3),
        ("prior", [1, 2]),
        ("prior", [1.0, 0.0, 1.0]),
    ],
)
def test_a_wrong_parameter_is_a_value_error_that_names_it(parameter, value):
    with pytest.raises(ValueError, match=rf"\b{parameter}\b") as refusal:
        LaplacePropagation(**{parameter: value}).fit(X[:30], TRUTH[:30] % 3)
    assert "graph." not in str(refusal.value)


@pytest.mark.parametrize(
    ("parameter", "value", "said"),
    [
        (
            "prior",
            "foo",
            r"'auto', 'estimated' \(with base='logistic'\), 'labeled', 'shrunk', 'equal', None or give 3 positive",
        ),
        ("n_neighbors", "all", "give an integer or 'auto'"),
        ("mu", "automatic", "give a number or 'auto'"),
        ("tol", 5, "tol = 5; it must be below 1"),
    ],
)
@pytest.mark.parametrize("base", [None, "logistic"])
def test_a_refusal_lists_what_is_accepted(base, parameter, value, said):
    with pytest.raises(ValueError, match=said):
        LaplacePropagation(base=base, **{parameter: value}).fit(X[:30], TRUTH[:30] % 3)


class LargestTensor(TorchDispatchMode):
    """Notes the size of the largest tensor that any operation gives back."""

    n_bytes = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
                self.n_bytes = max(self.n_bytes, tensor.nbytes)
        return result


def test_no_array_over_all_pairs_is_made():
    n = 12_000
    points = np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32)
    y = np.full(n, -1)
    y[:20] = np.arange(20) % 2
    with LargestTensor() as largest:
        LaplacePropagation(n_neighbors=5).fit(points, y).predict(points)
    assert 0 < largest.n_bytes < n * n  # fewer bytes than pairs


@given(
    labels=st.lists(st.sampled_from([-1, 3, 11, 4]), min_size=1, max_size=20).filter(lambda labels: set(labels) != {-1})
)
def test_numbers_stand_for_the_classes_in_order(labels):
    classes, numbers = numbered(np.array(labels))
    assert classes.tolist() == sorted(set(labels) - {-1})
    assert [-1 if number < 0 else classes[number] for number in numbers] == labels


@settings(max_examples=50)
@given(counts=arrays(np.int64, st.integers(1, 12), elements=st.integers(1, 500)))
def test_shrunk_shares_lie_between_equal_ones_and_those_counted(counts):
    shares, equal = counts / counts.sum(), 1 / len(counts)
    shrunk = shrunk_shares(counts)
    assert shrunk.sum() == pytest.approx(1)
    assert (shrunk >= np.minimum(shares, equal) - 1e-12).all()
    assert (shrunk <= np.maximum(shares, equal) + 1e-12).all()


def test_many_labels_are_believed_and_few_are_doubted():
    np.testing.assert_allclose(shrunk_shares(np.array([3, 5, 4])), [1 / 3] * 3)
    np.testing.assert_allclose(shrunk_shares(np.array([30_000, 50_000, 40_000])), [3 / 12, 5 / 12, 4 / 12], atol=1e-3)


@pytest.mark.gpu
def test_a_gpu_gives_the_same_labels():
    y = some_labels(TRUTH, 4)
    here = LaplacePropagation(n_neighbors=10).fit(X, y)
    there = LaplacePropagation(n_neighbors=10, device="cuda").fit(X, y)
    assert np.mean(here.transduction_ == there.transduction_) > 0.995
    np.testing.assert_allclose(there.predict_proba(X[:100]), here.predict_proba(X[:100]), atol=0.02)
