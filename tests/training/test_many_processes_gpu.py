"""On a GPU: a step that reduces through NCCL inside its captured graph, with one process, is the step without it."""

import socket
from collections.abc import Iterator

import pytest
import references_processes as shared
import torch

from laplacenet.models import build_model
from laplacenet.runtime import end_group, start_group
from laplacenet.training import Execution, Run
from laplacenet.training.loop import prepare
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


def losses(*, captures: bool, n: int = 10) -> list[float]:
    execution = Execution(torch.device("cuda"), capture=captures)
    few = shared.bars_run(build_model("small-cnn", n_classes=3, in_channels=1))
    run = Run(few.method, few.learner, few.inputs, execution)
    stepper = Stepper(run.method, prepare(run.learner, execution), run.inputs, execution=execution)
    plan = run.method.plan_epoch(0, 0, learner=stepper.learner, inputs=stepper.supply.inputs)
    stepper.begin(plan)
    found = []
    for _ in range(n):
        for _ in stepper.run(run.method.draw(plan, 0, 1)):
            found.append(float(stepper.loss_sum))
            stepper.loss_sum.zero_()
    return found


@pytest.mark.parametrize("captures", [False, True])
def test_nccl_with_one_process_changes_no_loss(one_process: None, captures: bool) -> None:
    expected = losses(captures=captures)
    assert start_group(torch.device("cuda"), reduces_alone=True).reduces
    assert losses(captures=captures) == pytest.approx(expected, rel=TOLERANCE)
