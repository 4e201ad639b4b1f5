"""Settings other than the defaults resume bit for bit too: second heads, ensembles, averages, noise."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from references_losses import TRAIN, C, D, N, small_method
from references_runs import StopAfter

from laplacenet.models import build_model
from laplacenet.training import Execution, Run, load_checkpoint, save_checkpoint, train


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("laplacenet", {"epoch_passes": 2.5}),
        ("laplacenet", {"epoch_passes": 0.4}),
        ("mean-teacher", {"n_heads": 2, "teacher_statistics": "copy", "noise": 0.2}),
        ("pi-model", {"noise": 0.2, "strength": "strong"}),
        ("temporal-ensembling", {"noise": 0.2}),
        ("sntg", {"base": "temporal-ensembling"}),
        ("fast-swa", {"n_cycles": 3, "cycle": 0.2, "average_every": 1}),
        ("vat", {"entropy_weight": 1.0, "n_power_iterations": 2}),
        ("mt-lp", {"first_stage": 0.3, "n_heads": 1}),
        ("dual-student", {"n_heads": 1}),
        ("simmatch", {"teacher": "average", "bank_momentum": 0.4}),
    ],
)
def test_a_run_in_three_pieces_is_the_run_in_one(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    method = small_method(name, train=replace(TRAIN, steps=13), **settings)
    inputs = torch.randn(N, D, generator=torch.Generator().manual_seed(0))

    def fresh() -> Run:
        return Run.of(method, build_model("mlp", n_classes=C, in_channels=D), inputs, Execution(torch.device("cpu")))

    whole, position = fresh(), None
    *_, _ = train(whole)
    for n_steps in (4, 5, 100):
        run = fresh()
        if position is not None:
            position = load_checkpoint(tmp_path / "checkpoint", run.learner, identity={})
        for last in train(run, start=position, monitor=StopAfter(n_steps)):
            position = last.position
        save_checkpoint(tmp_path / "checkpoint", run.learner, position, identity={})
    expected = whole.learner.state_dict()
    different = [key for key, tensor in run.learner.state_dict().items() if not torch.equal(tensor, expected[key])]
    assert different == []
