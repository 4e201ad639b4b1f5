"""On a GPU: capture, compilation and streaming change nothing but the time."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from references_runs import StopAfter
from references_training import bright_halves

from laplacenet.augment import AugmentConfig
from laplacenet.data import ImageSet, balanced_split, hide_labels
from laplacenet.graph import GraphConfig
from laplacenet.models import build_model
from laplacenet.training import (
    METHODS,
    EpochPlan,
    Execution,
    ImageViews,
    LaplaceNetConfig,
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
from laplacenet.training.loop import prepare
from laplacenet.training.step import Stepper

pytestmark = pytest.mark.gpu

TRAIN = TrainConfig(steps=60, batch_size=40, labeled_batch_size=10)
CONFIG = LaplaceNetConfig(n_views=2, supervised_passes=4)
GPU = Execution(torch.device("cuda"))
# bf16 products are rounded to 2⁻⁹ and a compiler may order their sums otherwise; over 20 steps the losses drift apart
TOLERANCE = 0.02


@pytest.fixture(scope="module")
def pictures() -> ImageSet:
    return bright_halves(720, channels=3, side=32, noise=120)


def run_on(
    pictures: ImageSet,
    execution: Execution,
    model: str = "13-cnn",
    config: MethodConfig = CONFIG,
    schedule: TrainConfig = TRAIN,
) -> Run:
    labels = hide_labels(pictures.labels, balanced_split(pictures.labels, 60, seed=0))
    views = ImageViews(AugmentConfig(), pictures.statistics, 32, 32)
    method = method_class(config.name)(Problem(labels, 3, views), schedule, config, GraphConfig(k=10))
    return Run.of(method, build_model(model, n_classes=3), pictures.images, execution)


def first_losses(run: Run, pictures: ImageSet, n: int = 20) -> list[float]:
    stepper = Stepper(run.method, prepare(run.learner, run.execution), run.inputs, execution=run.execution)
    order = run.method.shuffled(run.method.problem.unlabeled, 0)
    plan = EpochPlan(0, "semi-supervised", 0, n, order, {"targets": pictures.labels})
    stepper.begin(plan)
    losses, total = [], 0.0
    for _ in stepper.run(run.method.draw(plan, 0, n)):
        losses.append(float(stepper.loss_sum) - total)
        total = float(stepper.loss_sum)
    return losses


@pytest.mark.parametrize("model", ["13-cnn", "wrn-28-2"])
def test_captured_and_uncaptured_steps_have_the_same_losses(pictures: ImageSet, model: str) -> None:
    plain = first_losses(run_on(pictures, replace(GPU, capture=False), model), pictures)
    captured = first_losses(run_on(pictures, GPU, model), pictures)
    assert captured == pytest.approx(plain, rel=TOLERANCE)


def test_captured_and_uncaptured_steps_of_muon_have_the_same_losses(pictures: ImageSet) -> None:
    schedule = replace(TRAIN, optimizer="muon")
    plain = first_losses(run_on(pictures, replace(GPU, capture=False), schedule=schedule), pictures)
    captured = first_losses(run_on(pictures, GPU, schedule=schedule), pictures)
    assert captured == pytest.approx(plain, rel=5 * TOLERANCE)  # its products are in bf16, too


def test_captured_and_uncaptured_steps_with_fewer_labeled_views_have_the_same_losses(pictures: ImageSet) -> None:
    config = replace(CONFIG, n_labeled_views=1, mixup_alpha=0.0)
    plain = first_losses(run_on(pictures, replace(GPU, capture=False), config=config), pictures)
    captured = first_losses(run_on(pictures, GPU, config=config), pictures)
    assert captured == pytest.approx(plain, rel=TOLERANCE)


def test_captured_and_uncaptured_steps_with_cutmix_have_the_same_losses(pictures: ImageSet) -> None:
    config = replace(CONFIG, cutmix_share=0.5, ema_decay=0.9)
    plain = first_losses(run_on(pictures, replace(GPU, capture=False), config=config), pictures)
    captured = first_losses(run_on(pictures, GPU, config=config), pictures)
    assert captured == pytest.approx(plain, rel=TOLERANCE)


def test_plain_statistics_on_a_gpu_are_those_of_a_cpu(pictures: ImageSet) -> None:
    config = replace(CONFIG, plain_statistics=True)
    found = []
    for execution in (GPU, Execution(torch.device("cpu"))):
        run = run_on(pictures, execution, config=config)
        learner = prepare(run.learner, execution)
        run.method.after_epoch(learner, run.inputs.to(execution.device))
        found.append(torch.cat([x.flatten().float().cpu() for name, x in learner.named_buffers() if "running" in name]))
    assert torch.allclose(*found, rtol=0.05, atol=0.02)  # one of them in bf16


def test_smaller_pictures_are_captured_apart_and_have_the_same_losses(pictures: ImageSet) -> None:
    small = replace(TRAIN, small_share=1.0)
    plain = first_losses(run_on(pictures, replace(GPU, capture=False), schedule=small), pictures)
    assert first_losses(run_on(pictures, GPU, schedule=small), pictures) == pytest.approx(plain, rel=TOLERANCE)
    run = run_on(pictures, GPU, schedule=replace(TRAIN, steps=20, small_share=0.5))
    stepper = Stepper(run.method, prepare(run.learner, GPU), run.inputs, execution=GPU)
    order = run.method.shuffled(run.method.problem.unlabeled, 0)
    plan = EpochPlan(0, "semi-supervised", 0, 20, order, {"targets": pictures.labels})
    stepper.begin(plan)
    for first_step in (0, 15, 5):  # small, whole, small again
        for _ in stepper.run(run.method.draw(plan, first_step, 2)):
            pass
    assert len(stepper._captured) == 2


@pytest.mark.filterwarnings("ignore")  # the compiler warns of itself while it works, differently in each version
def test_compiled_steps_have_the_losses_of_uncompiled_ones(pictures: ImageSet) -> None:
    plain = first_losses(run_on(pictures, replace(GPU, capture=False)), pictures)
    compiled = first_losses(run_on(pictures, replace(GPU, compile=True)), pictures)
    assert compiled == pytest.approx(plain, rel=TOLERANCE)


def test_streamed_images_give_the_losses_of_resident_ones(pictures: ImageSet) -> None:
    eager = GPU
    resident = first_losses(run_on(pictures, eager), pictures)
    streamed = first_losses(run_on(pictures, replace(eager, resident_bytes=0)), pictures)
    assert streamed == pytest.approx(resident, rel=TOLERANCE)


def test_a_gpu_follows_the_cpu(pictures: ImageSet) -> None:
    """The same draws on every device: the first loss differs by rounding only."""
    on_cpu = first_losses(run_on(pictures, Execution(torch.device("cpu"))), pictures, n=1)
    on_gpu = first_losses(run_on(pictures, GPU), pictures, n=1)
    assert on_gpu == pytest.approx(on_cpu, rel=TOLERANCE)


def test_a_whole_run_learns_and_a_resumed_one_ends_nearby(pictures: ImageSet, tmp_path: Path) -> None:
    eager = GPU
    unbroken = run_on(pictures, eager)
    *_, last = train(unbroken)
    assert (last.inference.logits(pictures.images).argmax(1).cpu() == pictures.labels).float().mean() > 0.9
    cut = run_on(pictures, eager)
    *_, stopped = train(cut, monitor=StopAfter(33))
    save_checkpoint(tmp_path / "checkpoint", cut.learner, stopped.position, identity={})
    resumed = run_on(pictures, eager)
    position = load_checkpoint(tmp_path / "checkpoint", resumed.learner, identity={})
    assert position.step == 33
    *_, last_resumed = train(resumed, start=position)
    assert last_resumed.step == 60
    assert last_resumed.loss == pytest.approx(last.loss, rel=0.1)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_the_same_losses_captured_and_uncaptured(pictures: ImageSet, name: str) -> None:
    config = config_class(name)()
    losses = []
    for execution in (replace(GPU, capture=False), GPU):
        epochs = train(run_on(pictures, execution, config=config), monitor=StopAfter(24))
        losses.append([epoch.loss for epoch in epochs])
    uncaptured, captured = losses
    assert captured == pytest.approx(uncaptured, rel=5 * TOLERANCE)


@pytest.mark.parametrize("name", METHODS)
def test_a_capture_takes_no_step(pictures: ImageSet, name: str) -> None:
    run = run_on(pictures, GPU, config=config_class(name)())
    learner = prepare(run.learner, GPU)
    stepper = Stepper(run.method, learner, run.inputs, execution=GPU)
    plan = run.method.plan_epoch(0, 0, learner=learner, inputs=stepper.supply.inputs)
    stepper.begin(plan)
    block = run.method.draw(plan, 0, 2)
    state = {**dict(learner.state_dict()), **stepper.optimizer_state()}
    before = {key: tensor.clone() for key, tensor in state.items()}
    stepper._capture(block, stepper.supply.stage(block.rows))
    assert [key for key in state if not torch.equal(before[key], state[key])] == []
