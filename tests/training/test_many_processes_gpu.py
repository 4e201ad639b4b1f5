"""On a GPU: one process that reduces through NCCL inside its captured step, and two that share the GPU through gloo."""

import argparse
import socket
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import references_processes as shared
import references_processes_gpu as on_gpu
import references_torchrun_step as one_step
import torch
from torch import Tensor

from laplacenet.experiments.benchmark.clock import intervals_ms
from laplacenet.experiments.benchmark.our_steps import OurSteps
from laplacenet.experiments.benchmark.settings import CIFAR100_13_CNN
from laplacenet.experiments.benchmark.synthetic import random_images
from laplacenet.graph import GraphConfig
from laplacenet.models import build_model
from laplacenet.runtime import LostProcessError, end_group, start_group
from laplacenet.training import Execution, Run, TrainConfig, config_class, method_class
from laplacenet.training.loop import prepare
from laplacenet.training.pending_steps import PendingSteps, mark_now
from laplacenet.training.step import Stepper

pytestmark = pytest.mark.gpu
TOLERANCE = 0.02  # bf16 products: over some steps the losses drift apart


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    values = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    yield
    end_group()


def losses(*, captures: bool, method: str = "laplacenet", n: int = 5) -> list[float]:
    execution = Execution(torch.device("cuda"), capture=captures)
    schedule = TrainConfig(steps=shared.STEPS, batch_size=21, labeled_batch_size=4, lr=0.05)
    made = method_class(method)(shared.problem(), schedule, config_class(method)(), GraphConfig(k=5))
    run = Run.of(made, build_model("small-cnn", n_classes=3, in_channels=1), shared.pictures().images, execution)
    stepper = Stepper(run.method, prepare(run.learner, execution), run.inputs, execution=execution)
    plan = run.method.plan_epoch(0, 0, learner=stepper.learner, inputs=stepper.supply.inputs)
    stepper.begin(plan)
    found = []
    for _ in range(n):
        for _ in stepper.run(run.method.draw(plan, 0, 1)):
            found.append(float(stepper.loss_sum))
            stepper.loss_sum.zero_()
    return found


@pytest.mark.parametrize("method", ["laplacenet", "flexmatch", "freematch", "mean-teacher", "mixmatch", "simmatch"])
@pytest.mark.parametrize("captures", [False, True])
def test_nccl_with_one_process_changes_no_loss(one_process: None, captures: bool, method: str) -> None:
    expected = losses(captures=captures, method=method)
    assert start_group(torch.device("cuda"), reduces_alone=True).reduces
    assert losses(captures=captures, method=method) == pytest.approx(expected, rel=TOLERANCE)


def test_a_captured_step_asks_for_the_gradients_of_its_inputs(one_process: None) -> None:
    """VAT's; its losses depend on rounding, so that only their beginning can be compared."""
    expected = losses(captures=True, method="vat", n=1)
    start_group(torch.device("cuda"), reduces_alone=True)
    assert losses(captures=True, method="vat", n=1) == pytest.approx(expected, rel=5 * TOLERANCE)


def test_a_message_that_never_arrives_is_not_waited_for(one_process: None) -> None:
    """Stood in for by a device that is busy for a minute."""
    pending = PendingSteps(deadline_s=0.5)
    pending.add(mark_now())
    pending.wait()
    torch.cuda._sleep(10**10)
    pending.add(mark_now())
    with pytest.raises(LostProcessError, match="no step has ended"):
        pending.wait()
    torch.cuda.synchronize()


@pytest.mark.long
def test_torchrun_with_one_process_makes_a_step_at_most_two_percent_slower() -> None:
    """Each in a process of its own, by turns."""
    found = one_step.compare(argparse.Namespace(device="cuda", steps=64, turns=3))
    assert found["percent_slower"]["torchrun"] <= 2.0, found


def test_nccl_with_one_process_made_to_send_makes_a_step_at_most_two_percent_slower(one_process: None) -> None:
    execution, images, n_steps = Execution(torch.device("cuda")), random_images(20_000, 32), 64
    without = OurSteps(CIFAR100_13_CNN, images, execution)
    intervals_ms(without.round(0, n_steps), execution.device)  # captured before there is a group
    start_group(torch.device("cuda"), reduces_alone=True)
    through_nccl = OurSteps(CIFAR100_13_CNN, images, execution)
    intervals_ms(through_nccl.round(0, n_steps), execution.device)
    taken: dict[str, list[float]] = {"without": [], "through NCCL": []}
    for index in range(1, 5):
        taken["without"] += intervals_ms(without.round(index, n_steps), execution.device)
        taken["through NCCL"] += intervals_ms(through_nccl.round(index, n_steps), execution.device)
    medians = {name: statistics.median(some) for name, some in taken.items()}
    assert medians["through NCCL"] <= 1.02 * medians["without"], medians


@pytest.fixture(scope="module")
def by_two(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("two-on-a-gpu")
    processes = shared.start_processes(2, [str(Path(on_gpu.__file__).resolve()), str(folder)], folder=folder)
    try:
        for process in processes:
            _, errors = process.communicate(timeout=300)
            assert process.returncode == 0, errors
    finally:
        for process in processes:
            process.kill()
    return [torch.load(folder / f"results-{rank}.pt") for rank in range(2)]


def farthest(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest difference of any tensor, relative to its largest entry."""
    assert one.keys() == other.keys()
    return max(
        float((one[name] - other[name]).abs().max() / one[name].abs().max().clamp(min=1e-30))
        for name in one
        if one[name].is_floating_point()
    )


@pytest.mark.parametrize("kind", ["norm", "pooled"])
def test_the_fused_normalization_of_two_processes_is_that_of_one(by_two: list[dict[str, Any]], kind: str) -> None:
    expected = on_gpu.fused_norm(pool=kind == "pooled")
    for results in by_two:
        assert farthest(expected, results[kind]) < 1e-4


def test_a_step_of_two_processes_on_one_gpu_has_the_gradients_of_one(by_two: list[dict[str, Any]]) -> None:
    expected = on_gpu.gradients()
    for results in by_two:
        assert farthest(expected, results["gradients"]) < TOLERANCE
