"""FlexMatch, SoftMatch, AdaMatch, SimMatch and PL-Mixup against their formulas, over several steps."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from references_methods import TRAIN, Fixed, batch_of, learner_of, make_method
from torch import Tensor
from torch.nn import functional

from laplacenet.models import build_model
from laplacenet.runtime import InputError
from laplacenet.runtime.decoding import decode
from laplacenet.training import Batch, config_class
from laplacenet.training.methods.base import TARGETS

STEPS = range(5)


def supervised(batch: Batch) -> float:
    return float(functional.cross_entropy(batch.views[:4], batch.tables[TARGETS][:4]))


def hard_losses(strong: Tensor, guesses: np.ndarray) -> np.ndarray:
    log_p = strong.log_softmax(dim=1).numpy()
    return np.array([-log_p[i, guess] for i, guess in enumerate(guesses)])


def test_flexmatchs_thresholds_follow_the_latest_confident_guess_for_each_image() -> None:
    method = make_method("flexmatch", threshold=0.7)
    learner = learner_of(method)
    unlabeled = [int(row) for row in method.problem.unlabeled]
    latest: dict[int, int] = {}
    learned = False
    for step in STEPS:
        batch = batch_of(seed=20 + step)
        rows = torch.tensor([*range(4), *(unlabeled[(5 * step + i) % 20] for i in range(8))])
        batch = Batch(batch.views, rows, 4, batch.tables, {})
        sigma = np.array([sum(guess == c for guess in latest.values()) for c in range(3)])
        beta = sigma / max(sigma.max(), len(unlabeled) - sigma.sum())
        weak = batch.views[4:12].softmax(dim=1).numpy()
        guesses, confidence = weak.argmax(axis=1), weak.max(axis=1)
        counts = confidence >= 0.7 * beta[guesses] / (2 - beta[guesses])
        expected = supervised(batch) + np.mean(hard_losses(batch.views[12:], guesses) * counts)
        assert float(method.loss(learner, batch)) == pytest.approx(expected, rel=1e-5)
        latest |= {int(rows[4 + i]): int(guesses[i]) for i in range(8) if confidence[i] >= 0.7}
        learned |= bool(beta.max() > 0)
    assert learned


def aligned(q: np.ndarray, wanted: np.ndarray, found: np.ndarray) -> np.ndarray:
    scaled = q * (wanted + 1e-6) / (found + 1e-6)
    return np.asarray(scaled / scaled.sum(axis=1, keepdims=True))


def test_softmatchs_weights_are_a_gaussian_of_averaged_mean_and_variance() -> None:
    method = make_method("softmatch", momentum=0.6, n_sigma=2.0, unlabeled_weight=0.5)
    learner = learner_of(method)
    mean, variance, outputs = 1 / 3, 1.0, np.zeros(3)
    for step in STEPS:
        batch = batch_of(seed=30 + step)
        q = batch.views[4:12].softmax(dim=1).numpy()
        outputs = q.mean(axis=0) if step == 0 else 0.6 * outputs + 0.4 * q.mean(axis=0)
        confidence = aligned(q, np.full(3, 1 / 3), outputs).max(axis=1)
        mean, variance = 0.6 * mean + 0.4 * confidence.mean(), 0.6 * variance + 0.4 * confidence.var(ddof=1)
        weights = [1.0 if a >= mean else np.exp(-((a - mean) ** 2) / (2 * variance / 4)) for a in confidence]
        expected = supervised(batch) + 0.5 * np.mean(hard_losses(batch.views[12:], q.argmax(axis=1)) * weights)
        assert float(method.loss(learner, batch)) == pytest.approx(expected, rel=1e-4)
        learner.n_updates += 1


def test_adamatchs_threshold_is_relative_and_guesses_are_aligned_to_labeled_outputs() -> None:
    method = make_method("adamatch", momentum=0.6, threshold=0.9)
    learner = learner_of(method)
    wanted, found = np.full(3, 1 / 3), np.zeros(3)  # as in USB: the labeled outputs' average begins uniform
    for step in STEPS:
        batch = batch_of(seed=40 + step)
        p, q = batch.views[:4].softmax(dim=1).numpy(), batch.views[4:12].softmax(dim=1).numpy()
        wanted = 0.6 * wanted + 0.4 * p.mean(axis=0)
        found = q.mean(axis=0) if step == 0 else 0.6 * found + 0.4 * q.mean(axis=0)
        guesses = aligned(q, wanted, found)
        counts = guesses.max(axis=1) >= 0.9 * p.max(axis=1).mean()
        expected = supervised(batch) + np.mean(hard_losses(batch.views[12:], guesses.argmax(axis=1)) * counts)
        assert float(method.loss(learner, batch)) == pytest.approx(expected, rel=1e-4)
        learner.n_updates += 1


def test_pl_mixups_loss_is_its_formula() -> None:
    method = make_method("pl-mixup", balance=0.8, entropy=0.4)
    generator = torch.Generator().manual_seed(6)
    logits, soft = torch.randn(12, 3, generator=generator), torch.rand(12, 3, generator=generator)
    soft = soft / soft.sum(dim=1, keepdim=True)
    partners, weight = torch.randperm(12, generator=generator), torch.tensor(0.3)
    draws = {"partners": partners, "mix_weight": weight}
    tables = {TARGETS: torch.zeros(12, dtype=torch.int64), "soft_labels": soft}
    batch = Batch(logits, torch.arange(12), 4, tables, draws)
    fit, entropy, p = [], [], []
    for i in range(12):
        mixed = 0.3 * logits[i] + 0.7 * logits[partners[i]]
        log_p = mixed.log_softmax(dim=0)
        fit.append(-float(0.3 * (soft[i] * log_p).sum() + 0.7 * (soft[partners[i]] * log_p).sum()))
        entropy.append(-float((log_p.exp() * log_p).sum()))
        p.append(log_p.exp().numpy())
    divergence = float(np.sum((1 / 3) * np.log((1 / 3) / np.mean(p, axis=0))))
    expected = np.mean(fit) + 0.8 * divergence + 0.4 * np.mean(entropy)
    assert float(method.loss(Fixed(), batch)) == pytest.approx(expected, rel=1e-5)


def test_pl_mixup_keeps_given_labels_and_softens_the_others() -> None:
    method = make_method("pl-mixup", supervised_passes=0)
    network = build_model("small-cnn", n_classes=3, in_channels=1).eval()
    inputs = torch.randint(0, 255, (60, 1, 8, 8), dtype=torch.uint8)
    plan = method.plan_epoch(0, 0, learner=network, inputs=inputs)
    labels, soft = method.problem.labels, plan.tables["soft_labels"]
    assert torch.equal(soft[labels >= 0], functional.one_hot(labels[labels >= 0], 3).float())
    with torch.no_grad():
        outputs = network.eval()(method.views.plain(inputs)).softmax(dim=1)
    assert torch.allclose(soft[labels < 0], outputs[labels < 0], atol=1e-5)


@pytest.mark.parametrize("bank_counts", [0.0, 1.0])
@pytest.mark.parametrize(("teacher", "bank_momentum"), [("student", 0.7), ("student", 0.0), ("average", 0.0)])
def test_simmatchs_loss_is_its_formula_and_its_bank_takes_the_new_vectors(
    teacher: str, bank_momentum: float, bank_counts: float
) -> None:
    settings = {"threshold": 0.4, "instance_weight": 0.7, "momentum": 0.6, "n_projected": 5}
    method: Any = make_method("simmatch", **settings, teacher=teacher, bank_momentum=bank_momentum)
    learner = taught_learner(method)
    labeled = torch.from_numpy(method.problem.labeled)
    generator = torch.Generator().manual_seed(7)
    d = learner.student.embedding_size
    z, weak_z = torch.randn(20, d, generator=generator), torch.randn(12, d, generator=generator)
    rows = torch.cat([labeled[[0, 3, 5, 5]], torch.from_numpy(method.problem.unlabeled[:8])])
    targets = method.problem.labels[rows]
    draws = {"bank_counts": torch.tensor(bank_counts)}
    batch = Batch(torch.zeros(20, 1, 8, 8), rows, 4, {TARGETS: targets}, draws)
    before = learner.bank.clone()
    with torch.no_grad():
        share = 0.1 * bank_counts
        expected = simmatch_loss(method, learner, z, weak_z, targets, bank_share=share)
        found = float(method.loss_of_embeddings(learner, batch, z, weak_z))
        assert found == pytest.approx(expected, rel=1e-4)
        projection = learner.projection if teacher == "student" else learner.mean_projection
        fresh = projection(weak_z[:4])
    for place, new in ((0, fresh[0]), (3, fresh[1]), (5, functional.normalize(fresh[2] + fresh[3], dim=0))):
        kept = bank_momentum * bank_counts  # until the bank counts, nothing of its random beginning stays
        vector = kept * before[place] + (1 - kept) * new
        assert torch.allclose(learner.bank[place], vector / vector.norm(), atol=1e-6)
    assert torch.equal(learner.bank[[1, 2, 4, 6, 7, 8]], before[[1, 2, 4, 6, 7, 8]])


def taught_learner(method: Any) -> Any:
    """SimMatch's, with averages that differ from what they are averages of."""
    learner = method.learner(build_model("small-cnn", n_classes=3, in_channels=1))
    learner.teacher.load_state_dict(build_model("small-cnn", n_classes=3, in_channels=1, seed=7).state_dict())
    torch.nn.init.normal_(learner.mean_projection[0].bias, generator=torch.Generator().manual_seed(3))
    return learner


def simmatch_loss(method: Any, learner: Any, z: Tensor, weak_z: Tensor, targets: Tensor, *, bank_share: float) -> float:
    """Without a share of the bank in the targets there is no instance loss either."""
    is_student = method.config.teacher == "student"
    head = (learner.student if is_student else learner.teacher).head
    projection = learner.projection if is_student else learner.mean_projection
    bank_labels = method.problem.labels[method.problem.labeled]
    logits = learner.student.head(z)
    guesses = head(weak_z[4:]).softmax(dim=1).numpy()
    guesses = aligned(guesses, np.full(3, 1 / 3), guesses.mean(axis=0))
    unlabeled, instances = [], []
    for i in range(8):
        similar = (learner.bank @ projection(weak_z[4 + i][None])[0] / 0.1).softmax(dim=0).numpy()
        corrected = np.array([similar[j] * guesses[i][bank_labels[j]] for j in range(9)])
        corrected /= corrected.sum()
        by_class = np.array([similar[bank_labels.numpy() == c].sum() for c in range(3)])
        q = (1 - bank_share) * guesses[i] + bank_share * by_class
        log_p = logits[12 + i].log_softmax(dim=0).numpy()
        unlabeled.append(-(q * log_p).sum() if q.max() >= 0.4 else 0.0)
        log_s = (learner.bank @ learner.projection(z[12 + i][None])[0] / 0.1).log_softmax(dim=0).numpy()
        instances.append(-(corrected * log_s).sum())
    assert sum(loss > 0 for loss in unlabeled) > 0
    instance_loss = 0.7 * np.mean(instances) if bank_share else 0.0
    return float(functional.cross_entropy(logits[:4], targets[:4]) + np.mean(unlabeled) + instance_loss)


@pytest.mark.parametrize("teacher", ["student", "average"])
def test_simmatchs_targets_come_from_weak_views_without_gradient(teacher: str) -> None:
    method: Any = make_method("simmatch", teacher=teacher, n_projected=5)
    learner = taught_learner(method).train()
    rows = torch.cat([torch.from_numpy(method.problem.labeled[:4]), torch.from_numpy(method.problem.unlabeled[:8])])
    views = torch.randn(20, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    draws = {"bank_counts": torch.tensor(1.0)}
    batch = Batch(views, rows, 4, {TARGETS: method.problem.labels[rows]}, draws)
    twin = copy.deepcopy(learner)
    loss = method.loss(learner, batch)
    z = twin.student.embed(views)
    weak_z = z[:12].detach() if teacher == "student" else twin.teacher.embed(views[:12]).detach()
    torch.testing.assert_close(loss, method.loss_of_embeddings(twin, batch, z, weak_z))
    assert not learner.bank.requires_grad
    expected = 0 if teacher == "student" else 1
    assert int(twin.teacher.body[1].num_batches_tracked) == expected
    assert int(learner.teacher.body[1].num_batches_tracked) == 0


def test_an_older_simmatch_run_has_the_average_as_its_teacher() -> None:
    older = {"name": "simmatch", "threshold": 0.9}
    found = decode(config_class("simmatch"), older, source="here")
    assert found == config_class("simmatch")(threshold=0.9, teacher="average", bank_momentum=0.0)


def test_simmatchs_bank_counts_once_it_holds_every_labeled_image_and_never_in_the_first_epoch() -> None:
    """Nine labeled images, four or one in a step; 51 unlabeled ones, eight or eleven in a step."""
    for labeled_batch_size, n_first in ((4, 6), (1, 9)):
        train = replace(TRAIN, steps=20, labeled_batch_size=labeled_batch_size)
        method: Any = make_method("simmatch", train)
        plan = method.plan_epoch(0, 0, learner=Fixed(), inputs=torch.zeros(60, 1, 8, 8))
        draws = method.draw(plan, 0, plan.n_steps).draws["bank_counts"].tolist()
        later = method.draw_numbers(plan, plan.n_steps, 20 - plan.n_steps, 12)["bank_counts"].tolist()
        assert [*draws, *later] == [float(step >= n_first) for step in range(20)]


def test_the_projection_begins_as_the_runs_seed_says() -> None:
    method: Any = make_method("simmatch")
    methods = [replace(method, problem=replace(method.problem, seed=seed)) for seed in (1, 1, 2)]
    learners: list[Any] = [one.learner(build_model("small-cnn", n_classes=3, in_channels=1)) for one in methods]
    for first, again, other in (
        [learner.projection[0].weight for learner in learners],
        [learner.bank for learner in learners],
    ):
        assert torch.equal(first, again)
        assert not torch.equal(first, other)


def test_the_projection_is_averaged_like_the_network() -> None:
    learner: Any = make_method("simmatch").learner(build_model("small-cnn", n_classes=3, in_channels=1))
    start = learner.projection[0].bias.detach().clone()
    mean = 0.0
    for n, value in enumerate([1.0, 3.0, 7.0]):
        torch.nn.init.constant_(learner.projection[0].bias, value)
        learner.average(0.6)
        decay = min(n / (n + 1), 0.6)
        mean = decay * mean + (1 - decay) * value
    assert learner.mean_projection[0].bias.tolist() == pytest.approx([mean] * len(start))


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("flexmatch", "threshold", 1.1),
        ("softmatch", "momentum", -0.1),
        ("softmatch", "n_sigma", 0.0),
        ("adamatch", "momentum", 1.0),
        ("adamatch", "threshold", float("nan")),
        ("simmatch", "temperature", 0.0),
        ("simmatch", "smoothing", 1.5),
        ("simmatch", "instance_weight", -1.0),
        ("simmatch", "n_projected", 0),
        ("simmatch", "teacher", "none"),
        ("simmatch", "bank_momentum", 1.0),
        ("pl-mixup", "balance", -0.1),
        ("pl-mixup", "entropy", float("inf")),
        ("pl-mixup", "class_weighting", True),
    ],
)
def test_thresholds_and_weights_that_make_no_sense_are_refused(name: str, field: str, value: Any) -> None:
    with pytest.raises(InputError, match=rf"method\.{field} = "):
        config_class(name)(**{field: value})
