"""The loss weights of Iscen et al., written out; without them nothing changes."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from references_runs import StopAfter
from references_training import given_labels, run_on
from references_training import weights as network_weights
from torch.nn import functional

from laplacenet.data import ImageSet
from laplacenet.graph import PseudoLabels
from laplacenet.training import load_checkpoint, save_checkpoint, train
from laplacenet.training.methods.network_labels import NetworkLabelsConfig
from laplacenet.training.objective import (
    mixed_cross_entropy,
    mixed_weighted_cross_entropy,
    multi_view_cross_entropy,
    weighted_cross_entropy,
)
from laplacenet.training.weighting import certainty, inverse_class_sizes, iscen_weights

PLAIN_NETWORK = NetworkLabelsConfig(n_views=2, supervised_passes=2)
WEIGHTED_NETWORK = replace(PLAIN_NETWORK, class_weighting=True)


def test_certainty_is_one_for_a_sure_label_and_zero_for_a_tie() -> None:
    scores = torch.tensor([[1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0.0]])
    expected = torch.tensor([1.0, 0.0, 1 - math.log(2) / math.log(3)])
    assert torch.allclose(certainty(scores), expected, atol=1e-6)


def test_the_only_class_is_certain() -> None:
    assert certainty(torch.ones(3, 1)).tolist() == [1, 1, 1]


def test_classes_weigh_inversely_to_their_size_and_a_balanced_set_weighs_one() -> None:
    assert torch.allclose(inverse_class_sizes(torch.tensor([0, 1, 2, 0, 1, 2]), 3), torch.ones(3))
    weights = inverse_class_sizes(torch.tensor([0, 0, 0, 1]), 3)
    assert weights[1] / weights[0] == pytest.approx(3.0)
    assert bool(torch.isfinite(weights).all())


def test_a_given_label_is_certain_whatever_its_score() -> None:
    found = PseudoLabels(
        labels=torch.tensor([0, 1, 1]),
        scores=torch.tensor([[0.5, 0.5], [0.5, 0.5], [0.1, 0.9]]),
        unreachable=torch.zeros(3, dtype=torch.bool),
        n_iterations=1,
        is_converged=True,
        recall=None,
    )
    weights = iscen_weights(found, torch.tensor([0, -1, -1]), n_classes=2)
    entropy = -(0.1 * math.log(0.1) + 0.9 * math.log(0.9)) / math.log(2)
    assert torch.allclose(weights, torch.tensor([1.5, 0.0, 0.75 * (1 - entropy)]), atol=1e-6)


def test_the_weighted_loss_is_the_weighted_double_sum() -> None:
    logits, targets, weights = torch.randn(2, 3, 4), torch.tensor([0, 3, 1]), torch.tensor([0.5, 2.0, 0.0])
    total = sum(
        float(weights[i] * functional.cross_entropy(logits[j, i], targets[i])) for i in range(3) for j in range(2)
    )
    assert float(weighted_cross_entropy(logits, targets, weights)) == pytest.approx(total / 6, rel=1e-5)


def test_equal_weights_give_the_plain_loss() -> None:
    logits, targets, partners = torch.randn(2, 4, 3), torch.tensor([0, 1, 2, 1]), torch.tensor([2, 0, 1, 3])
    ones, weight = torch.ones(4), torch.tensor(0.3)
    assert torch.allclose(weighted_cross_entropy(logits, targets, ones), multi_view_cross_entropy(logits, targets))
    mixed = mixed_weighted_cross_entropy(logits, targets, partners, mix_weight=weight, weights=ones)
    assert torch.allclose(mixed, mixed_cross_entropy(logits, targets, partners, weight))


def test_a_mixed_target_keeps_the_weight_of_its_image() -> None:
    logits, targets, partners = torch.randn(1, 2, 3), torch.tensor([0, 1]), torch.tensor([1, 0])
    weights = torch.tensor([1.0, 0.0])
    mixed = mixed_weighted_cross_entropy(logits, targets, partners, mix_weight=torch.tensor(0.25), weights=weights)
    losses = [functional.cross_entropy(logits[0, row], targets[0]) for row in range(2)]
    assert float(mixed) == pytest.approx(float(0.25 * losses[0] + 0.75 * losses[1]) / 2, rel=1e-5)


def test_weighting_changes_training_and_the_supervised_start_is_plain(pictures: ImageSet) -> None:
    """With the network's own labels: those of the graph are all certain on such pictures."""
    losses = []
    for config in (PLAIN_NETWORK, WEIGHTED_NETWORK):
        run = run_on(pictures, given_labels(pictures), config=config)
        losses.append([epoch.loss for epoch in train(run)])
    plain, weighted = losses
    assert weighted[0] == pytest.approx(plain[0], rel=1e-5)
    assert weighted[1] != pytest.approx(plain[1], rel=1e-2)


def test_a_weighted_run_resumes_in_mid_epoch_bit_for_bit(pictures: ImageSet, tmp_path: Path) -> None:
    whole = run_on(pictures, given_labels(pictures), config=WEIGHTED_NETWORK)
    list(train(whole))
    first = run_on(pictures, given_labels(pictures), config=WEIGHTED_NETWORK)
    *_, last = train(first, monitor=StopAfter(5))
    save_checkpoint(tmp_path / "c", first.learner, last.position, identity={})
    second = run_on(pictures, given_labels(pictures), config=WEIGHTED_NETWORK)
    list(train(second, start=load_checkpoint(tmp_path / "c", second.learner, identity={})))
    pairs = zip(network_weights(whole.network), network_weights(second.network), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
