"""Embeddings from one end to the other: labels, confidences, the model for rows that come later, what is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from references_labeling import clusters, drawn_evenly, some_given

from laplacenet.graph import GraphConfig
from laplacenet.labeling.choices import neighbors_for
from laplacenet.labeling.embeddings import (
    GraphLabels,
    holds_graph_model,
    label_embeddings,
    load_graph_model,
    save_graph_model,
)
from laplacenet.labeling.settings import LabelingSettings
from laplacenet.models.saved import WEIGHTS
from laplacenet.runtime import InputError

NAMES = ("a", "b", "c", "d")
CPU = torch.device("cpu")


def labeled(n_each: int = 8, **settings: object) -> tuple[GraphLabels, torch.Tensor, torch.Tensor, torch.Tensor]:
    X, truth = clusters(500, 4, noise=1.3)
    given = some_given(truth, drawn_evenly(truth, n_each, seed=0))
    chosen = replace(LabelingSettings(graph=GraphConfig(k=15)), **settings)  # type: ignore[arg-type]
    return label_embeddings(X, given, chosen, class_names=NAMES, device=CPU), X, truth, given


def test_nine_rows_in_ten_are_labeled_rightly_and_confidence_says_which() -> None:
    found, _, truth, given = labeled()
    scores = found.findings.evidence.at(found.temperature)
    confidence, labels = scores.max(dim=1)
    is_right = (labels == truth)[given < 0]
    confidence = confidence[given < 0]
    assert float(is_right.double().mean()) > 0.9
    assert float(confidence[is_right].mean()) > float(confidence[~is_right].mean()) + 0.1
    assert abs(float(confidence.mean()) - float(is_right.double().mean())) < 0.1


def test_all_given_labels_of_classes_with_two_are_judged_unseen() -> None:
    found, _, _, given = labeled()
    assert torch.equal(~found.unseen.isnan().any(dim=1), given >= 0)
    assert found.estimate.n == 32
    assert "10 folds" in found.estimate.method


def test_with_one_label_a_class_there_is_no_estimate_and_no_calibration() -> None:
    found, _, truth, given = labeled(n_each=1)
    assert found.estimate.accuracy is None
    assert "No label could be hidden" in found.estimate.method
    assert found.calibration is None
    labels = found.findings.evidence.at(1.0).argmax(dim=1)
    assert float((labels == truth)[given < 0].double().mean()) > 0.5


def test_the_order_of_rows_does_not_matter() -> None:
    X, truth = clusters(300, 4, noise=1.3)
    given = some_given(truth, drawn_evenly(truth, 6, seed=0))
    settings = LabelingSettings(graph=GraphConfig(k=15))
    order = torch.from_numpy(np.random.default_rng(1).permutation(300))
    plain = label_embeddings(X, given, settings, class_names=NAMES, device=CPU).answer.scores
    moved = label_embeddings(X[order], given[order], settings, class_names=NAMES, device=CPU).answer.scores
    assert torch.allclose(plain[order], moved, atol=1e-4)


def test_the_model_labels_later_rows_about_as_well_as_it_labeled_its_own(tmp_path: Path) -> None:
    X, truth = clusters(700, 4, noise=1.3)
    given = some_given(truth[:500], drawn_evenly(truth[:500], 8, seed=0))
    found = label_embeddings(X[:500], given, LabelingSettings(graph=GraphConfig(k=15)), class_names=NAMES, device=CPU)
    save_graph_model(tmp_path, found.model(k=15, class_names=NAMES))
    assert holds_graph_model(tmp_path)
    model = load_graph_model(tmp_path)
    probabilities = model.probabilities(X[500:])
    assert torch.allclose(probabilities.sum(dim=1), torch.ones(200))
    own = found.findings.evidence.at(found.temperature).argmax(dim=1)
    accuracies = [
        float((labels == true).double().mean())
        for labels, true in ((probabilities.argmax(dim=1), truth[500:]), (own, truth[:500]))
    ]
    assert accuracies[0] > accuracies[1] - 0.05
    assert abs(float(probabilities.amax(dim=1).mean()) - accuracies[0]) < 0.12


def test_a_damaged_model_and_embeddings_of_another_length_are_refused(tmp_path: Path) -> None:
    found, _, _, _ = labeled()
    save_graph_model(tmp_path, found.model(k=15, class_names=NAMES))
    with pytest.raises(InputError, match="this model reads 16"):
        load_graph_model(tmp_path).probabilities(torch.randn(2, 5))
    content = bytearray((tmp_path / WEIGHTS).read_bytes())
    content[-1] ^= 1
    (tmp_path / WEIGHTS).write_bytes(bytes(content))
    with pytest.raises(InputError, match="damaged"):
        load_graph_model(tmp_path)


def test_neighborhoods_are_a_small_part_of_a_class() -> None:
    assert neighbors_for(10_000, 10) == 50
    assert neighbors_for(1_000, 10) == 12
    assert neighbors_for(50, 10) == 5


def test_a_wrong_label_among_many_is_suspected_and_its_scores_contradict_it() -> None:
    X, truth = clusters(500, 4, noise=0.8)
    rows = drawn_evenly(truth, 15, seed=0)
    given = some_given(truth, rows)
    given[rows[0]] = (given[rows[0]] + 1) % 4
    found = label_embeddings(X, given, LabelingSettings(graph=GraphConfig(k=15)), class_names=NAMES, device=CPU)
    unseen = found.unseen[rows[0]]
    assert int(unseen.argmax()) == int(truth[rows[0]])
    assert float(unseen[given[rows[0]]]) < 0.05
