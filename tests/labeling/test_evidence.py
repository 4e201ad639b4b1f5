"""Evidence: what the graph's scores say beyond the mean, by hand, and that it labels unequal classes better."""

import numpy as np
import pytest
import torch
from references_labeling import drawn_evenly, some_given
from sklearn.datasets import load_digits

from laplacenet.graph import GraphConfig, pseudo_label
from laplacenet.graph.pseudo_labels import connect, unit_rows
from laplacenet.labeling.evidence import class_masses, graph_evidence, graph_scores


def test_it_is_the_score_over_its_class_s_mean_and_the_prior_in_place_of_the_mean() -> None:
    scores = torch.tensor([[0.6, 0.4], [0.8, 0.2], [1.0, 0.0]], dtype=torch.float64)
    masses = class_masses(scores, torch.tensor([False, False, True]))
    assert torch.allclose(masses, torch.tensor([0.7, 0.3], dtype=torch.float64))
    found = graph_evidence(scores[:2], masses, (0.9, 0.1)).at(0.5)
    by_hand = torch.tensor(
        [[0.9 * (0.6 / 0.7) ** 2, 0.1 * (0.4 / 0.3) ** 2], [0.9 * (0.8 / 0.7) ** 2, 0.1 * (2 / 3) ** 2]]
    )
    assert torch.allclose(found, by_hand / by_hand.sum(dim=1, keepdim=True), atol=1e-6)


def test_a_class_that_no_label_speaks_for_is_hardly_ever_likely() -> None:
    scores = torch.tensor([[0.6, 0.4, 0.0], [0.3, 0.7, 0.0]])
    masses = class_masses(scores, torch.tensor([False, False]))
    assert float(graph_evidence(scores, masses, (0.4, 0.4, 0.2)).at(1.0)[:, 2].max()) < 1e-5


def test_a_row_that_no_label_reaches_says_the_prior() -> None:
    features = unit_rows(torch.eye(6).repeat_interleave(3, dim=0) + 0.01 * torch.rand(18, 6))
    given = torch.full((18,), -1)
    given[0], given[3] = 0, 1
    by_graph = graph_scores(connect(features, GraphConfig(k=2)), given, GraphConfig(k=2), prior="3,1", n_classes=2)
    assert bool(by_graph.unreachable.any())
    assert torch.allclose(by_graph.evidence.at(0.1)[by_graph.unreachable], torch.tensor([0.75, 0.25]))


def test_with_equal_labels_for_unequal_classes_it_labels_far_more_rows_rightly_than_alignment() -> None:
    X, digits = load_digits(return_X_y=True)
    sizes = (180, 90, 45, 45, 22, 22, 18, 14, 9, 6)
    rows = np.concatenate([np.flatnonzero(digits == digit)[:size] for digit, size in enumerate(sizes)])
    features, truth = unit_rows(torch.from_numpy(X[rows]).float()), torch.from_numpy(digits[rows])
    config = GraphConfig(k=10)
    graph = connect(features, config)
    accuracies = []
    for seed in range(5):
        given = some_given(truth, drawn_evenly(truth, 4, seed=seed))
        aligned = pseudo_label(features, given, config, n_classes=10).labels
        evident = graph_scores(graph, given, config, prior="shrunk", n_classes=10).evidence.at(0.2).argmax(dim=1)
        accuracies.append([float((found == truth)[given < 0].double().mean()) for found in (aligned, evident)])
    aligned, evident = np.mean(accuracies, axis=0)
    assert evident > aligned + 0.2


@pytest.mark.parametrize("seed", range(3))
def test_with_equal_labels_for_equal_classes_it_is_nearly_as_good_as_alignment(seed: int) -> None:
    X, digits = load_digits(return_X_y=True)
    features, truth, config = unit_rows(torch.from_numpy(X).float()), torch.from_numpy(digits), GraphConfig(k=15)
    given = some_given(truth, drawn_evenly(truth, 4, seed=seed))
    aligned = pseudo_label(features, given, config, n_classes=10).labels
    evident = (
        graph_scores(connect(features, config), given, config, prior="shrunk", n_classes=10)
        .evidence.at(0.2)
        .argmax(dim=1)
    )
    accuracy = [float((found == truth)[given < 0].double().mean()) for found in (aligned, evident)]
    assert accuracy[1] > accuracy[0] - 0.04
