"""Losses and thresholds of methods that guess on weak views, against their formulas one image at a time."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from references_methods import TRAIN, batch_of, learner_of, make_method, small_pictures
from torch import Tensor
from torch.nn import functional

from laplacenet.models import build_model
from laplacenet.runtime import InputError
from laplacenet.training import Batch, Execution, Run, config_class, train
from laplacenet.training.methods.base import TARGETS
from laplacenet.training.methods.freematch import fairness
from laplacenet.training.methods.mixmatch import interleaved


def cross_entropy(logits: Tensor, target: Tensor) -> float:
    return -float((target * logits.log_softmax(dim=0)).sum())


def supervised(batch: Batch) -> float:
    return float(functional.cross_entropy(batch.views[:4], batch.tables[TARGETS][:4]))


@pytest.mark.parametrize("threshold", [0.0, 0.6, 0.999])
def test_uda_is_the_divergence_from_the_sharpened_guess_where_the_plain_one_is_confident(threshold: float) -> None:
    method = make_method("uda", threshold=threshold, temperature=0.4, unlabeled_weight=1.5)
    batch = batch_of(seed=1)
    terms = []
    for i in range(4, 12):
        weak, strong = batch.views[i], batch.views[8 + i]
        target = (weak / 0.4).softmax(dim=0)
        divergence = float((target * (target.log() - strong.log_softmax(dim=0))).sum())
        terms.append(divergence if float(weak.softmax(dim=0).max()) > threshold else 0.0)
    expected = supervised(batch) + 1.5 * np.mean(terms)
    assert float(method.loss(learner_of(method), batch)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "alpha"),
    [("linear", lambda p: p), ("log", lambda p: 1 - np.exp(-5 * p)), ("exp", lambda p: np.exp(5 * (p - 1)))],
)
def test_annealed_signals_drop_labeled_images_that_are_known_too_well(name: str, alpha: Any) -> None:
    method = make_method("uda", signal_annealing=name, unlabeled_weight=0.0)
    plan = method.plan_epoch(0, 0, learner=learner_of(method), inputs=torch.zeros(60, 1, 8, 8))
    bounds = method.draw_numbers(plan, 2, 3, 12)["signal"]
    assert bounds.tolist() == pytest.approx([alpha(t / 9) * (2 / 3) + 1 / 3 for t in (2, 3, 4)])
    batch = batch_of(seed=2, draws={"signal": torch.tensor(0.5)})
    kept = [
        cross_entropy(batch.views[i], functional.one_hot(batch.tables[TARGETS][i], 3))
        for i in range(4)
        if float(batch.views[i].softmax(dim=0)[batch.tables[TARGETS][i]]) <= 0.5
    ]
    assert 0 < len(kept) < 4
    assert float(method.loss(learner_of(method), batch)) == pytest.approx(np.mean(kept), rel=1e-5)


def freematch_fairness(strong: Tensor, counts: list[bool], outputs: np.ndarray, shares: np.ndarray) -> float:
    chosen = [strong[i].softmax(dim=0).numpy() for i in range(len(strong)) if counts[i]]
    if not chosen:
        return 0.0
    mean = np.mean(chosen, axis=0)
    found = np.array([np.mean([p.argmax() == c for p in chosen]) for c in range(3)])
    wanted = outputs / shares
    actual = np.array([mean[c] / found[c] if found[c] else 0.0 for c in range(3)])
    wanted, actual = wanted / wanted.sum(), actual / actual.sum()
    return float((wanted * np.log(actual + 1e-12)).sum())


def test_freematchs_thresholds_and_loss_are_their_formulas_over_several_steps() -> None:
    method = make_method("freematch", momentum=0.7, fairness=0.3)
    learner = learner_of(method)
    confidence, outputs, shares = 1 / 3, np.full(3, 1 / 3), np.full(3, 1 / 3)
    for step in range(4):
        batch = batch_of(seed=10 + step)
        weak, strong = batch.views[4:12].softmax(dim=1).numpy(), batch.views[12:]
        confidence = 0.7 * confidence + 0.3 * weak.max(axis=1).mean()
        outputs = 0.7 * outputs + 0.3 * weak.mean(axis=0)
        shares = 0.7 * shares + 0.3 * np.bincount(weak.argmax(axis=1), minlength=3) / 8
        counts = [bool(q.max() >= confidence * outputs[q.argmax()] / outputs.max()) for q in weak]
        losses = [
            float(functional.cross_entropy(strong[i], torch.tensor(weak[i].argmax()))) * counts[i] for i in range(8)
        ]
        expected = supervised(batch) + np.mean(losses) + 0.3 * freematch_fairness(strong, counts, outputs, shares)
        assert float(method.loss(learner, batch)) == pytest.approx(expected, rel=1e-4)
    assert float(learner.confidence) == pytest.approx(confidence, rel=1e-5)
    assert learner.outputs.numpy() == pytest.approx(outputs, rel=1e-5)


def test_fairness_is_zero_with_a_finite_gradient_where_no_guess_counts() -> None:
    strong = torch.randn(5, 3, requires_grad=True)
    loss = fairness(strong, torch.zeros(5), torch.full((3,), 1 / 3), torch.tensor([0.5, 0.5, 0.0]))
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert bool(torch.isfinite(strong.grad).all())


def test_mixmatchs_loss_is_its_formula() -> None:
    method = make_method("mixmatch", unlabeled_weight=5.0, temperature=0.5)
    generator = torch.Generator().manual_seed(5)
    views = 2 * torch.randn(4 + 8 + 8, 3, generator=generator)
    partners, weights = torch.randperm(20, generator=generator), 0.5 + 0.5 * torch.rand(20, generator=generator)
    draws = {"partners": partners, "mix_weights": weights, "ramp": torch.tensor(0.4)}
    batch = batch_of(seed=5, views=views, draws=draws)
    targets = [functional.one_hot(batch.tables[TARGETS][i], 3).float() for i in range(4)]
    guesses = []
    for i in range(8):
        mean = (views[4 + i].softmax(dim=0) + views[12 + i].softmax(dim=0)) / 2
        guesses.append(mean**2 / (mean**2).sum())
    targets += guesses + guesses
    labeled, unlabeled = [], []
    for i in range(20):
        j, weight = int(partners[i]), weights[i]
        logits = weight * views[i] + (1 - weight) * views[j]
        target = weight * targets[i] + (1 - weight) * targets[j]
        if i < 4:
            labeled.append(cross_entropy(logits, target))
        else:
            unlabeled.append(float(((logits.softmax(dim=0) - target) ** 2).mean()))
    expected = np.mean(labeled) + 5.0 * 0.4 * np.mean(unlabeled)
    assert float(method.loss(learner_of(method), batch)) == pytest.approx(expected, rel=1e-5)


def test_mixmatchs_draws_are_weights_above_a_half_permutations_and_a_ramp_in_a_line() -> None:
    method = make_method("mixmatch", ramp_up=0.5)
    plan = method.plan_epoch(0, 0, learner=learner_of(method), inputs=torch.zeros(60, 1, 8, 8))
    numbers = method.draw_numbers(plan, 0, 6, 12)
    assert numbers["mix_weights"].shape == (6, 4 + 2 * 8)
    assert numbers["mix_weights"].min() >= 0.5
    assert all(sorted(row) == list(range(20)) for row in numbers["partners"])
    assert numbers["ramp"].tolist() == pytest.approx([min(1.0, t / 4.5) for t in range(6)])
    assert make_method("mixmatch", ramp_up=0.0).draw_numbers(plan, 0, 2, 12)["ramp"].tolist() == [1.0, 1.0]


def test_interleaved_batches_are_normalized_apart_and_the_first_alone_is_remembered() -> None:
    network, alone = (build_model("small-cnn", n_classes=3, in_channels=1, seed=3).train() for _ in range(2))
    images = torch.randn(20, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    logits = interleaved(network, images, 3)
    first = alone(images[0::3])
    assert torch.allclose(logits[0::3], first, atol=1e-6)
    kept = dict(network.named_buffers())
    assert all(torch.equal(kept[name], value) for name, value in alone.named_buffers())
    assert torch.allclose(logits[2::3], alone(images[2::3]), atol=1e-6)


@pytest.mark.parametrize(
    "name", ["mixmatch", "uda", "freematch", "flexmatch", "softmatch", "adamatch", "simmatch", "pl-mixup"]
)
def test_the_network_that_is_judged_follows_the_trained_one(name: str) -> None:
    method = make_method(name, train=replace(TRAIN, steps=2))
    network = build_model("small-cnn", n_classes=3, in_channels=1, seed=0)
    run = Run.of(method, network, small_pictures().images, Execution(torch.device("cpu")))
    before = run.network.head.weight.detach().clone()
    for _ in train(run):
        pass
    assert not torch.equal(run.network.head.weight, before)


@pytest.mark.parametrize("temperature", [0.5, 0.02])  # 1/3 to the power 50 is 10^-24
def test_mixmatchs_guesses_sum_to_one_and_leave_no_trace_in_batch_statistics(temperature: float) -> None:
    method = make_method("mixmatch", temperature=temperature)
    network = build_model("small-cnn", n_classes=3, in_channels=1).train()
    before = {name: value.clone() for name, value in network.named_buffers()}
    guesses = method.guess(network, torch.randn(16, 1, 8, 8))
    assert guesses.sum(dim=1).tolist() == pytest.approx([1.0] * 8)
    assert all(torch.equal(before[name], value) for name, value in network.named_buffers())


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("mixmatch", "n_guesses", 0),
        ("mixmatch", "alpha", 0.0),
        ("mixmatch", "temperature", float("inf")),
        ("mixmatch", "unlabeled_weight", -1.0),
        ("mixmatch", "ramp_up", 1.5),
        ("uda", "threshold", -0.1),
        ("uda", "threshold", 1.0),
        ("uda", "temperature", 0.0),
        ("uda", "signal_annealing", "square"),
        ("freematch", "momentum", 1.0),
        ("freematch", "fairness", float("nan")),
        ("freematch", "ema_decay", 1.0),
    ],
)
def test_nonsense_in_these_methods_settings_is_refused(name: str, field: str, value: Any) -> None:
    with pytest.raises(InputError, match=rf"method\.{field} = "):
        config_class(name)(**{field: value})
