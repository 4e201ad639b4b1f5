"""Embeddings from one end to the other: labels, confidences, the model for rows that come later, what is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch
from references_labeling import clusters, drawn_evenly, some_given

from laplacenet.graph.guided import GuidedConfig
from laplacenet.labeling.choices import neighbors_for
from laplacenet.labeling.embeddings import GraphModel, holds_graph_model, load_graph_model, save_graph_model
from laplacenet.labeling.feature_model import (
    FeatureModel,
    feature_predictions,
    fit_head,
    holds_feature_model,
    load_feature_model,
    save_feature_model,
)
from laplacenet.labeling.features import FeatureLabels, label_features
from laplacenet.labeling.predictions import sources_of
from laplacenet.labeling.settings import LabelingSettings
from laplacenet.models.saved import WEIGHTS
from laplacenet.runtime import InputError

NAMES = ("a", "b", "c", "d")
CPU = torch.device("cpu")
SETTINGS = LabelingSettings(graph=GuidedConfig().graph)


def labeled(n_each: int = 8) -> tuple[FeatureLabels, torch.Tensor, torch.Tensor]:
    X, truth = clusters(500, 4, noise=1.3)
    given = some_given(truth, drawn_evenly(truth, n_each, seed=0))
    return label_features(X, given, SETTINGS, class_names=NAMES, device=CPU), truth, given


def head_of(found: FeatureLabels) -> FeatureModel:
    guided = found.guided
    weights, offsets, temperature = fit_head(found.land.X, guided.labels, guided.scores, seed=0)
    return FeatureModel(None, None, None, found.land.transform, weights, offsets, temperature, NAMES)


def test_nine_rows_in_ten_are_labeled_rightly_and_confidence_says_which() -> None:
    found, truth, given = labeled()
    confidence, labels = found.guided.scores.max(dim=1)
    is_right = (labels == truth)[given < 0]
    confidence = confidence[given < 0]
    assert float(is_right.double().mean()) > 0.9
    assert float(confidence[is_right].mean()) > float(confidence[~is_right].mean()) + 0.1
    assert abs(float(confidence.mean()) - float(is_right.double().mean())) < 0.1


def test_all_given_labels_of_classes_with_two_are_judged_unseen() -> None:
    found, _, given = labeled()
    assert torch.equal(~found.guided.unseen.isnan().any(dim=1), given >= 0)
    assert found.estimate.n == 32


def test_with_one_label_a_class_there_is_no_estimate_and_no_calibration() -> None:
    found, truth, given = labeled(n_each=1)
    assert found.estimate.accuracy is None
    assert "No label could be held out" in found.estimate.method
    assert found.calibration is None
    assert float((found.guided.labels == truth)[given < 0].double().mean()) > 0.5


def test_the_order_of_rows_does_not_matter() -> None:
    X, truth = clusters(300, 4, noise=1.3)
    given = some_given(truth, drawn_evenly(truth, 6, seed=0))
    order = torch.from_numpy(np.random.default_rng(1).permutation(300))
    plain = label_features(X, given, SETTINGS, class_names=NAMES, device=CPU).guided.labels
    moved = label_features(X[order], given[order], SETTINGS, class_names=NAMES, device=CPU).guided.labels
    assert float((plain[order] == moved).double().mean()) > 0.98  # folds, and so temperatures, depend on the order


def test_the_model_labels_later_rows_about_as_well_as_it_labeled_its_own(tmp_path: Path) -> None:
    X, truth = clusters(700, 4, noise=1.3)
    given = some_given(truth[:500], drawn_evenly(truth[:500], 8, seed=0))
    found = label_features(X[:500], given, SETTINGS, class_names=NAMES, device=CPU)
    save_feature_model(tmp_path, head_of(found))
    assert holds_feature_model(tmp_path)
    model = load_feature_model(tmp_path)
    np.save(tmp_path / "later.npy", X[500:].numpy())
    later = feature_predictions(model, sources_of([tmp_path / "later.npy"]), device=CPU)
    names = [one.label for one in later if hasattr(one, "label")]
    probabilities = model.probabilities(X[500:])
    assert names == [NAMES[number] for number in probabilities.argmax(dim=1).tolist()]
    accuracies = [
        float((labels == true).double().mean())
        for labels, true in ((probabilities.argmax(dim=1), truth[500:]), (found.guided.labels, truth[:500]))
    ]
    assert accuracies[0] > accuracies[1] - 0.05
    assert abs(float(probabilities.amax(dim=1).mean()) - accuracies[0]) < 0.12


def test_a_model_of_embeddings_refuses_pictures_and_embeddings_of_another_length(tmp_path: Path) -> None:
    model = head_of(labeled()[0])
    with pytest.raises(InputError, match="this model reads 16"):
        model.probabilities(torch.randn(2, 5))
    with pytest.raises(InputError, match="labeled embeddings"):
        model.network(CPU)


def test_a_damaged_graph_and_embeddings_of_another_length_are_refused(tmp_path: Path) -> None:
    rows = torch.nn.functional.normalize(torch.randn(20, 16), dim=1)
    scores = torch.eye(4).repeat(5, 1)
    model = GraphModel(rows, scores, scores.double().mean(dim=0), (0.25,) * 4, NAMES, k=5, temperature=1.0)
    save_graph_model(tmp_path, model)
    assert holds_graph_model(tmp_path)
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
    found = label_features(X, given, SETTINGS, class_names=NAMES, device=CPU)
    unseen = found.guided.unseen[rows[0]]
    assert int(unseen.argmax()) == int(truth[rows[0]])
    assert float(unseen[given[rows[0]]]) < 0.05
