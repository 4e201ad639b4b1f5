"""Ensembled outputs, teachers and stochastic weight averages against closed forms; whose batch statistics move."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from references_losses import BATCH, N_LABELED, TRAIN, C, N, random_batch, small_learner, small_method
from torch import Tensor, nn

from laplacenet.augment import AugmentConfig
from laplacenet.data import ImageSet
from laplacenet.models import Inference, Network, build_model
from laplacenet.training import Batch, ImageViews
from laplacenet.training.averages import StudentAndTeacher, move_toward, recompute_statistics, take_plain_statistics
from laplacenet.training.methods.temporal_ensembling import OutputEnsemble


def test_ensembled_outputs_are_the_closed_form_of_the_epochs_that_showed_the_image() -> None:
    decay, ensemble = 0.6, OutputEnsemble(4, 2)
    seen: dict[int, list[Tensor]] = {row: [] for row in range(4)}
    generator = torch.Generator().manual_seed(0)
    for rows in ([0, 1, 2], [0, 2], [1, 0], [0, 1]):
        for row in rows:
            output = torch.rand(1, 2, generator=generator)
            ensemble.remember(torch.tensor([row]), torch.zeros(1, 2))  # what comes later in the epoch replaces it
            ensemble.remember(torch.tensor([row]), output)
            seen[row].append(output[0])
        ensemble.end_epoch(decay)
    tables = ensemble.tables(decay)
    assert tables["has_target"].tolist() == [1, 1, 1, 0]
    assert tables["ensembled"][3].tolist() == [0, 0]
    for row in range(3):
        t = len(seen[row])
        weights = [(1 - decay) * decay ** (t - 1 - k) / (1 - decay**t) for k in range(t)]
        expected = sum(weight * output for weight, output in zip(weights, seen[row], strict=True))
        torch.testing.assert_close(tables["ensembled"][row], expected)


@pytest.mark.parametrize(("name", "settings"), [("temporal-ensembling", {}), ("sntg", {"base": "temporal-ensembling"})])
def test_a_step_remembers_the_outputs_of_its_rows(name: str, settings: dict[str, Any]) -> None:
    method = small_method(name, **settings)
    learner = small_learner(method)
    tables = {"ensembled": torch.zeros(BATCH, C), "has_target": torch.zeros(BATCH)}
    batch = random_batch(1, tables=tables, consistency=1.0, pairs=torch.arange(BATCH))
    network = learner.network if name == "temporal-ensembling" else learner.student
    method.loss(learner, batch)
    plan = method.plan_epoch(1, 3, learner=learner, inputs=torch.randn(N, 5))
    torch.testing.assert_close(plan.tables["ensembled"][batch.rows], network(batch.views).detach().softmax(dim=1))
    assert set(torch.nonzero(plan.tables["has_target"]).flatten().tolist()) == set(batch.rows.tolist())


@pytest.mark.parametrize("statistics", ["average", "copy", "own"])
def test_a_teacher_is_an_average_of_weights_and_has_the_statistics_it_should(statistics: Any) -> None:
    learner = StudentAndTeacher(build_model("small-cnn", n_classes=2, in_channels=1))
    norm, teacher_norm = learner.student.body[1], learner.teacher.body[1]
    weight = mean = 0.0
    for n, value in enumerate([1.0, 2.0, 4.0, 8.0]):
        nn.init.constant_(learner.student.head.bias, value)
        norm.running_mean.fill_(10 * value)
        teacher_norm.running_mean.fill_(-1.0 if statistics == "own" else float(teacher_norm.running_mean[0]))
        learner.average(0.6, statistics=statistics)
        decay = min(n / (n + 1), 0.6)
        weight, mean = decay * weight + (1 - decay) * value, decay * mean + (1 - decay) * 10 * value
    assert learner.teacher.head.bias.tolist() == pytest.approx([weight] * 2)
    expected = {"average": mean, "copy": 80.0, "own": -1.0}[statistics]
    assert teacher_norm.running_mean.tolist() == pytest.approx([expected] * 32)
    learner.restart()
    theirs = learner.student.state_dict()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in learner.teacher.state_dict().items())
    assert float(learner.n_updates) == 0


def test_a_share_of_zero_leaves_and_of_one_copies_exactly() -> None:
    average, network = (build_model("small-cnn", n_classes=2, in_channels=1, seed=seed) for seed in (0, 1))
    before = {name: tensor.clone() for name, tensor in average.state_dict().items()}
    move_toward(average, network, torch.tensor(0.0))
    assert all(torch.equal(tensor, before[name]) for name, tensor in average.state_dict().items())
    move_toward(average, network, torch.tensor(1.0))
    theirs = network.state_dict()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in average.state_dict().items())


def test_recomputed_statistics_are_the_plain_mean_over_the_batches() -> None:
    network = nn.Sequential(nn.BatchNorm2d(3)).eval()
    batches = [5 + 2 * torch.randn(8, 3, 4, 4) for _ in range(5)]
    recompute_statistics(network, batches)
    means = torch.stack([batch.mean(dim=(0, 2, 3)) for batch in batches])
    variances = torch.stack([batch.transpose(0, 1).flatten(1).var(dim=1) for batch in batches])
    torch.testing.assert_close(network[0].running_mean, means.mean(dim=0))
    torch.testing.assert_close(network[0].running_var, variances.mean(dim=0))
    assert network[0].momentum == 0.1
    assert not network.training


def first_layer_statistics(network: Network, images: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of the first convolution's outputs, over all images at once."""
    outputs = network.body[0](images / 255).detach()
    return outputs.mean(dim=(0, 2, 3)), outputs.transpose(0, 1).flatten(1).var(dim=1)


def take_statistics(network: Network, images: Tensor, at_least: int = 40) -> None:
    take_plain_statistics(Inference(network, lambda chunk: chunk / 255), images, at_least=at_least)


def test_plain_statistics_are_those_of_inputs_evenly_spread_over_all() -> None:
    """4 000 of 10 000 in passes of 250; pixels of 200, which only the others have, are part of no statistic."""
    network = build_model("small-cnn", n_classes=2, in_channels=1).eval()
    images = torch.full((10_000, 1, 8, 8), 200, dtype=torch.uint8)
    seen = torch.arange(4_000) * 10_000 // 4_000
    images[seen] = torch.randint(0, 100, (4_000, 1, 8, 8), dtype=torch.uint8)
    take_statistics(network, images)
    assert int(seen.max()) > 9_990
    mean, var = first_layer_statistics(network, images[seen])
    torch.testing.assert_close(network.body[1].running_mean, mean, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(network.body[1].running_var, var, rtol=1e-2, atol=1e-6)
    assert not network.training


def test_plain_statistics_of_large_pictures_come_from_passes_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass of `embed` may have two large pictures only; by such passes half of the variance would be missing."""
    monkeypatch.setattr("laplacenet.training.averages.chunk_size", lambda *_, **__: 2)
    network = build_model("small-cnn", n_classes=2, in_channels=1).eval()
    images = torch.arange(0, 240, 6, dtype=torch.uint8)[:, None, None, None].expand(40, 1, 16, 16)
    take_statistics(network, images)
    _, var = first_layer_statistics(network, images)
    torch.testing.assert_close(network.body[1].running_var, var, rtol=1e-3, atol=1e-6)


def test_no_pass_for_plain_statistics_has_a_single_input() -> None:
    network = build_model("patch-cnn", n_classes=2, in_channels=1)  # its last norm has one value per input
    take_statistics(network, torch.randint(0, 256, (3, 1, 400, 400), dtype=torch.uint8), at_least=1)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    take_statistics(network, torch.zeros(1, 1, 8, 8, dtype=torch.uint8))
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


def test_fast_swa_averages_the_student_at_the_ends_of_every_second_epoch() -> None:
    """An epoch has ⌊21/8⌋ = 2 steps; 40 steps are 20 epochs, and averaging begins with 0.4·40 = step 16, epoch 8."""
    method = small_method("fast-swa", n_cycles=2, cycle=0.2, average_every=2)
    learner = small_learner(method)
    taken: list[Tensor] = []
    student, average = learner.pair.student.head.bias, learner.average.head.bias
    for index in range(20):
        plan = method.plan_epoch(index, 2 * index, learner=learner, inputs=torch.randn(N, 5))
        if index >= 8 and index % 2 == 0:
            taken.append(student.detach().clone())
        if taken:
            torch.testing.assert_close(average, torch.stack(taken).mean(dim=0))
        with torch.no_grad():
            student += torch.randn(C)
        numbers = method.draw_numbers(plan, plan.first_step, plan.n_steps, BATCH)
        draws = {name: torch.from_numpy(values)[0] for name, values in numbers.items()}
        method.after_step(learner, replace(random_batch(2), draws=draws))
        if not taken:
            assert torch.equal(average, student)
    assert len(taken) == 6
    assert method.judged(learner) is learner.average


def test_the_average_gets_batch_statistics_of_all_inputs() -> None:
    method = small_method("fast-swa", average_every=1)
    images = torch.randint(0, 256, (N, 1, 8, 8), dtype=torch.uint8)
    views = ImageViews(AugmentConfig(), ImageSet(images, torch.zeros(N, dtype=torch.int64), ("one",)).statistics, 8, 8)
    method = replace(method, problem=replace(method.problem, views=views))
    learner = method.learner(build_model("small-cnn", n_classes=C, in_channels=1))
    method.plan_epoch(method.first_averaged_epoch, 30, learner=learner, inputs=images)
    first = learner.average.body[0](views.plain(images)).detach()
    expected = torch.stack([piece.mean(dim=(0, 2, 3)) for piece in first.split(BATCH)]).mean(dim=0)
    torch.testing.assert_close(learner.average.body[1].running_mean, expected, rtol=1e-3, atol=1e-4)


def test_the_learning_rate_of_fast_swa_repeats_the_end_of_its_cosine() -> None:
    method = small_method("fast-swa", train=replace(TRAIN, steps=240, lr=0.1), n_cycles=2, cycle=30 / 240)
    rates = method.cyclic_rates(0, 240)
    cosine = [0.1 * 0.5 * (1 + math.cos(math.pi * epoch / 210)) for epoch in range(180)]
    np.testing.assert_allclose(rates, [*cosine, *cosine[150:], *cosine[150:]], rtol=1e-5)
    np.testing.assert_array_equal(method.cyclic_rates(100, 7), rates[100:107])


def image_batch(n_views: int, **draws: Any) -> Batch:
    flat = random_batch(n_views, **draws)
    images = torch.randn(n_views * BATCH, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    return replace(flat, views=images)


def passes_of(network: nn.Module) -> int:
    """How often the running statistics moved."""
    return int(network.body[1].num_batches_tracked)


def loss_of(name: str, batch: Batch, **settings: Any) -> Any:
    method = small_method(name, **settings)
    learner = method.learner(build_model("small-cnn", n_classes=C, in_channels=1)).train()
    method.loss(learner, batch).backward()
    return learner


def test_the_pi_models_second_pass_alone_moves_the_batch_statistics() -> None:
    batch = image_batch(2, consistency=1.0)
    network, other = loss_of("pi-model", batch), build_model("small-cnn", n_classes=C, in_channels=1)
    other(batch.views[BATCH:])
    assert torch.equal(network.body[1].running_mean, other.body[1].running_mean)
    assert passes_of(network) == 1


def test_student_and_teacher_each_move_their_own_batch_statistics_once() -> None:
    learner = loss_of("mean-teacher", image_batch(2, consistency=1.0))
    assert (passes_of(learner.student), passes_of(learner.teacher)) == (1, 1)
    assert not torch.equal(learner.student.body[1].running_mean, learner.teacher.body[1].running_mean)


def test_icts_teacher_sees_unmixed_unlabeled_images_and_its_student_two_mixtures() -> None:
    n_unlabeled = BATCH - N_LABELED
    partners = {"labeled_partners": torch.arange(N_LABELED), "partners": torch.arange(n_unlabeled)}
    batch = image_batch(1, consistency=1.0, labeled_mix=0.3, mix=0.3, **partners)
    learner, other = loss_of("ict", batch), build_model("small-cnn", n_classes=C, in_channels=1)
    other(batch.views[N_LABELED:])
    assert torch.equal(learner.teacher.body[1].running_mean, other.body[1].running_mean)
    assert (passes_of(learner.student), passes_of(learner.teacher)) == (2, 1)


def test_every_pass_of_dual_student_moves_batch_statistics() -> None:
    learner = loss_of("dual-student", image_batch(2, consistency=1.0, stabilization=1.0))
    assert (passes_of(learner.first), passes_of(learner.second)) == (2, 2)
