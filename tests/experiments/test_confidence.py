"""A threshold that the 13-CNN's normalized embedding puts out of reach is told, and rivals go without that layer."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from laplacenet.experiments.compare import Comparison
from laplacenet.experiments.confidence import confidence_notes, largest_confidence
from laplacenet.experiments.experiment import Experiment, with_method
from laplacenet.experiments.notation import override
from laplacenet.experiments.presets import preset_named, with_method_preset
from laplacenet.models import build_model
from laplacenet.models.build import ModelConfig, build_network
from laplacenet.training import METHODS
from laplacenet.training.methods.presets import EQUAL

WITH_UNIT_LENGTH = {"laplacenet", "supervised", "network-labels", "lp"}


def fitted_confidence(n_classes: int, decay: float) -> float:
    """By descent: one free feature vector of length 1 and one row of weights for each class."""
    torch.manual_seed(0)
    features = torch.randn(n_classes, 8, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(n_classes, 8, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [features, weights], max_iter=2000, tolerance_grad=1e-12, line_search_fn="strong_wolfe"
    )
    targets = torch.arange(n_classes)

    def logits() -> torch.Tensor:
        return functional.normalize(features, dim=1) @ weights.T

    def objective() -> torch.Tensor:
        optimizer.zero_grad()
        loss = functional.cross_entropy(logits(), targets) + decay / 2 * weights.square().sum()
        loss.backward()
        return loss

    optimizer.step(objective)
    return float(logits().detach().softmax(dim=1).diagonal().mean())


@pytest.mark.parametrize(("n_classes", "decay"), [(2, 0.1), (3, 0.01), (6, 0.01), (6, 0.05), (9, 0.002)])
def test_the_largest_confidence_is_that_of_features_and_weights_fitted_freely(n_classes: int, decay: float) -> None:
    assert largest_confidence(n_classes, decay=decay) == pytest.approx(fitted_confidence(n_classes, decay), abs=1e-4)


def test_without_decay_there_is_no_bound_and_more_classes_or_more_decay_lower_it() -> None:
    assert largest_confidence(100, decay=0.0) == 1
    assert largest_confidence(100, decay=5e-4) < 0.75
    assert largest_confidence(10, decay=5e-4) > 0.95
    assert largest_confidence(100, decay=1e-3) < largest_confidence(100, decay=5e-4)


def fixmatch(*settings: str) -> Experiment:
    return override(with_method(preset_named("cifar100"), "fixmatch"), settings)


def test_a_threshold_out_of_reach_is_told_with_what_to_change() -> None:
    (note,) = confidence_notes(fixmatch("model.unit_length=true"), n_classes=100)
    assert "method.threshold = 0.95" in note
    assert "0.7" in note
    assert "--set model.unit_length=false" in note


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("model.unit_length=true", "train.head_decay=0"),
        ("model.unit_length=true", "method.threshold=0.5"),
        ("model.unit_length=true", "model.name=wrn-28-2"),
        ("model.unit_length=true", "method.name=adamatch"),  # its threshold is a part of what the network has
    ],
)
def test_a_threshold_within_reach_is_not_mentioned(settings: tuple[str, ...]) -> None:
    assert confidence_notes(fixmatch(*settings), n_classes=100) == []


def test_every_method_that_waits_for_a_fixed_probability_is_told() -> None:
    methods = {
        name: override(with_method(preset_named("cifar100"), name), ["model.unit_length=true"]) for name in METHODS
    }
    told = {name for name, experiment in methods.items() if confidence_notes(experiment, n_classes=10_000)}
    assert told == {"uda", "fixmatch", "flexmatch", "simmatch", "dual-student"}


@pytest.mark.parametrize("method", METHODS)
def test_the_normalized_embedding_comes_and_goes_with_the_method(method: str) -> None:
    chosen = with_method(preset_named("cifar100"), method)
    assert chosen.model.unit_length == (method in WITH_UNIT_LENGTH)
    assert with_method_preset(chosen, EQUAL).model == chosen.model
    assert with_method(chosen, "laplacenet").model == preset_named("cifar100").model


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (("method.name=sntg",), False),
        (("method.name=sntg", "model.unit_length=true"), True),
        (("method.name=sntg", "model.name=small-cnn"), True),  # where it means nothing
        (("train.lr=0.1",), True),
    ],
)
def test_so_it_does_when_the_method_is_chosen_as_a_setting(settings: tuple[str, ...], expected: bool) -> None:
    assert override(preset_named("cifar100"), settings).model.unit_length == expected


def test_a_network_chosen_as_a_setting_is_the_one_of_the_method() -> None:
    sntg = with_method(preset_named("digits"), "sntg")
    assert not override(sntg, ["model.name=13-cnn"]).model.unit_length


def test_other_networks_are_left_as_they_are() -> None:
    digits = preset_named("digits")
    assert with_method(digits, "fixmatch").model == digits.model


def test_methods_are_compared_on_the_network_that_each_of_them_has() -> None:
    base = preset_named("cifar100")
    base = replace(base, data=replace(base.data, n_labeled=400))
    compared = Comparison(base, methods=("laplacenet", "fixmatch"), seeds=(0,), preset=EQUAL)
    assert compared.experiment("laplacenet", 0).model.unit_length
    assert not compared.experiment("fixmatch", 0).model.unit_length


def test_without_the_layer_the_13_cnn_is_otherwise_the_same() -> None:
    plain = build_network(ModelConfig("13-cnn", unit_length=False), n_classes=4, seed=3).eval()
    unit = build_model("13-cnn", n_classes=4, seed=3).eval()
    images = torch.randn(5, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        z = plain.embed(images)
        assert torch.equal(unit.embed(images), functional.normalize(z, dim=1))
        assert not torch.allclose(z.norm(dim=1), torch.ones(5))
