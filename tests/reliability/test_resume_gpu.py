"""On a GPU sums come in another order each time, so a resumed run is the unbroken one within a tolerance."""

from pathlib import Path

import pytest
import torch
from references_runs import StopAfter, tiny_experiment, write_bars

from laplacenet.experiments import prepare, read_epochs, read_experiment, resume_run, run_experiment
from laplacenet.models import load_model
from laplacenet.runtime import RunFolder
from laplacenet.training import Execution

pytestmark = pytest.mark.gpu

LOSS, WEIGHTS = 0.05, 0.05
"""The largest difference of an epoch's loss, and of all weights together relative to their length."""


def flat(folder: Path) -> torch.Tensor:
    network, _ = load_model(folder)
    return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])


@pytest.mark.parametrize("checkpoint_every_s", [0.0, 60.0])
@pytest.mark.parametrize("stops", [(3,), (2, 3, 4)])
def test_a_run_resumed_on_a_gpu_is_the_unbroken_one_within_a_tolerance(
    tmp_path: Path, stops: tuple[int, ...], checkpoint_every_s: float
) -> None:
    """With a checkpoint after every step, steps are captured while one is written."""
    experiment = tiny_experiment(write_bars(tmp_path / "bars.npz"))
    execution = Execution(torch.device("cuda"), checkpoint_every_s=checkpoint_every_s)
    whole, folder = RunFolder.create(tmp_path / "whole"), RunFolder.create(tmp_path / "broken")
    assert run_experiment(experiment, whole, execution=execution) is not None
    run_experiment(experiment, folder, execution=execution, monitor=StopAfter(stops[0]))
    for n_steps in (*stops[1:], 10**6):
        task = prepare(read_experiment(folder))
        for _ in resume_run(task, folder, execution=execution, monitor=StopAfter(n_steps)):
            pass
    assert folder.has("final.json")
    steps = {record.step: record.loss for record in read_epochs(whole)}
    for record in read_epochs(folder):
        if record.is_complete and record.n_steps == 2:
            assert record.loss == pytest.approx(steps[record.step], abs=LOSS)
    difference = (flat(folder.path) - flat(whole.path)).norm() / flat(whole.path).norm()
    assert float(difference) < WEIGHTS
