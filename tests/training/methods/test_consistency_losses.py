"""Losses and gradients of the consistency methods against their formulas, one image at a time."""

from dataclasses import replace

import pytest
import torch
from references_losses import (
    BATCH,
    N_LABELED,
    C,
    assert_same,
    cross_entropy,
    labeled_mean,
    mean_squares,
    random_batch,
    small_learner,
    small_method,
    soft,
    sum_of,
)
from torch import Tensor

from laplacenet.models import ModelConfig, build_network
from laplacenet.runtime import InputError
from laplacenet.training import config_class
from laplacenet.training.methods.base import SEMI_SUPERVISED

UNLABELED = range(N_LABELED, BATCH)


@pytest.mark.parametrize("seed", range(3))
def test_the_pi_models_loss_is_its_formula_with_gradients_through_both_views(seed: int) -> None:
    method = small_method("pi-model")
    learner, batch = small_learner(method), random_batch(2, seed, consistency=2.5)
    a, b = learner(batch.views[:BATCH]), learner(batch.views[BATCH:])
    assert_same(method, learner, batch, labeled_mean(a, batch) + 2.5 * mean_squares(a, b))


def test_consistency_counts_nothing_in_the_first_epoch_of_the_pi_model() -> None:
    method = small_method("pi-model", consistency=7.0, ramp_up=0.0)
    for index, weight in ((0, 0.0), (1, 7.0)):
        plan = method.plan_epoch(index, 0, learner=small_learner(method), inputs=torch.randn(30, 5))
        assert method.draw_numbers(plan, 0, 2, BATCH)["consistency"].tolist() == [weight, weight]


@pytest.mark.parametrize("seed", range(3))
def test_temporal_ensemblings_loss_is_its_formula(seed: int) -> None:
    method = small_method("temporal-ensembling")
    target = torch.rand(BATCH, C, generator=torch.Generator().manual_seed(seed + 50))
    has_target = (torch.arange(BATCH) % 3 > 0).float()
    tables = {"ensembled": target, "has_target": has_target}
    learner, batch = small_learner(method), random_batch(1, seed, tables=tables, consistency=2.5)
    logits = learner.network(batch.views)
    squares = sum_of(has_target[i] * ((soft(logits[i]) - target[i]) ** 2).sum() for i in range(BATCH))
    assert_same(method, learner, batch, labeled_mean(logits, batch) + 2.5 * squares / (BATCH * C))


@pytest.mark.parametrize("over", ["labeled", "batch"])
@pytest.mark.parametrize("name", ["mean-teacher", "fast-swa"])
def test_mean_teachers_loss_is_its_formula_without_gradient_through_the_teacher(name: str, over: str) -> None:
    method = small_method(name, labeled_loss_over=over, n_heads=1)
    learner, batch = small_learner(method), random_batch(2, consistency=2.5)
    pair = getattr(learner, "pair", learner)
    a, b = pair.student(batch.views[:BATCH]), pair.teacher(batch.views[BATCH:]).detach()
    share = 1 if over == "labeled" else N_LABELED / BATCH
    assert_same(method, learner, batch, share * labeled_mean(a, batch) + 2.5 * mean_squares(a, b))


@pytest.mark.parametrize(
    ("name", "settings", "share"),
    [("mean-teacher", {"n_heads": 2}, 1), ("fast-swa", {}, N_LABELED / BATCH)],  # what the authors of fast-SWA have
)
def test_with_two_heads_the_second_agrees_with_the_teacher_and_stays_near_the_first(
    name: str, settings: dict[str, int], share: float
) -> None:
    method = small_method(name, head_distance=0.3, **settings)
    learner, batch = small_learner(method), random_batch(2, consistency=2.5)
    pair = getattr(learner, "pair", learner)
    z = pair.student.embed(batch.views[:BATCH])
    g, h = pair.student.head(z), pair.second_head(z)
    target = pair.teacher(batch.views[BATCH:]).detach()
    distance = sum_of(((g[i] - h[i]) ** 2).sum() for i in range(BATCH)) / (C * BATCH)
    total = share * labeled_mean(g, batch) + 2.5 * mean_squares(h, target) + 0.3 * distance
    assert_same(method, learner, batch, total)


@pytest.mark.parametrize("seed", range(3))
def test_icts_loss_is_its_formula(seed: int) -> None:
    method = small_method("ict")
    learner = small_learner(method)
    generator = torch.Generator().manual_seed(seed)
    j, k = torch.randperm(N_LABELED, generator=generator), torch.randperm(BATCH - N_LABELED, generator=generator)
    numbers = {"labeled_partners": j, "labeled_mix": 0.3, "partners": k, "mix": 0.8}
    batch = random_batch(1, seed, consistency=2.5, **numbers)
    x, u, y = batch.views[:N_LABELED], batch.views[N_LABELED:], batch.tables["targets"]
    supervised, agreement = torch.zeros(()), torch.zeros(())
    for i in range(N_LABELED):
        logits = learner.student(0.3 * x[i : i + 1] + 0.7 * x[j[i]][None])[0]
        supervised = supervised + 0.3 * cross_entropy(logits, y[i]) + 0.7 * cross_entropy(logits, y[j[i]])
    teacher = learner.teacher(u).detach()
    for i in range(len(u)):
        mixed = learner.student(0.8 * u[i : i + 1] + 0.2 * u[k[i]][None])[0]
        agreement = agreement + ((soft(mixed) - soft(0.8 * teacher[i] + 0.2 * teacher[k[i]])) ** 2).sum()
    assert_same(method, learner, batch, supervised / N_LABELED + 2.5 * agreement / (C * len(u)))


def is_stable(p: Tensor, q: Tensor, threshold: float) -> bool:
    return int(p.argmax()) == int(q.argmax()) and (float(p.max()) > threshold or float(q.max()) > threshold)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("threshold", "over", "n_heads"), [(0.0, "labeled", 1), (0.4, "batch", 1), (0.5, "labeled", 2), (0.0, "batch", 2)]
)
def test_dual_students_loss_is_its_formula(seed: int, threshold: float, over: str, n_heads: int) -> None:
    settings = {"labeled_loss_over": over, "n_heads": n_heads, "head_distance": 0.3}
    method = small_method("dual-student", threshold=threshold, **settings)
    learner, batch = small_learner(method), random_batch(2, seed, consistency=2.5, stabilization=7.0)
    views = [batch.views[:BATCH], batch.views[BATCH:]]
    students = [learner.first, learner.second]
    own = [students[0](views[0]), students[1](views[1])]
    agreeing = own
    if n_heads == 2:
        agreeing = [learner.second_heads[i](students[i].embed(views[i])) for i in (0, 1)]
    again = [students[0](views[1]).detach(), students[1](views[0]).detach()]
    share = 1 if over == "labeled" else N_LABELED / BATCH
    total = share * (labeled_mean(own[0], batch) + labeled_mean(own[1], batch))
    total = total + 2.5 * (mean_squares(agreeing[0], again[0]) + mean_squares(agreeing[1], again[1]))
    for g, h in zip(own, agreeing, strict=True):
        total = total + 0.3 * sum_of(((g[s] - h[s]) ** 2).sum() for s in range(BATCH)) / (C * BATCH)
    n_learned = 0
    for s in UNLABELED:
        stable = [is_stable(soft(own[i][s]).detach(), soft(again[i][s]), threshold) for i in (0, 1)]
        unrest = [float(((soft(agreeing[i][s]).detach() - soft(again[i][s])) ** 2).sum()) for i in (0, 1)]
        for i, j in ((0, 1), (1, 0)):
            if stable[j] and (not stable[i] or unrest[j] <= unrest[i]):
                n_learned += 1
                total = total + 7.0 * ((soft(agreeing[i][s]) - soft(own[j][s]).detach()) ** 2).sum() / (C * BATCH)
    assert n_learned or threshold > 0
    assert_same(method, learner, batch, total)


def test_the_second_student_has_weights_of_its_own() -> None:
    learner = small_learner(small_method("dual-student"))
    pairs = zip(learner.first.parameters(), learner.second.parameters(), strict=True)
    assert not any(torch.equal(one, other) for one, other in pairs)
    assert not torch.equal(learner.second_heads[0].weight, learner.second_heads[1].weight)


def test_a_pretrained_second_student_keeps_its_body() -> None:
    network = build_network(ModelConfig("small-cnn"), n_classes=C, in_channels=1)
    network.is_pretrained = True
    learner = small_method("dual-student").learner(network)
    pairs = list(zip(learner.first.body.parameters(), learner.second.body.parameters(), strict=True))
    assert all(torch.equal(one, other) and one is not other for one, other in pairs)
    assert not torch.equal(learner.first.head.weight, learner.second.head.weight)


@pytest.mark.parametrize("base", ["pi-model", "temporal-ensembling"])
@pytest.mark.parametrize("seed", range(3))
def test_sntgs_loss_is_its_formula(base: str, seed: int) -> None:
    method = small_method("sntg", base=base, neighbor_weight=0.4, margin=1.0)
    generator = torch.Generator().manual_seed(seed)
    pairs, ensembled = torch.randperm(BATCH, generator=generator), torch.rand(BATCH, C, generator=generator)
    has_target = torch.ones(BATCH)
    has_target[5:7] = 0
    tables = {"ensembled": ensembled, "has_target": has_target} if base == "temporal-ensembling" else {}
    n_views = 2 if base == "pi-model" else 1
    learner, batch = small_learner(method), random_batch(n_views, seed, tables=tables, consistency=2.5, pairs=pairs)
    z = learner.student.embed(batch.views[:BATCH])
    logits = learner.student.head(z)
    if base == "pi-model":
        other = learner.student(batch.views[BATCH:])
        agreement, guesses = mean_squares(logits, other), other.argmax(dim=1).tolist()
    else:
        squares = sum_of(has_target[i] * ((soft(logits[i]) - ensembled[i]) ** 2).sum() for i in range(BATCH))
        agreement = squares / (BATCH * C)
        guesses = [int(ensembled[i].argmax()) if has_target[i] else None for i in range(BATCH)]
    labels = [*batch.tables["targets"][:N_LABELED].tolist(), *guesses[N_LABELED:]]
    contrast = torch.zeros(())
    for i in range(BATCH // 2):
        one, two = int(pairs[i]), int(pairs[i + BATCH // 2])
        square = ((z[one] - z[two]) ** 2).mean()
        if labels[one] is not None and labels[two] is not None:
            contrast = contrast + (square if labels[one] == labels[two] else max(1 - square.sqrt(), 0 * square) ** 2)
    reference = labeled_mean(logits, batch) + 2.5 * (agreement + 0.4 * contrast / (BATCH // 2))
    assert_same(method, learner, batch, reference)


@pytest.mark.parametrize("base", ["pi-model", "temporal-ensembling"])
def test_sntgs_margin_can_be_reached_on_its_13_cnn(base: str) -> None:
    """Every pair has two classes. Larger features move them apart beyond the margin; of length 1 they could not be."""
    given = torch.arange(BATCH) % 2
    pairs = torch.cat([torch.nonzero(given == c).flatten() for c in (0, 1)])
    tables = {"targets": given, "ensembled": torch.full((BATCH, C), 1 / C), "has_target": torch.ones(BATCH)}
    n_views = 2 if base == "pi-model" else 1
    flat = random_batch(n_views, tables=tables, consistency=2.5, pairs=pairs)
    images = torch.randn(n_views * BATCH, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    losses = {}
    for scale in (0.01, 1000.0):
        model = ModelConfig("13-cnn", unit_length=config_class("sntg").unit_length)
        network = build_network(model, n_classes=C).train()
        *_, last_norm = (part for part in network.modules() if isinstance(part, torch.nn.BatchNorm2d))
        torch.nn.init.constant_(last_norm.weight, scale)
        for weight in (0.0, 0.4):
            method = small_method("sntg", base=base, neighbor_weight=weight)
            loss = method.loss(method.learner(network), replace(flat, views=images))
            losses[scale, weight] = float(loss.detach())
    assert losses[1000.0, 0.4] == losses[1000.0, 0.0]
    assert losses[0.01, 0.4] == pytest.approx(losses[0.01, 0.0] + 2.5 * 0.4 * 1.0, rel=0.05)


@pytest.mark.parametrize("seed", range(3))
def test_tssdls_loss_is_its_formula(seed: int) -> None:
    method = small_method("tssdl", feature_weight=0.2, margin=1.0)
    generator = torch.Generator().manual_seed(seed)
    labels, r = torch.randint(0, C, (BATCH,), generator=generator), torch.rand(BATCH, generator=generator)
    tables = {"targets": labels, "weights": r}
    learner, batch = small_learner(method), random_batch(2, seed, tables=tables, consistency=2.5)
    z, other = learner.embed(batch.views[:BATCH]), learner(batch.views[BATCH:])
    logits = learner.head(z)
    total = sum_of(r[i] * cross_entropy(logits[i], labels[i]) for i in range(BATCH)) / BATCH
    features = torch.zeros(())
    for i in range(BATCH):
        for j in range(i + 1, BATCH):
            square = ((z[i] / z[i].norm() - z[j] / z[j].norm()) ** 2).sum()
            features = features + r[i] * r[j] * (square if labels[i] == labels[j] else max(1 - square, 0 * square))
    total = total + 0.2 * features / (BATCH * (BATCH - 1) / 2) + 2.5 * mean_squares(logits, other)
    assert_same(method, learner, batch, total)


@pytest.mark.parametrize(("name", "n_views"), [("lp", 1), ("dag", 2)])
def test_the_loss_on_an_epochs_labels_is_a_weighted_mean_over_the_batch(name: str, n_views: int) -> None:
    method = small_method(name)
    labels, weights = torch.arange(BATCH) % C, torch.linspace(0, 2, BATCH)
    learner = small_learner(method)
    batch = random_batch(n_views, tables={"targets": labels, "weights": weights})
    logits = learner(batch.views)
    indices = range(n_views * BATCH)
    total = sum_of(weights[i % BATCH] * cross_entropy(logits[i], labels[i % BATCH]) for i in indices)
    assert_same(method, learner, batch, total / (n_views * BATCH))


def test_mt_lp_weights_the_labels_of_the_epoch_and_agrees_with_the_teacher() -> None:
    method = small_method("mt-lp", head_distance=0.3)
    labels, weights = torch.arange(BATCH) % C, torch.linspace(0, 2, BATCH)
    learner = small_learner(method)
    batch = random_batch(2, tables={"targets": labels, "weights": weights}, consistency=2.5)
    z = learner.student.embed(batch.views[:BATCH])
    g, h = learner.student.head(z), learner.second_head(z)
    target = learner.teacher(batch.views[BATCH:]).detach()
    total = sum_of(weights[i] * cross_entropy(g[i], labels[i]) for i in range(BATCH)) / BATCH
    distance = sum_of(((g[i] - h[i]) ** 2).sum() for i in range(BATCH)) / (C * BATCH)
    assert_same(method, learner, batch, total + 2.5 * mean_squares(h, target) + 0.3 * distance)


def test_vectors_without_noise_are_remarked_on() -> None:
    assert "method.noise" in small_method("pi-model").notes()[0]
    assert small_method("pi-model", noise=0.1).notes() == []


def test_noise_is_added_to_every_view_and_differs_by_step() -> None:
    method = small_method("mean-teacher", noise=0.5)
    plan = method.plan_epoch(0, 0, learner=small_learner(method), inputs=torch.randn(30, 5))
    assert plan.phase == SEMI_SUPERVISED
    first, second = method.draw_numbers(plan, 0, 2, BATCH)["noise_seed"]
    clean = random_batch(2)
    noises = [method.noisy_views(random_batch(2, noise_seed=seed)) - clean.views for seed in (first, first, second)]
    assert torch.equal(noises[0], noises[1])
    assert not torch.equal(noises[0], noises[2])
    assert 0.3 < float(noises[0].std()) < 0.7


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("pi-model", "strength", "medium"),
        ("pi-model", "noise", -1.0),
        ("pi-model", "consistency", float("inf")),
        ("temporal-ensembling", "output_decay", 1.0),
        ("mean-teacher", "n_heads", 3),
        ("mean-teacher", "head_distance", float("nan")),
        ("mean-teacher", "labeled_loss_over", "all"),
        ("vat", "radius", -8.0),
        ("vat", "probe", 0.0),
        ("vat", "n_power_iterations", -1),
        ("lp", "first_stage", 1.0),
        ("mt-lp", "labeled_loss_over", "labeled"),
        ("mt-lp", "first_stage", -0.5),
        ("sntg", "base", "vat"),
        ("sntg", "margin", -1.0),
        ("fast-swa", "cycle", 0.5),
        ("fast-swa", "average_every", 0),
        ("fast-swa", "n_cycles", -1),
        ("ict", "mix_alpha", -1.0),
        ("ict", "ema_decay", 1.0),
        ("dual-student", "threshold", 1.5),
        ("dual-student", "stabilization", -1.0),
        ("dual-student", "labeled_loss_over", "all"),
        ("dual-student", "n_heads", 3),
        ("dual-student", "head_distance", -0.01),
        ("laplacenet", "label_temperature", -0.1),
        ("laplacenet", "label_temperature", float("nan")),
        ("laplacenet", "n_labeled_views", -1),
        ("laplacenet", "n_labeled_views", 4),
        ("laplacenet", "n_labeled_views", 1),  # with MixUp
        ("laplacenet", "cutmix_share", -0.1),
        ("supervised", "cutmix_share", 1.1),
        ("tssdl", "n_neighbors", 0),
        ("dag", "temperature", 0.0),
    ],
)
def test_settings_that_make_no_sense_for_the_method_are_refused(name: str, field: str, value: object) -> None:
    with pytest.raises(InputError, match=rf"method\.{field} = .*; it must "):
        config_class(name)(**{field: value})
