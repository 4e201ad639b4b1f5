"""The loss weights of Iscen et al. and images with fewer views, written out; without them nothing changes."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from references_methods import Fixed, batch_of, make_method
from references_runs import StopAfter
from references_training import given_labels, run_on
from references_training import weights as network_weights
from torch.nn import functional

from laplacenet.data import ImageSet
from laplacenet.graph import PseudoLabels
from laplacenet.training import LaplaceNetConfig, load_checkpoint, save_checkpoint, train
from laplacenet.training.methods.base import MethodConfig
from laplacenet.training.methods.laplacenet import SOFT_LABELS, soft_labels
from laplacenet.training.methods.network_labels import NetworkLabelsConfig
from laplacenet.training.objective import (
    mixed_cross_entropy,
    mixed_soft_cross_entropy,
    mixed_weighted_cross_entropy,
    multi_view_cross_entropy,
    weighted_cross_entropy,
)
from laplacenet.training.weighting import certainty, inverse_class_sizes, iscen_weights

PLAIN_NETWORK = NetworkLabelsConfig(n_views=2, supervised_passes=2)
WEIGHTED_NETWORK = replace(PLAIN_NETWORK, class_weighting=True)
FEWER_VIEWS = LaplaceNetConfig(n_views=3, n_labeled_views=1, mixup_alpha=0.0, supervised_passes=2)


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


def test_a_mixed_soft_target_gives_the_mixture_of_two_cross_entropies() -> None:
    generator = torch.Generator().manual_seed(0)
    logits, partners = torch.randn(2, 3, 4, generator=generator), torch.tensor([2, 0, 1])
    targets = torch.rand(3, 4, generator=generator)
    total = 0.0
    for j in range(2):
        for i in range(3):
            log_p = logits[j, i].log_softmax(dim=0)
            own, other = -(targets[i] * log_p).sum(), -(targets[partners[i]] * log_p).sum()
            total += float(0.3 * own + 0.7 * other)
    found = mixed_soft_cross_entropy(logits, targets, partners, torch.tensor(0.3))
    assert float(found) == pytest.approx(total / 6, rel=1e-5)


def test_soft_labels_of_certain_scores_give_the_plain_loss() -> None:
    logits, targets, partners = torch.randn(2, 4, 3), torch.tensor([0, 1, 2, 1]), torch.tensor([2, 0, 1, 3])
    hard, weight = functional.one_hot(targets, 3).float(), torch.tensor(0.3)
    plain = mixed_cross_entropy(logits, targets, partners, weight)
    assert torch.allclose(mixed_soft_cross_entropy(logits, hard, partners, weight), plain)


def test_soft_labels_are_scores_to_the_power_of_one_over_the_temperature() -> None:
    scores = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.0, 0.6, 0.4]])
    labels = PseudoLabels(
        labels=torch.tensor([1, 2, 1]),
        scores=scores,
        unreachable=torch.zeros(3, dtype=torch.bool),
        n_iterations=1,
        is_converged=True,
        recall=None,
    )
    soft = soft_labels(labels, torch.tensor([1, -1, -1]), T=0.5)
    expected = torch.stack([scores[1] ** 2 / (scores[1] ** 2).sum(), scores[2] ** 2 / (scores[2] ** 2).sum()])
    assert soft[0].tolist() == [0, 1, 0]  # a given label is certain
    assert torch.allclose(soft[1:], expected)
    almost_hard = soft_labels(labels, torch.tensor([1, -1, -1]), T=1e-4)
    assert torch.equal(almost_hard, functional.one_hot(labels.labels, 3).float())


def test_laplacenet_trains_on_soft_labels_only_where_a_temperature_is_set() -> None:
    """The labels' report as a table of targets, and the loss of one batch with and without loss weights."""
    scores = torch.rand(60, 3, generator=torch.Generator().manual_seed(1))
    scores = scores / scores.sum(dim=1, keepdim=True)
    found = PseudoLabels(scores.argmax(dim=1), scores, torch.zeros(60, dtype=torch.bool), 1, True, None)
    batch = batch_of(seed=3, views=torch.randn(12, 3, generator=torch.Generator().manual_seed(2)))
    draws = {"partners": torch.arange(11, -1, -1), "mix_weight": torch.tensor(0.3)}
    assert SOFT_LABELS not in make_method("laplacenet").tables(found)  # type: ignore[attr-defined]
    for is_weighted in (False, True):
        method = make_method("laplacenet", n_views=1, label_temperature=0.5, class_weighting=is_weighted)
        tables = {name: table[:12] for name, table in method.tables(found).items()}  # type: ignore[attr-defined]
        targets = tables[SOFT_LABELS] * (tables["weights"][:, None] if is_weighted else 1)
        logits = 0.3 * batch.views + 0.7 * batch.views[draws["partners"]]  # of mixed views, which are logits here
        expected = mixed_soft_cross_entropy(logits[None], targets, draws["partners"], draws["mix_weight"])
        loss = method.loss(Fixed(), replace(batch, tables=tables, draws=draws))
        assert float(loss) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_with_fewer_labeled_views_every_image_still_counts_alike(is_weighted: bool) -> None:
    """The mean over images of the mean over their views, written out."""
    method = make_method("laplacenet", n_views=2, n_labeled_views=1, mixup_alpha=0.0)
    sources, _ = method.draw_views(3, 4, 8, np.random.default_rng(0))
    assert sources.tolist() == [*range(4), *range(4, 12), *range(4, 12)]
    targets = torch.arange(12) % 3
    tables = {"targets": targets} | ({"weights": torch.linspace(0.1, 1, 12)} if is_weighted else {})
    draws = {"partners": torch.arange(11, -1, -1), "mix_weight": torch.tensor(1.0)}
    batch = replace(batch_of(seed=4), tables=tables, draws=draws)
    logs = batch.views.double().log_softmax(dim=1)
    losses = [[-float(logs[v, targets[i]]) for v in torch.nonzero(sources == i).flatten()] for i in range(12)]
    assert [len(of_image) for of_image in losses] == [1] * 4 + [2] * 8
    weights = tables.get("weights", torch.ones(12)).tolist()
    expected = sum(w * sum(views) / len(views) for w, views in zip(weights, losses, strict=True)) / 12
    assert float(method.loss(Fixed(), batch)) == pytest.approx(expected, rel=1e-5)


def test_as_many_labeled_views_as_others_change_nothing(pictures: ImageSet) -> None:
    losses = []
    for n in (0, 2):
        config = LaplaceNetConfig(n_views=2, n_labeled_views=n, mixup_alpha=0.0)
        losses.append([epoch.loss for epoch in train(run_on(pictures, given_labels(pictures), config=config))])
    assert losses[0] == losses[1]


def test_weighting_changes_training_and_the_supervised_start_is_plain(pictures: ImageSet) -> None:
    """With the network's own labels: those of the graph are all certain on such pictures."""
    losses = []
    for config in (PLAIN_NETWORK, WEIGHTED_NETWORK):
        run = run_on(pictures, given_labels(pictures), config=config)
        losses.append([epoch.loss for epoch in train(run)])
    plain, weighted = losses
    assert weighted[0] == pytest.approx(plain[0], rel=1e-5)
    assert weighted[1] != pytest.approx(plain[1], rel=1e-2)


@pytest.mark.parametrize("config", [WEIGHTED_NETWORK, FEWER_VIEWS])
def test_such_a_run_resumes_in_mid_epoch_bit_for_bit(config: MethodConfig, pictures: ImageSet, tmp_path: Path) -> None:
    whole = run_on(pictures, given_labels(pictures), config=config)
    list(train(whole))
    first = run_on(pictures, given_labels(pictures), config=config)
    *_, last = train(first, monitor=StopAfter(5))
    save_checkpoint(tmp_path / "c", first.learner, last.position, identity={})
    second = run_on(pictures, given_labels(pictures), config=config)
    list(train(second, start=load_checkpoint(tmp_path / "c", second.learner, identity={})))
    pairs = zip(network_weights(whole.network), network_weights(second.network), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
