"""What several processes compute together, against one: run as a script, this is one of the processes.

Results go to a file, to be compared with those of the same functions in a single process.
"""

import contextlib
import os
import random
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch.distributed as dist
from references_runs import StopAfter, bars
from torch import Tensor, nn

from laplacenet.augment import AugmentConfig, ViewParameters
from laplacenet.data import ImageSet, balanced_split, hide_labels
from laplacenet.graph import GraphConfig, Neighbors, nearest_neighbors, pseudo_label
from laplacenet.graph.search import half_ivf_neighbors, int8, ivf_neighbors
from laplacenet.graph.search.half import half_neighbors
from laplacenet.models import Network, build_model
from laplacenet.models.norm import BatchNorm1d, NormActivation
from laplacenet.runtime import InputError, LostProcessError, current_group, end_group, start_group
from laplacenet.runtime.sharing import Share, sharing
from laplacenet.training import (
    Execution,
    ImageViews,
    LaplaceNetConfig,
    Position,
    Problem,
    Run,
    TrainConfig,
    load_checkpoint,
    method_class,
    save_checkpoint,
    train,
)
from laplacenet.training.loop import prepare
from laplacenet.training.method import Block
from laplacenet.training.step import Stepper

CPU = Execution(torch.device("cpu"))
STEPS = 12
IDENTITY: dict[str, Any] = {"run": "shared"}


class DoubleViews(ImageViews):
    """In float64: whatever is computed from them stays so."""

    def make(self, inputs: Tensor, slots: Tensor, parameters: ViewParameters | None) -> Tensor:
        return super().make(inputs, slots, parameters).double()

    def plain(self, inputs: Tensor) -> Tensor:
        return super().plain(inputs).double()


class DoubleNetwork(Network):
    """In float64. A bias before batch normalization would have a gradient of rounding errors alone."""

    def __init__(self) -> None:
        body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1, bias=False), NormActivation(8, slope=0.1, pool=True), nn.Flatten(),
            nn.Linear(128, 16, bias=False), BatchNorm1d(16), nn.Tanh(),
        )  # fmt: skip
        super().__init__(body, embedding_size=16, n_classes=3)
        self.double()


def pictures() -> ImageSet:
    images, labels = bars(60, np.random.default_rng(0))
    return ImageSet(torch.from_numpy(images)[:, None], torch.from_numpy(labels), ("low", "middle", "high"))


def problem(kind: type[ImageViews] = ImageViews) -> Problem:
    """Hidden labels differ from process to process: they are at nobody's disposal."""
    shown = pictures()
    split = balanced_split(shown.labels, 9, seed=0)
    anything = torch.randint(3, shown.labels.shape, generator=torch.Generator().manual_seed(current_group().rank))
    is_given = hide_labels(shown.labels, split) >= 0
    given = hide_labels(torch.where(is_given, shown.labels, anything), split)
    return Problem(given, 3, kind(AugmentConfig(flip=False, cutout=0.25), shown.statistics, 8, 8))


def bars_run(network: Network, n_steps: int = STEPS, *, kind: type[ImageViews] = ImageViews, **settings: Any) -> Run:
    """Batches of 21 and 9 rows, which two or four processes cannot share evenly."""
    config = LaplaceNetConfig(n_views=2, supervised_passes=4, **settings)
    schedule = TrainConfig(steps=n_steps, batch_size=21, labeled_batch_size=4, lr=0.05)
    method = method_class(config.name)(problem(kind), schedule, config, GraphConfig(k=5))
    return Run.of(method, network, pictures().images, CPU)


def double_run(n_steps: int) -> Run:
    """Class weights and a moving average are switched on: more that processes have to agree about."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return bars_run(DoubleNetwork(), n_steps, kind=DoubleViews, class_weighting=True, ema_decay=0.9)


def small_run() -> Run:
    return bars_run(build_model("small-cnn", n_classes=3, in_channels=1))


def go_on(run: Run, start: Position, n_steps: int) -> tuple[Position, list[float]]:
    losses, position = [], start
    for epoch in train(run, start=start, monitor=StopAfter(n_steps)):
        position = epoch.position
        losses.append(epoch.loss)
    return position, losses


def trajectory(checkpoint: Path, n_steps: int = STEPS) -> dict[str, Tensor]:
    """In float64, saved and loaded after more than half of the steps."""
    run = double_run(n_steps)
    position, losses = go_on(run, Position(), n_steps // 2 + 1)
    if current_group().is_first:
        save_checkpoint(checkpoint, run.learner, position, identity=IDENTITY)
    current_group().agree(False)
    return {f"first.{name}": value.clone() for name, value in run.learner.state_dict().items()} | second_part(
        checkpoint, losses, n_steps
    )


def second_part(checkpoint: Path, losses: list[float], n_steps: int = STEPS) -> dict[str, Tensor]:
    run = double_run(n_steps)
    position = load_checkpoint(checkpoint, run.learner, identity=IDENTITY)
    _, more = go_on(run, position, n_steps)
    return dict(run.learner.state_dict()) | {"losses": torch.tensor([*losses, *more])}


def in_turns(checkpoint: Path, *, until: int, n_steps: int = 50) -> dict[str, Tensor]:
    """In float64, from the checkpoint if there is one, up to a step; saved there."""
    run = double_run(n_steps)
    position = load_checkpoint(checkpoint, run.learner, identity=IDENTITY) if checkpoint.exists() else Position()
    position, _ = go_on(run, position, until - position.step)
    if current_group().is_first:
        save_checkpoint(checkpoint, run.learner, position, identity=IDENTITY)
    current_group().agree(False)
    return dict(run.learner.state_dict())


def one_step_gradients() -> dict[str, Tensor]:
    run = small_run()
    stepper = Stepper(run.method, prepare(run.learner, CPU), run.inputs, execution=CPU)
    plan = run.method.plan_epoch(9, STEPS - 4, learner=stepper.learner, inputs=run.inputs)
    stepper.begin(plan)
    block: Block = run.method.draw(plan, plan.first_step, 1)
    list(stepper.run(block))
    return {name: parameter.grad.clone() for name, parameter in run.learner.named_parameters()}  # type: ignore[union-attr]


def pseudo_labels() -> Tensor:
    run = small_run()
    run = replace(run, inputs=run.inputs.repeat(10, 1, 1, 1))  # three forward passes: not as many for each process
    labels = torch.full((600,), -1)
    labels[:60] = run.method.problem.labels  # type: ignore[attr-defined]
    method = replace(run.method, problem=replace(run.method.problem, labels=labels))  # type: ignore[type-var, attr-defined]
    learner = prepare(run.learner, CPU)
    return method.plan_epoch(9, STEPS - 4, learner=learner, inputs=run.inputs).tables["targets"]


def search_without_int8_but_in_the_first(X: Tensor) -> Neighbors:
    """The others' machines lack the instructions."""
    group, has_products = current_group(), int8.has_int8_products
    with mock.patch.object(int8, "has_int8_products", return_value=group.is_first and has_products()):
        return nearest_neighbors(X, k=10, group=group)


def searched() -> dict[str, Tensor]:
    """Similarities of the neighbors that each kind of search finds, and the labels of all points."""
    group = current_group()
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(5, 16))
    X = torch.nn.functional.normalize(torch.from_numpy(centers[np.arange(4500) % 5] + rng.normal(size=(4500, 16))))
    single = X.float()
    found = {
        "unlike machines": search_without_int8_but_in_the_first(single),
        "double": nearest_neighbors(X, k=10, group=group),
        "single": nearest_neighbors(single, k=10, group=group),
        "lists": ivf_neighbors(single, k=10, group=group),
        "lists of a GPU": half_ivf_neighbors(single, k=10, group=group),
    }
    similarities, indices = half_neighbors(single[:700], 10, group)
    found["half"] = Neighbors(indices, similarities)
    labels = torch.where(torch.arange(4500) < 50, torch.arange(4500) % 5, -1)
    spread = pseudo_label(single, labels, GraphConfig(k=10), group=group)
    return {
        **{name: neighbors.similarities for name, neighbors in found.items()},
        **{f"{name}: named": (X[n.indices] * X[: len(n.indices), None]).sum(2) for name, n in found.items()},
        "labels": spread.labels,
        "scores": spread.scores,
    }


def normalized(x: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """A whole batch, or this process's rows of it, through a norm: outputs, gradients and running statistics."""
    group = current_group()
    own = group.part(len(x))
    rows = x[own.start : own.stop].clone().requires_grad_()
    norm = NormActivation(x.shape[1], slope=0.1).double()
    with sharing(Share(len(own), len(x)) if group.reduces else None):
        y = norm(rows)
        (y * weights[own.start : own.stop]).sum().backward()
    parameters = {name: group.sum_(parameter.grad.clone()) for name, parameter in norm.named_parameters()}  # type: ignore[union-attr]
    assert rows.grad is not None
    return {"y": group.gather(y.detach()), "dx": group.gather(rows.grad), **parameters, **dict(norm.named_buffers())}


def norm_inputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(7, 3, 4, 4, generator=generator, dtype=torch.float64) * 3 + 5
    return x, torch.randn(7, 3, 4, 4, generator=generator, dtype=torch.float64)


def error_of_first() -> str:
    def fail() -> None:
        raise InputError("the first process says no")

    try:
        current_group().by_first(fail)
    except InputError as error:
        return str(error)
    return ""


def environment() -> dict[str, str]:
    """That of a process that finds our sources, whatever is installed, and takes one thread."""
    source = Path(__file__).resolve().parent
    path = os.pathsep.join([str(source), str(source.parent / "src")])
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}


def free_port() -> int:
    """One that the system gives to nobody who asks for any: it is only taken in some seconds."""
    n_others = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for port in random.sample(range(10_000 + 1_000 * (n_others % 20), 11_000 + 1_000 * (n_others % 20)), 1_000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def start_torchrun(n: int, command: list[str], *, folder: Path, options: str = "") -> "subprocess.Popen[bytes]":
    """torchrun itself, told by number where to meet: it would wait long for a host name that nobody resolves."""
    where = f"--nproc-per-node {n} --master-addr 127.0.0.1 --master-port {free_port()} {options}".split()
    with (folder / "torchrun.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *where, *command],
            cwd=folder,
            env=environment(),
            stdout=log,
            stderr=log,
        )


def start_processes(n: int, command: list[str], *, folder: Path) -> list["subprocess.Popen[str]"]:
    """As torchrun would, with numbered host and free port."""
    port = free_port()
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(n), "LOCAL_WORLD_SIZE": str(n)}
    return [
        subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env=environment() | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(n)
    ]


def wait_for_all(processes: list["subprocess.Popen[str]"], *, timeout_s: float) -> list[tuple[str, str]]:
    """Output and messages of each; all must succeed, and none is left behind."""
    try:
        said = [process.communicate(timeout=timeout_s) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * len(processes), said
    return said


def main(folder: Path, n_steps: int) -> None:
    torch.set_num_threads(1)
    group = start_group(torch.device("cpu"))
    results = {
        "trajectory": trajectory(folder / f"checkpoint-{group.size}", n_steps),
        "gradients": one_step_gradients(),
        "labels": pseudo_labels(),
        "searched": searched(),
        "norm": normalized(*norm_inputs()),
        "gathered": group.gather(torch.full((group.rank + 1,), group.rank)),
        "error": error_of_first(),
        "agreed": [group.agree(False), group.agree(group.rank == 1)],
        "patience_s": dist.group.WORLD._get_backend(torch.device("cpu")).options._timeout.total_seconds(),  # type: ignore[union-attr]
    }
    torch.save(results, folder / f"results-{group.size}-{group.rank}.pt")
    if group.rank == group.size - 1:  # it ends without a word: the others must not wait for it
        os._exit(0)
    try:
        group.sum_(torch.ones(3))
    except LostProcessError as error:
        (folder / f"lost-{group.size}-{group.rank}").write_text(str(error))
        os._exit(0)
    end_group()


def take_turn(folder: Path, until: int) -> None:
    torch.set_num_threads(1)
    start_group(torch.device("cpu"))
    in_turns(folder / "turns", until=until)
    end_group()


if __name__ == "__main__":
    (take_turn if "in-turns" in sys.argv else main)(Path(sys.argv[1]), int(sys.argv[2]))
