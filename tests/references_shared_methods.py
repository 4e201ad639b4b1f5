"""Every method in float64, to be trained by one process or by several: run as a script, this is one of the processes.

Results go to a file, to be compared with those of the same functions in a single process.
"""

import contextlib
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from references_processes import CPU, IDENTITY, DoubleNetwork, DoubleViews, pictures, problem
from references_runs import StopAfter
from torch import Tensor

from laplacenet.graph import GraphConfig
from laplacenet.runtime import LostProcessError, current_group, start_group
from laplacenet.runtime.sharing import shared_step
from laplacenet.training import (
    METHODS,
    Position,
    Run,
    TrainConfig,
    config_class,
    load_checkpoint,
    method_class,
    save_checkpoint,
    train,
)

STEPS, STOP = 6, 5  # three epochs of two steps
LOW = {"threshold": 0.45}  # some early guesses count, others do not
SETTINGS: dict[str, dict[str, Any]] = {
    "laplacenet": {"n_views": 2, "label_temperature": 0.5, "ema_decay": 0.9, "plain_statistics": True},
    "fixmatch": LOW,
    "flexmatch": LOW,
    "simmatch": LOW,
    "uda": {**LOW, "signal_annealing": "linear"},
    "pi-model": {"noise": 0.1},
    "mean-teacher": {"n_heads": 2, "labeled_loss_over": "batch", "noise": 0.1},
    "fast-swa": {"average_every": 1},
    "vat": {"entropy_weight": 1.0},
    "mixmatch": {"ramp_up": 0.0},
    "dual-student": {"threshold": 0.4},
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, SETTINGS.get(name, {})) for name in METHODS},
    "laplacenet with fewer labeled views": (
        "laplacenet",
        {"n_views": 3, "n_labeled_views": 1, "mixup_alpha": 0.0, "ema_decay": 0.9},
    ),
    "laplacenet with cutmix": ("laplacenet", {"n_views": 2, "cutmix_share": 0.5, "supervised_passes": 0}),
    "sntg on temporal ensembling": ("sntg", {"base": "temporal-ensembling"}),
}
UNEVEN = ("flexmatch", "vat", "sntg")
"""Also by three processes, with two labeled images a batch: VAT's pass over these cannot be divided."""


def method_run(case: str, n_labeled: int) -> Run:
    """`n_labeled` and 23 unlabeled images a batch, which neither two nor three processes can share evenly."""
    name, settings = CASES[case]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = DoubleNetwork()
    schedule = TrainConfig(steps=STEPS, batch_size=23 + n_labeled, labeled_batch_size=n_labeled)
    method = method_class(name)(problem(DoubleViews), schedule, config_class(name)(**settings), GraphConfig(k=5))
    run = Run.of(method, network, pictures().images, CPU)
    return replace(run, learner=run.learner.double())


def trained(case: str, *, n_labeled: int = 4) -> dict[str, Tensor]:
    return rest_of(method_run(case, n_labeled), Position())


def rest_of(run: Run, start: Position) -> dict[str, Tensor]:
    """Weights, averages, buffers, the labels and weights of the epoch that is next, and the last epoch's loss."""
    for epoch in train(run, start=start, monitor=StopAfter(STOP - start.step)):
        position, loss = epoch.position, epoch.loss
    state = {name: value.clone() for name, value in run.learner.state_dict().items()}
    plan = run.method.plan_epoch(position.epoch, position.step, learner=run.learner, inputs=run.inputs)
    tables = {f"table of {name}": table for name, table in plan.tables.items()}
    return state | position.optimizer | tables | {"loss": torch.tensor(loss)}


def begin(case: str, checkpoint: Path) -> None:
    """Saved in the middle of the second epoch."""
    run = method_run(case, 4)
    for epoch in train(run, monitor=StopAfter(3)):
        position = epoch.position
    if current_group().is_first:
        save_checkpoint(checkpoint, run.learner, position, identity=IDENTITY)


def resumed(case: str, checkpoint: Path) -> dict[str, Tensor]:
    run = method_run(case, 4)
    return rest_of(run, load_checkpoint(checkpoint, run.learner, identity=IDENTITY))


def input_gradients() -> dict[str, Tensor]:
    """As VAT asks for them; 7 rows."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network, x = DoubleNetwork(), torch.randn(7, 1, 8, 8, dtype=torch.float64, requires_grad=True)
    with shared_step(current_group().reduces):
        outputs = network(x)
        (of_outputs,) = torch.autograd.grad(outputs.square().sum(), x)
        (of_vectors,) = torch.autograd.grad(network.embed(x).square().sum(), x)
    return {"outputs": outputs.detach(), "of outputs": of_outputs, "of vectors": of_vectors}


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    group = start_group(torch.device("cpu"))
    if group.size == 2:
        results = {case: trained(case) for case in CASES} | {"input gradients": input_gradients()}
        begin("flexmatch", folder / "flexmatch")
    else:
        results = {case: trained(case, n_labeled=2) for case in UNEVEN}
    torch.save(results, folder / f"methods-{group.size}-{group.rank}.pt")
    with contextlib.suppress(LostProcessError):
        group.agree(False)
    os._exit(0)  # no store is waited for that another process has taken with it


if __name__ == "__main__":
    main(Path(sys.argv[1]))
