"""The estimate of accuracy: unseen labels judge, and the interval covers the truth about as often as it says."""

import numpy as np
import pytest
import torch
from references_labeling import clusters, drawn_evenly, drawn_rows, some_given, unseen_graph_evidence

from laplacenet.graph import GraphConfig
from laplacenet.graph.pseudo_labels import Graph, connect, unit_rows
from laplacenet.labeling.estimate import FEWEST, accuracy_on, estimate_accuracy, wilson
from laplacenet.labeling.evidence import graph_scores, stratified_folds
from laplacenet.labeling.result import Estimate

CONFIG = GraphConfig(k=15)
N_TRIALS = 100
UNEQUAL = [0.4, 0.3, 0.15, 0.1, 0.05]


def estimated(
    graph: Graph, given: torch.Tensor, prior: str, n_classes: int, seed: int
) -> tuple[Estimate, torch.Tensor]:
    """The estimate, and the labels that it is an estimate of."""
    folds = stratified_folds(given, 10, seed=seed)
    unseen = unseen_graph_evidence(graph, given, folds, CONFIG, prior=prior, n_classes=n_classes).at(0.1)
    by_graph = graph_scores(graph, given, CONFIG, prior=prior, n_classes=n_classes)
    names = tuple(map(str, range(n_classes)))
    estimate = estimate_accuracy(unseen, given, torch.tensor(by_graph.prior), method="", class_names=names)
    return estimate, by_graph.evidence.at(0.1).argmax(dim=1)


EVENLY = (1.5, None, lambda truth, seed: drawn_evenly(truth, 10, seed=seed), "shrunk")
DRAWN = (2.0, None, lambda truth, seed: drawn_rows(truth, 60, seed=seed), "shrunk")
UNEQUALLY_DRAWN = (1.7, UNEQUAL, lambda truth, seed: drawn_rows(truth, 60, seed=seed), "shrunk")
SHARES_KNOWN = (1.7, UNEQUAL, lambda truth, seed: drawn_evenly(truth, 12, seed=seed), "0.4,0.3,0.15,0.1,0.05")


@pytest.mark.parametrize(
    ("noise", "shares", "draw", "prior"),
    [
        pytest.param(*EVENLY, id="even classes, even labels"),
        pytest.param(*DRAWN, id="even classes, labels drawn", marks=pytest.mark.slow),
        pytest.param(*UNEQUALLY_DRAWN, id="unequal classes, labels drawn"),
        pytest.param(*SHARES_KNOWN, id="unequal classes, even labels, shares known", marks=pytest.mark.slow),
    ],
)
def test_the_interval_covers_the_true_accuracy_about_as_often_as_it_says(
    noise: float, shares: list[float] | None, draw: object, prior: str
) -> None:
    X, truth = clusters(600, 5, noise=noise, shares=shares)
    graph = connect(unit_rows(X), CONFIG)
    n_covered, class_covered, errors = 0, [], []
    for seed in range(N_TRIALS):
        given = some_given(truth, draw(truth, seed))  # type: ignore[operator]
        estimate, labels = estimated(graph, given, prior, 5, seed)
        is_right, is_found = labels == truth, given < 0
        true = float(is_right[is_found].double().mean())
        assert estimate.accuracy is not None
        n_covered += estimate.accuracy.low <= true <= estimate.accuracy.high
        errors.append(estimate.accuracy.value - true)
        for number, entry in enumerate(estimate.classes):
            if entry.accuracy is not None:
                true = float(is_right[is_found & (truth == number)].double().mean())
                class_covered.append(entry.accuracy.low <= true <= entry.accuracy.high)
    assert n_covered / N_TRIALS >= 0.90
    assert np.mean(class_covered) >= 0.88
    assert abs(np.mean(errors)) < 0.03


def test_labels_that_judge_had_no_part_in_what_they_judge() -> None:
    X, truth = clusters(300, 4, noise=1.5)
    graph = connect(unit_rows(X), CONFIG)
    given = some_given(truth, drawn_evenly(truth, 8, seed=0))
    folds = stratified_folds(given, 10, seed=0)
    before = unseen_graph_evidence(graph, given, folds, CONFIG, prior="equal", n_classes=4)
    garbled = torch.where(folds == 3, (given + 1) % 4, given)
    after = unseen_graph_evidence(graph, garbled, folds, CONFIG, prior="equal", n_classes=4)
    assert torch.equal(before.logits[folds == 3], after.logits[folds == 3])
    assert not torch.equal(before.logits[folds == 4], after.logits[folds == 4])


def test_too_few_labels_make_no_estimate_but_are_counted() -> None:
    n = FEWEST - 1
    unseen = torch.eye(3)[torch.zeros(n, dtype=torch.int64)]
    found = estimate_accuracy(
        unseen, torch.zeros(n, dtype=torch.int64), torch.ones(3) / 3, method="", class_names=("a", "b", "c")
    )
    assert found.accuracy is None
    assert found.n == n
    assert [entry.n for entry in found.classes] == [n, 0, 0]
    assert found.classes[1].accuracy is None


def test_a_class_counts_by_its_share_not_by_its_labels() -> None:
    given = torch.tensor([0] * 10 + [1] * 10)
    unseen = torch.eye(2)[torch.zeros(20, dtype=torch.int64)]
    found = estimate_accuracy(unseen, given, torch.tensor([0.8, 0.2]), method="", class_names=("a", "b"))
    assert found.accuracy is not None
    assert found.accuracy.value == pytest.approx(0.8)


def test_where_every_row_has_a_label_the_estimate_is_for_rows_to_come() -> None:
    given = torch.tensor([0, 1]).repeat(50)
    unseen = torch.eye(2)[given]
    unseen[:10] = unseen[:10].flip(1)  # ten of a hundred are wrong
    found = estimate_accuracy(unseen, given, torch.tensor([0.5, 0.5]), method="", class_names=("a", "b")).accuracy
    assert found == wilson(0.9, 100)


def test_a_test_set_counts_only_known_labels() -> None:
    n, accuracy = accuracy_on(torch.tensor([0, 1, 1, 0]), torch.tensor([0, 1, 0, -1]))
    assert n == 3
    assert accuracy is not None
    assert accuracy.value == pytest.approx(2 / 3)
    assert accuracy_on(torch.tensor([0]), torch.tensor([-1])) == (0, None)
