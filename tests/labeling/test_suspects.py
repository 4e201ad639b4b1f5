"""Wrong labels planted among the given ones are found, and few right ones are suspected."""

import numpy as np
import pytest
import torch
from references_labeling import clusters, drawn_rows, some_given, unseen_graph_evidence
from sklearn.datasets import load_digits

from laplacenet.graph import GraphConfig
from laplacenet.graph.pseudo_labels import connect, unit_rows
from laplacenet.labeling.estimate import fit_temperature, suspect_labels
from laplacenet.labeling.evidence import stratified_folds

CONFIG = GraphConfig(k=15)


def planted(
    X: torch.Tensor, truth: torch.Tensor, *, n_given: int, share: float, n_draws: int
) -> tuple[float, float, float]:
    """Precision and recall over some draws, and the share of all given labels that is suspected."""
    graph, n_classes = connect(unit_rows(X), CONFIG), int(truth.max()) + 1
    n_hit = n_suspect = n_wrong = 0
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        rows = drawn_rows(truth, n_given, seed=seed)
        given, wrong = some_given(truth, rows), rows[: int(share * n_given)]
        given[wrong] = (given[wrong] + torch.from_numpy(rng.integers(1, n_classes, len(wrong)))) % n_classes
        folds = stratified_folds(given, 10, seed=seed)
        unseen = unseen_graph_evidence(graph, given, folds, CONFIG, prior="shrunk", n_classes=n_classes)
        judged = folds >= 0
        probabilities = unseen.at(fit_temperature(unseen.rows(judged), given[judged]))
        found = suspect_labels(probabilities, given)
        is_wrong = (given >= 0) & (given != truth)
        n_hit, n_suspect, n_wrong = (
            n_hit + int((found & is_wrong).sum()),
            n_suspect + int(found.sum()),
            n_wrong + int(is_wrong.sum()),
        )
    return n_hit / max(1, n_suspect), n_hit / max(1, n_wrong), n_suspect / (n_draws * n_given)


def test_among_digits_most_planted_errors_are_found_and_most_that_is_found_is_wrong() -> None:
    X, digits = load_digits(return_X_y=True)
    X, truth = torch.from_numpy(X).float(), torch.from_numpy(digits)
    precision, recall, _ = planted(X, truth, n_given=150, share=0.08, n_draws=8)
    assert precision > 0.85
    assert recall > 0.75


def test_where_one_row_in_ten_is_labeled_wrongly_anyway_suspicion_is_still_right_more_often_than_not() -> None:
    precision, recall, _ = planted(*clusters(800, 5, noise=1.5), n_given=150, share=0.08, n_draws=10)
    assert precision > 0.65
    assert recall > 0.6


def test_among_right_labels_hardly_any_is_suspected() -> None:
    X, digits = load_digits(return_X_y=True)
    _, _, share = planted(torch.from_numpy(X).float(), torch.from_numpy(digits), n_given=150, share=0, n_draws=5)
    assert share < 0.03


def test_where_the_graph_knows_little_it_suspects_little() -> None:
    _, _, share = planted(*clusters(800, 10, noise=3.0), n_given=150, share=0, n_draws=5)
    assert share < 0.08


@pytest.mark.parametrize(
    ("row", "label", "is_suspect"),
    [
        ([0.96, 0.03, 0.01], 1, True),  # 0.05 · 0.96 against 0.95 · 0.03
        ([0.60, 0.35, 0.05], 1, False),
        ([0.96, 0.03, 0.01], 0, False),
        ([0.50, 0.48, 0.02], 2, True),
        ([torch.nan] * 3, 1, False),
        ([0.99, 0.01, 0.00], -1, False),
    ],
)
def test_a_label_is_suspect_where_a_slip_is_the_better_explanation(
    row: list[float], label: int, is_suspect: bool
) -> None:
    assert bool(suspect_labels(torch.tensor([row]), torch.tensor([label]))[0]) is is_suspect
