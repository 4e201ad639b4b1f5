"""What a method can rely on: views of any kind, tables, draws, state beside the network, optimizers, resumption."""

import contextlib
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from references_runs import StopAfter
from references_training import bright_halves
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.augment import AugmentConfig
from laplacenet.data import ImageSet, balanced_split, hide_labels
from laplacenet.graph import GraphConfig
from laplacenet.models import Network, build_model, still_statistics
from laplacenet.runtime import InputError
from laplacenet.training import (
    METHODS,
    Batch,
    Execution,
    ImageViews,
    MethodConfig,
    Problem,
    Run,
    TrainConfig,
    config_class,
    load_checkpoint,
    method_class,
    save_checkpoint,
    train,
)
from laplacenet.training.averages import StudentAndTeacher
from laplacenet.training.method import EpochPlan
from laplacenet.training.methods.base import TARGETS, BaseMethod
from laplacenet.training.optimizers import adamw, optimizer_tensors, set_learning_rate, sgd
from laplacenet.training.schedule import sigmoid_ramp_up
from laplacenet.training.views import ViewGroup, groups_of_views

TRAIN = TrainConfig(steps=9, batch_size=12, labeled_batch_size=4, lr=0.05)
CPU = Execution(torch.device("cpu"))


@pytest.fixture(scope="module")
def pictures() -> ImageSet:
    return bright_halves(60)


def problem_of(pictures: ImageSet, labels: Tensor | None = None) -> Problem:
    if labels is None:
        labels = hide_labels(pictures.labels, balanced_split(pictures.labels, 9, seed=0))
    return Problem(labels, 3, ImageViews(AugmentConfig(flip=False), pictures.statistics, 8, 8), seed=1)


def run_with(method: BaseMethod, pictures: ImageSet) -> Run:
    return Run.of(method, build_model("small-cnn", n_classes=3, in_channels=1, seed=0), pictures.images, CPU)


def method_named(name: str, pictures: ImageSet, train: TrainConfig = TRAIN, labels: Tensor | None = None) -> BaseMethod:
    config = config_class(name)()
    return method_class(name)(problem_of(pictures, labels), train, config, GraphConfig(k=5))


def state_of(run: Run) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in run.learner.state_dict().items()}


def assert_same(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    assert [name for name in first if not torch.equal(first[name], second[name])] == []


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [*product(METHODS, ["sgd", "adamw"]), ("laplacenet", "muon"), ("dual-student", "muon")],  # one network, and two
)
def test_every_method_resumes_bit_for_bit_with_everything_it_keeps(
    pictures: ImageSet, tmp_path: Path, name: str, optimizer: str
) -> None:
    config = replace(TRAIN, optimizer=optimizer)
    whole = run_with(method_named(name, pictures, config), pictures)
    *_, _ = train(whole)
    position = None
    for n_steps in (2, 5, 100):
        run = run_with(method_named(name, pictures, config), pictures)
        if position is not None:
            position = load_checkpoint(tmp_path / "checkpoint", run.learner, identity={})
        *_, last = train(run, start=position, monitor=StopAfter(n_steps))
        position = last.position
        save_checkpoint(tmp_path / "checkpoint", run.learner, position, identity={})
    assert_same(state_of(run), state_of(whole))


@pytest.mark.parametrize("name", ["laplacenet", "fast-swa", "temporal-ensembling", "mt-lp"])
def test_a_run_stopped_while_an_epoch_is_prepared_resumes_bit_for_bit(
    pictures: ImageSet, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an epoch's plan changes, such as fast-SWA's average, must not be changed again."""
    config = replace(TRAIN, steps=90)  # fast-SWA takes its second student into the average
    whole, run = (run_with(method_named(name, pictures, config), pictures) for _ in range(2))
    n_epochs = len(list(train(whole)))
    monitor, plan_epoch = StopAfter(1000), type(run.method).plan_epoch

    def stopped(self: BaseMethod, *where: Any, **what: Any) -> EpochPlan:
        monitor.left = 0
        return plan_epoch(self, *where, **what)

    position = None
    for _ in range(n_epochs):
        monkeypatch.setattr(type(run.method), "plan_epoch", stopped)
        monitor.left = 1000
        *_, last = train(run, start=position, monitor=monitor)
        save_checkpoint(tmp_path / "checkpoint", run.learner, last.position, identity={})
        monkeypatch.undo()
        run = run_with(method_named(name, pictures, config), pictures)
        position = load_checkpoint(tmp_path / "checkpoint", run.learner, identity={})
        first = next(train(run, start=position))  # this epoch alone
        position = first.position
    assert_same(state_of(run), state_of(whole))


def test_cutmix_and_plain_statistics_resume_bit_for_bit(pictures: ImageSet, tmp_path: Path) -> None:
    method = method_named("laplacenet", pictures, replace(TRAIN, steps=13))
    settings = {"cutmix_share": 0.5, "plain_statistics": True, "ema_decay": 0.5, "supervised_passes": 1}
    method = replace(method, config=replace(method.config, **settings))
    whole, position = run_with(method, pictures), None
    *_, _ = train(whole)
    for n_steps in (3, 5, 100):
        run = run_with(method, pictures)
        if position is not None:
            position = load_checkpoint(tmp_path / "checkpoint", run.learner, identity={})
        *_, last = train(run, start=position, monitor=StopAfter(n_steps))
        position = last.position
        save_checkpoint(tmp_path / "checkpoint", run.learner, position, identity={})
    assert_same(state_of(run), state_of(whole))


class SidesSeen(nn.Module):
    """Notes the height of what the network is trained on; label passes and tests are not in training mode."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body, self.sides = body, list[int]()

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.sides.append(x.shape[2])
        return self.body(x)


@pytest.mark.parametrize(("share", "small_steps"), [(0.0, 0), (0.3, 7), (1.0, 13)])  # 7: the epochs of 6 begin at 1
def test_the_first_steps_see_smaller_pictures_and_resume_bit_for_bit(
    pictures: ImageSet, tmp_path: Path, share: float, small_steps: int
) -> None:
    config = replace(TRAIN, steps=13, small_share=share)
    method = method_named("laplacenet", pictures, config)
    method = replace(method, config=replace(method.config, supervised_passes=1, n_views=1))

    def fresh() -> Run:
        run = run_with(method, pictures)
        run.network.body = SidesSeen(run.network.body)
        return run

    whole, position, sides = fresh(), None, []
    *_, _ = train(whole)
    assert whole.network.body.sides == [6] * small_steps + [8] * (13 - small_steps)
    for n_steps in (3, 5, 100):
        run = fresh()
        if position is not None:
            position = load_checkpoint(tmp_path / "checkpoint", run.learner, identity={})
        *_, last = train(run, start=position, monitor=StopAfter(n_steps))
        position, sides = last.position, sides + run.network.body.sides
        save_checkpoint(tmp_path / "checkpoint", run.learner, position, identity={})
    assert sides == whole.network.body.sides
    assert_same(state_of(run), state_of(whole))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_trains_on_smaller_pictures(pictures: ImageSet, name: str) -> None:
    run = run_with(method_named(name, pictures, replace(TRAIN, steps=2, small_share=1.0)), pictures)
    *_, last = train(run)
    assert np.isfinite(last.loss)


@pytest.mark.parametrize("name", METHODS)
def test_what_is_judged_has_batch_statistics_even_where_every_image_is_labeled(pictures: ImageSet, name: str) -> None:
    run = run_with(method_named(name, pictures, replace(TRAIN, steps=3), labels=pictures.labels), pictures)
    *_, _ = train(run)
    norms = [module for module in run.network.modules() if isinstance(module, nn.BatchNorm2d)]
    assert norms
    assert all(norm.running_mean is not None and norm.running_mean.abs().max() > 0 for norm in norms)


@pytest.mark.parametrize("name", METHODS)
def test_one_labeled_image_a_step_is_trained_on_or_refused_in_one_line(pictures: ImageSet, name: str) -> None:
    method = method_named(name, pictures, replace(TRAIN, steps=3, labeled_batch_size=1))
    run = Run.of(method, build_model("patch-cnn", n_classes=3, in_channels=1, seed=0), pictures.images, CPU)
    with contextlib.suppress(InputError):
        *_, last = train(run)
        assert np.isfinite(last.loss)


def test_one_input_that_cannot_be_normalized_is_told_in_the_users_words(pictures: ImageSet) -> None:
    method = method_named("vat", pictures, replace(TRAIN, labeled_batch_size=1))
    run = Run.of(method, build_model("patch-cnn", n_classes=3, in_channels=1, seed=0), pictures.images, CPU)
    with pytest.raises(InputError, match=r"cannot be normalized; give train\.labeled_batch_size at least 2"):
        list(train(run))


@pytest.mark.parametrize("name", METHODS)
def test_hidden_labels_reach_no_method(pictures: ImageSet, name: str) -> None:
    given = hide_labels(pictures.labels, balanced_split(pictures.labels, 9, seed=0))
    honest = run_with(method_named(name, pictures, labels=given), pictures)
    garbage = torch.where(given >= 0, pictures.labels, (pictures.labels + 1) % 3)
    misled = hide_labels(garbage, balanced_split(pictures.labels, 9, seed=0))
    other = run_with(method_named(name, replace(pictures, labels=garbage), labels=misled), pictures)
    assert [epoch.loss for epoch in train(honest)] == [epoch.loss for epoch in train(other)]


@pytest.mark.parametrize("name", ["laplacenet", "fixmatch", "dag"])
def test_the_first_block_of_an_epoch_is_drawn_before_its_labels_and_once(
    pictures: ImageSet, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_config = replace(TRAIN, steps=26)
    method, drawn = method_named(name, pictures, train_config), []
    draw, plan_epoch = type(method).draw, type(method).plan_epoch

    def noted_draw(self: BaseMethod, plan: EpochPlan, first_step: int, n_steps: int) -> Any:
        drawn.append(f"draw {first_step}")
        return draw(self, plan, first_step, n_steps)

    def noted_plan(self: BaseMethod, index: int, first_step: int, **options: Any) -> EpochPlan:
        drawn.append(f"plan {first_step}")
        return plan_epoch(self, index, first_step, **options)

    monkeypatch.setattr(type(method), "draw", noted_draw)
    monkeypatch.setattr(type(method), "plan_epoch", noted_plan)
    epochs = list(train(run_with(method, pictures)))
    firsts = [epoch.step - epoch.n_steps for epoch in epochs]
    assert sorted(drawn) == sorted([f"{what} {first}" for what in ("draw", "plan") for first in firsts])
    late = [first for first in firsts if drawn.index(f"plan {first}") < drawn.index(f"draw {first}")]
    assert len(firsts) > 3
    is_after_supervision = [before.phase == "supervised" for before in epochs[:-1]]
    assert late == [0, *(first for first, is_so in zip(firsts[1:], is_after_supervision, strict=True) if is_so)]


@pytest.mark.parametrize("guess", ["none", "wrong"])
def test_a_block_that_was_drawn_ahead_changes_nothing(pictures: ImageSet, guess: str) -> None:
    method = method_named("laplacenet", pictures, replace(TRAIN, steps=26))

    class Guessing(type(method)):  # type: ignore[misc]
        def expected_after(self, plan: EpochPlan) -> EpochPlan | None:
            found = super().expected_after(plan)
            return None if guess == "none" or found is None else replace(found, order=found.order.flip(0))

    losses = []
    for kind in (type(method), Guessing):
        run = run_with(kind(method.problem, method.train, method.config, method.graph), pictures)
        losses.append([epoch.loss for epoch in train(run)])
    assert losses[0] == losses[1]


def test_averaged_weights_label_and_are_judged(pictures: ImageSet) -> None:
    method = method_named("laplacenet", pictures)
    method = replace(method, config=replace(method.config, ema_decay=0.5, supervised_passes=1))
    run = run_with(method, pictures)
    *_, last = train(run)
    assert last.inference.network is run.learner.teacher
    embedded = run.method.inference(run.learner).embed(pictures.images)
    assert torch.equal(embedded, last.inference.embed(pictures.images))
    assert not torch.equal(run.learner.teacher.head.weight, run.learner.student.head.weight)


@pytest.mark.parametrize("ema_decay", [0.0, 0.5])
@pytest.mark.parametrize("plain", [False, True])
def test_after_each_epoch_batch_statistics_are_those_of_unaugmented_images_if_asked(
    pictures: ImageSet, ema_decay: float, plain: bool
) -> None:
    """Of all 60 pictures, by the first layer's outputs, which no other statistics have a part in."""
    method = method_named("laplacenet", pictures)
    method = replace(method, config=replace(method.config, ema_decay=ema_decay, plain_statistics=plain))
    n_epochs = 0
    for epoch in train(run_with(method, pictures)):
        convolution, norm, *_ = epoch.inference.network.body
        outputs = convolution(method.views.plain(pictures.images)).detach()
        expected = torch.cat([outputs.mean(dim=(0, 2, 3)), outputs.transpose(0, 1).flatten(1).var(dim=1)])
        found = torch.cat([norm.running_mean, norm.running_var])
        assert torch.allclose(found, expected, rtol=1e-3, atol=1e-5) == plain
        n_epochs += 1
    assert n_epochs > 2


@pytest.mark.parametrize(("name", "settings"), [("laplacenet", {}), ("pl-mixup", {"balance": 0.0, "entropy": 0.0})])
def test_with_cutmix_some_steps_paste_and_the_others_mix(
    pictures: ImageSet, name: str, settings: dict[str, float]
) -> None:
    """The network's outputs are its inputs' pixels: the loss of each step, written out pixel by pixel."""
    method = method_named(name, pictures, replace(TRAIN, steps=400))
    method = replace(method, config=replace(method.config, cutmix_share=0.25, n_views=1, **settings))
    method = replace(method, problem=replace(method.problem, n_classes=64))
    plan = EpochPlan(3, "semi-supervised", 64, 64, torch.arange(60).repeat(9))
    block = method.draw(plan, 64, 64)
    network = nn.Flatten()
    n_pasted = 0
    for i in range(64):
        rows, _, draws = block.at(torch.tensor([i]))
        views = torch.randn(12, 1, 8, 8, generator=torch.Generator().manual_seed(i))
        targets = torch.arange(12) * 5
        top, bottom, left, right = draws["box"].tolist()
        is_pasted = bottom > top and right > left
        n_pasted += is_pasted
        mixed, kept = views.clone(), 0.0
        for y, x in product(range(8), range(8)):
            own = 1.0 if is_pasted else float(draws["mix_weight"])
            if top <= y < bottom and left <= x < right:
                own = 0.0
            mixed[:, :, y, x] = own * views[:, :, y, x] + (1 - own) * views[draws["partners"], :, y, x]
            kept += own / 64
        log_p = mixed.flatten(1).log_softmax(dim=1)
        own_loss, other_loss = (-log_p[range(12), t].mean() for t in (targets, targets[draws["partners"]]))
        found = method.loss(network, Batch(views, rows, 4, {TARGETS: targets}, draws))
        assert float(found) == pytest.approx(float(kept * own_loss + (1 - kept) * other_loss), rel=1e-4)
        assert not is_pasted or float(draws["mix_weight"]) == kept
    assert 8 <= n_pasted <= 26  # of 64, a quarter expected


@pytest.mark.parametrize(("passes", "n_steps"), [(0.5, 3), (1.0, 6), (2.0, 12), (2.5, 16)])
def test_labels_are_computed_anew_after_so_many_passes(pictures: ImageSet, passes: float, n_steps: int) -> None:
    method = method_named("laplacenet", pictures, replace(TRAIN, steps=60))
    method = replace(method, config=replace(method.config, epoch_passes=passes))
    run = run_with(method, pictures)
    plan = method.plan_epoch(5, 30, learner=run.learner.eval(), inputs=pictures.images)
    assert plan.n_steps == n_steps  # 51 unlabeled images, 8 a step
    unlabeled = method.draw(plan, 30, n_steps).rows[:, 4:].flatten()
    times_drawn = torch.bincount(unlabeled, minlength=60)[method.problem.unlabeled]
    assert int(times_drawn.max() - times_drawn.min()) <= 1
    passed = [set(drawn.tolist()) for drawn in unlabeled.split(51)]
    assert all(len(each) == 51 for each in passed[:-1])


@pytest.mark.parametrize("passes", [0.5, 1.0, 2.5])
def test_the_next_epochs_rows_are_foreseen(pictures: ImageSet, passes: float) -> None:
    method = method_named("laplacenet", pictures, replace(TRAIN, steps=60))
    method = replace(method, config=replace(method.config, epoch_passes=passes))
    learner = run_with(method, pictures).learner.eval()
    plan = method.plan_epoch(5, 30, learner=learner, inputs=pictures.images)
    after = method.plan_epoch(6, plan.end_step, learner=learner, inputs=pictures.images)
    expected = method.expected_after(plan)
    assert expected is not None
    assert after.draws_like(expected)
    assert not torch.equal(after.order, plan.order)


@dataclass(frozen=True)
class EverythingConfig(MethodConfig):
    name: str = "everything"


class WithMemory(nn.Module):
    """A network, a second one, and a table of n rows that the steps write."""

    seen: Tensor

    def __init__(self, network: Network, n: int) -> None:
        super().__init__()
        self.first, self.second = network, build_model("small-cnn", n_classes=3, in_channels=1, seed=7)
        self.register_buffer("seen", torch.zeros(n))


@dataclass(frozen=True, eq=False)
class Everything(BaseMethod):
    """One weak and three strong views of unlabeled images, soft targets in a table, a ramp, two networks, a memory."""

    config: EverythingConfig

    def learner(self, network: Network) -> nn.Module:
        return WithMemory(network, len(self.problem.labels))

    def judged(self, learner: Any) -> Network:
        return learner.second

    def optimizer(self, learner: Any) -> torch.optim.Optimizer:
        groups = [
            {"params": list(learner.first.parameters())},
            {"params": list(learner.second.parameters()), "lr_scale": 0.1, "weight_decay": 0.0},
        ]
        return adamw(learner, self.train, groups=groups)

    def plan_epoch(self, index: int, first_step: int, *, learner: nn.Module, inputs: Tensor) -> EpochPlan:
        plan = super().plan_epoch(index, first_step, learner=learner, inputs=inputs)
        soft = self.inference(learner).logits(inputs).softmax(dim=1)
        return replace(plan, tables={**plan.tables, "soft": soft}, report="said once")

    def draw_views(self, n_steps: int, n_labeled: int, n_unlabeled: int, rng: np.random.Generator) -> Any:
        end = n_labeled + n_unlabeled
        groups = [ViewGroup(0, end, "weak"), ViewGroup(n_labeled, end, "unlabeled", n_views=3)]
        return groups_of_views(self.views, n_steps, groups, rng=rng)

    def draw_numbers(self, plan: EpochPlan, first_step: int, n_steps: int, batch_size: int) -> dict[str, np.ndarray]:
        return {"ramp": sigmoid_ramp_up(first_step, n_steps, 5.0)}

    def loss(self, learner: Any, batch: Batch) -> Tensor:
        n, b = batch.n_labeled, len(batch.rows)
        logits = learner.first(batch.views) + learner.second(batch.views)
        targets = batch.tables["soft"][n:].repeat(3, 1)
        supervised = functional.cross_entropy(logits[:n], batch.tables[TARGETS][:n])
        return supervised + batch.draws["ramp"] * functional.cross_entropy(logits[b:], targets)

    def after_step(self, learner: Any, batch: Batch) -> None:
        learner.seen.index_add_(0, batch.rows, torch.ones(len(batch.rows)))


def everything(pictures: ImageSet) -> Run:
    return run_with(Everything(problem_of(pictures), TRAIN, EverythingConfig()), pictures)


def test_a_method_may_use_everything_at_once_and_resumes_bit_for_bit(pictures: ImageSet, tmp_path: Path) -> None:
    whole = everything(pictures)
    epochs = list(train(whole))
    assert [epoch.report for epoch in epochs] == ["said once"] * len(epochs)
    assert int(whole.learner.seen.sum()) == 9 * 12
    cut = everything(pictures)
    *_, last = train(cut, monitor=StopAfter(4))
    save_checkpoint(tmp_path / "checkpoint", cut.learner, last.position, identity={})
    resumed = everything(pictures)
    *_, _ = train(resumed, start=load_checkpoint(tmp_path / "checkpoint", resumed.learner, identity={}))
    assert_same(state_of(resumed), state_of(whole))


def test_groups_of_views_show_the_rows_they_name(pictures: ImageSet) -> None:
    block = everything(pictures).method.draw(plan_of(pictures), 0, 2)
    assert block.sources.tolist() == [*range(12), *[*range(4, 12)] * 3]
    assert block.views is not None
    assert block.views.integers.shape[:2] == (2, 12 + 3 * 8)


def plan_of(pictures: ImageSet) -> EpochPlan:
    run = everything(pictures)
    return run.method.plan_epoch(0, 0, learner=run.learner, inputs=run.inputs)


def test_a_learning_rate_reaches_every_group_by_its_scale() -> None:
    network = build_model("mlp", n_classes=2, in_channels=3)
    groups = [{"params": [network.head.weight], "lr_scale": 0.5}, {"params": [network.head.bias]}]
    optimizer = sgd(network, TRAIN, groups=groups)
    set_learning_rate(optimizer, torch.tensor(0.25))
    assert [float(group["lr"]) for group in optimizer.param_groups] == [0.125, 0.25]


@pytest.mark.parametrize("make", [sgd, adamw])
def test_optimizers_with_a_state_from_the_start_step_like_torchs_own(make: Any) -> None:
    torch.manual_seed(0)
    ours, theirs = (build_model("mlp", n_classes=2, in_channels=3, seed=1) for _ in range(2))
    optimizer = make(ours, TRAIN)
    options = {"lr": TRAIN.lr, "weight_decay": TRAIN.weight_decay}
    reference: torch.optim.Optimizer = (
        torch.optim.SGD(theirs.parameters(), momentum=0.9, nesterov=True, **options)
        if make is sgd
        else torch.optim.AdamW(theirs.parameters(), **options)
    )
    inputs, targets = torch.randn(8, 3), torch.arange(8) % 2
    for _ in range(5):
        for network, stepper in ((ours, optimizer), (theirs, reference)):
            stepper.zero_grad()
            functional.cross_entropy(network(inputs), targets).backward()
            stepper.step()
    pairs = zip(ours.parameters(), theirs.parameters(), strict=True)
    assert all(torch.allclose(a, b, atol=1e-7) for a, b in pairs)
    assert len(optimizer_tensors(optimizer, ours)) == (1 if make is sgd else 3) * len(list(ours.parameters()))


def test_a_ramp_rises_to_one_along_the_sigmoid() -> None:
    ramp = sigmoid_ramp_up(0, 12, 10.0)
    assert ramp[0] == pytest.approx(np.exp(-5))
    assert ramp[5] == pytest.approx(np.exp(-5 * 0.25))
    assert ramp[10:].tolist() == [1, 1]
    assert sigmoid_ramp_up(0, 2, 0.0).tolist() == [1, 1]


def test_the_teacher_is_the_average_of_all_students_so_far_then_an_exponential_one() -> None:
    learner = StudentAndTeacher(build_model("mlp", n_classes=2, in_channels=3))
    values = [1.0, 2.0, 4.0, 8.0]
    mean = 0.0
    for n, value in enumerate(values):
        nn.init.constant_(learner.student.head.bias, value)
        learner.average(decay=0.6)
        decay = min(n / (n + 1), 0.6)
        mean = decay * mean + (1 - decay) * value
    assert learner.teacher.head.bias.tolist() == pytest.approx([mean] * 2)
    assert not any(parameter.requires_grad for parameter in learner.teacher.parameters())


def test_still_statistics_normalize_by_the_batch_and_remember_nothing() -> None:
    network = build_model("small-cnn", n_classes=2, in_channels=1).train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    images = torch.randn(6, 1, 8, 8)
    with still_statistics(network):
        still = network(images)
    assert_same(before, dict(network.state_dict()))
    assert torch.equal(still, network(images))
    assert not torch.equal(before["body.1.running_mean"], network.state_dict()["body.1.running_mean"])


def test_a_batch_of_one_view_is_refused(pictures: ImageSet) -> None:
    class One(Everything):
        def draw_views(self, n_steps: int, n_labeled: int, n_unlabeled: int, rng: np.random.Generator) -> Any:
            return groups_of_views(self.views, n_steps, [ViewGroup(0, 1, "weak")], rng=rng)

    with pytest.raises(InputError, match="a batch of one view"):
        list(train(run_with(One(problem_of(pictures), TRAIN, EverythingConfig()), pictures)))


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("fixmatch", "threshold", 1.5),
        ("fixmatch", "ema_decay", 1.0),
        ("mean-teacher", "consistency", float("nan")),
        ("mean-teacher", "ramp_up", -0.1),
        ("laplacenet", "n_views", 0),
        ("laplacenet", "mixup_alpha", -1.0),
        ("network-labels", "supervised_passes", -1),
        ("laplacenet", "epoch_passes", 0.0),
    ],
)
def test_settings_of_a_method_that_make_no_sense_are_refused(name: str, field: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"method\.{field} = "):
        config_class(name)(**{field: value})


def test_an_unknown_method_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="unknown method 'fixmach'; choose one of laplacenet, supervised"):
        method_class("fixmach")


def fixmatch_loss(logits: Tensor, targets: Tensor, n_labeled: int, n_weak: int, threshold: float) -> float:
    """The formula, one image at a time."""
    supervised = [float(functional.cross_entropy(logits[i], targets[i])) for i in range(n_labeled)]
    unlabeled = []
    for i in range(n_labeled, n_weak):
        guess = logits[i].softmax(dim=0)
        strong = logits[n_weak + i - n_labeled]
        loss = float(functional.cross_entropy(strong, guess.argmax()))
        unlabeled.append(loss if float(guess.max()) >= threshold else 0.0)
    return float(np.mean(supervised) + np.mean(unlabeled))


class Fixed(nn.Module):
    """Gives the views themselves as logits."""

    def forward(self, x: Tensor) -> Tensor:
        return x


@pytest.mark.parametrize("threshold", [0.0, 0.6, 1.0])
def test_fixmatchs_loss_is_its_formula(pictures: ImageSet, threshold: float) -> None:
    method = method_class("fixmatch")(problem_of(pictures), TRAIN, config_class("fixmatch")(threshold=threshold))
    learner = method.learner(build_model("small-cnn", n_classes=3, in_channels=1))
    learner.student = Fixed()
    generator = torch.Generator().manual_seed(2)
    views, targets = 3 * torch.randn(4 + 8 + 8, 3, generator=generator), torch.tensor([0, 2, 1, 1, *[-1] * 8])
    batch = Batch(views, torch.arange(12), 4, {TARGETS: targets}, {})
    assert float(method.loss(learner, batch)) == pytest.approx(
        fixmatch_loss(views, targets, 4, 12, threshold), rel=1e-5
    )


def test_mean_teachers_loss_is_its_formula(pictures: ImageSet) -> None:
    method = method_class("mean-teacher")(problem_of(pictures), TRAIN, config_class("mean-teacher")())
    learner = method.learner(build_model("small-cnn", n_classes=3, in_channels=1))
    learner.student, learner.teacher = Fixed(), Fixed()
    views, targets = (
        torch.randn(24, 3, generator=torch.Generator().manual_seed(3)),
        torch.tensor([0, 2, 1, 1, *[-1] * 8]),
    )
    batch = Batch(views, torch.arange(12), 4, {TARGETS: targets}, {"consistency": torch.tensor(2.5)})
    agreement = ((views[:12].softmax(1) - views[12:].softmax(1)) ** 2).sum() / (12 * 3)
    supervised = -views[:4].log_softmax(1)[range(4), targets[:4]].mean()
    assert float(method.loss(learner, batch)) == pytest.approx(float(supervised + 2.5 * agreement), rel=1e-5)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("mean-teacher", {"consistency": 1.0}),
        ("fixmatch", {}),
        ("mixmatch", {"unlabeled_weight": 1.0}),
        ("uda", {}),
        ("freematch", {}),
    ],
)
def test_the_judged_network_learns(pictures: ImageSet, name: str, settings: dict[str, float]) -> None:
    method = method_named(name, pictures, replace(TRAIN, steps=120))
    method = replace(method, config=replace(method.config, ema_decay=0.95, **settings))
    *_, last = train(run_with(method, pictures))
    predicted = last.inference.logits(pictures.images).argmax(dim=1)
    assert float((predicted == pictures.labels).float().mean()) > 0.9
