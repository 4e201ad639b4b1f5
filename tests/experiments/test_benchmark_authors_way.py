"""The authors' way computes what ours computes: at a tight tolerance the labels are the same."""

import numpy as np
import pytest
import torch

from laplacenet.experiments.benchmark.synthetic import Clusters, clustered_points
from laplacenet.experiments.paper import authors_way
from laplacenet.experiments.paper.authors_way import AuthorsConfig, align_by_counting, authors_labels, flat_neighbors
from laplacenet.graph import GraphConfig, align_to_prior, nearest_neighbors, pseudo_label


@pytest.fixture
def clusters() -> Clusters:
    return clustered_points(500, n_classes=7, n_labeled=40, d=16)


def test_both_ways_give_the_same_labels_at_a_tight_tolerance(clusters: Clusters) -> None:
    theirs = authors_labels(
        clusters.features.numpy(),
        clusters.labels.numpy(),
        AuthorsConfig(k=12, tol=1e-7, max_iterations=500, alignment_iterations=60),
        n_classes=7,
    )
    config = GraphConfig(k=12, tol=1e-9, max_iterations=500, alignment_iterations=60)
    ours = pseudo_label(clusters.features.double(), clusters.labels, config, n_classes=7)
    assert (theirs.labels == ours.labels.numpy()).mean() > 0.998  # the similarities differ in their last digits
    np.testing.assert_allclose(theirs.scores[clusters.labels < 0], ours.scores[clusters.labels < 0], atol=5e-3)
    assert set(theirs.stages) == {"neighbors", "affinity", "cg", "alignment"}


def test_their_values_stop_earlier_and_label_a_little_differently(clusters: Clusters) -> None:
    features, labels = clusters.features.numpy(), clusters.labels.numpy()
    loose = authors_labels(features, labels, AuthorsConfig(k=12), n_classes=7)
    tight = authors_labels(features, labels, AuthorsConfig(k=12, tol=1e-7, max_iterations=500), n_classes=7)
    assert np.abs(loose.scores - tight.scores).max() > 1e-4
    assert (loose.labels == tight.labels).mean() > 0.9


def test_given_labels_are_kept(clusters: Clusters) -> None:
    given = clusters.labels.numpy()
    found = authors_labels(clusters.features.numpy(), given, AuthorsConfig(k=12), n_classes=7).labels
    assert (found[given >= 0] == given[given >= 0]).all()


@pytest.mark.parametrize("has_faiss", [False, True])
def test_neighbors_are_the_nearest_without_the_point_itself(
    clusters: Clusters, has_faiss: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authors_way, "HAS_FAISS", has_faiss)
    similarities, indices = flat_neighbors(clusters.features.numpy(), 9)
    ours = nearest_neighbors(clusters.features, k=9)
    assert (indices != np.arange(500)[:, None]).all()
    np.testing.assert_allclose(similarities, ours.similarities, atol=1e-5)
    assert (np.sort(indices) == ours.indices.sort(1).values.numpy()).mean() > 0.999


def test_counting_point_by_point_deforms_as_one_weight_per_class_does() -> None:
    rng = np.random.default_rng(3)
    F, is_unlabeled = rng.random((80, 4)), np.arange(80) >= 10
    prior = np.array([0.4, 0.3, 0.2, 0.1])
    theirs = align_by_counting(F, is_unlabeled, prior, iterations=30)
    ours = align_to_prior(torch.from_numpy(F), ~is_unlabeled, prior, iterations=30)
    np.testing.assert_allclose(theirs, ours, rtol=1e-9)
