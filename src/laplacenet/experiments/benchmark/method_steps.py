"""A method's step as training takes it, and the bare forward and backward passes that it consists of.

Which passes a method makes is not listed anywhere: they are recorded while one of its steps is taken.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.augment import AugmentConfig
from laplacenet.experiments.benchmark.clock import captured, time_work
from laplacenet.experiments.benchmark.synthetic import CIFAR_STATISTICS, random_images
from laplacenet.experiments.step_times import first_phase
from laplacenet.models import Network, build_model
from laplacenet.runtime import NullMonitor, mixed_precision
from laplacenet.training import Execution, ImageViews, Problem, TrainConfig, config_class, method_class
from laplacenet.training.loop import prepare, take_steps
from laplacenet.training.methods.presets import ORIGINAL, PRESETS
from laplacenet.training.methods.vat import single_precision
from laplacenet.training.step import Stepper

SIDE = 32
LONG = 10**6  # steps, as in a run whose supervised start is not cut
N_LABELED = 4_000


@dataclass(frozen=True)
class MethodCase:
    """A method with the network and the batch that it is measured with."""

    method: str
    model: str = "13-cnn"
    batch_size: int = 100
    labeled_batch_size: int = 50
    n_classes: int = 10

    @property
    def n_unlabeled(self) -> int:
        return self.batch_size - self.labeled_batch_size


def own_case(method: str) -> MethodCase:
    """The network and the batch of the method's own paper on CIFAR-10; LaplaceNet's where it says nothing."""
    preset = PRESETS.get(method, {}).get(ORIGINAL, {})
    fields = {"model": "model.name", "batch_size": "train.batch_size", "labeled_batch_size": "train.labeled_batch_size"}
    known = {field: preset[path] for field, path in fields.items() if path in preset}
    return replace(MethodCase(method), **known)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Pass:
    """One forward pass of a step: of which of the learner's networks, over how many images, and what followed it.

    `trains` where weights get gradients, `of_input` where the input alone does.
    """

    network: int
    n_images: int
    dtype: torch.dtype
    trains: bool
    of_input: bool
    is_mixed: bool


PASSES = ("embed", "embed_before_scaling")
"""The ways through a network; neither goes through the other."""


@contextlib.contextmanager
def recorded_passes(learner: nn.Module) -> Iterator[list[Pass]]:
    """What goes through the networks of a learner meanwhile."""
    networks = [module for module in learner.modules() if isinstance(module, Network)]
    passes: list[Pass] = []

    def watched(number: int, embed: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
        def record(x: Tensor) -> Any:
            grads = torch.is_grad_enabled()
            mixed = torch.is_autocast_enabled(x.device.type)
            passes.append(Pass(number, len(x), x.dtype, grads and not x.requires_grad, x.requires_grad, mixed))
            return embed(x)

        return record

    for number, network in enumerate(networks):
        for name in PASSES:
            setattr(network, name, watched(number, getattr(network, name)))
    try:
        yield passes
    finally:
        for network in networks:
            for name in PASSES:
                delattr(network, name)


class MethodSteps:
    """A stepper with everything it needs, in the phase in which a method spends most of its steps."""

    def __init__(self, case: MethodCase, n_images: int, execution: Execution) -> None:
        images = random_images(n_images, SIDE)
        generator = torch.Generator().manual_seed(0)
        targets = torch.randint(case.n_classes, (n_images,), generator=generator)
        targets[: case.n_classes] = torch.arange(case.n_classes)
        is_hidden = torch.arange(n_images) >= min(N_LABELED, n_images // 2)
        views = ImageViews(AugmentConfig(), CIFAR_STATISTICS, height=SIDE, width=SIDE)
        problem = Problem(torch.where(is_hidden, -1, targets), case.n_classes, views)
        config = TrainConfig(steps=LONG, batch_size=case.batch_size, labeled_batch_size=case.labeled_batch_size)
        options = config_class(case.method)(**{"name": case.method})
        self.method = method_class(case.method)(problem, config, options)
        self.device = execution.device
        learner = prepare(self.method.learner(build_model(case.model, n_classes=case.n_classes)), execution)
        n_first = first_phase(self.method)[0]
        first_step = n_first if 0 < n_first < LONG else 0
        self.stepper = Stepper(self.method, learner, images, execution=execution)
        inputs = self.stepper.supply.inputs
        self.plan = self.method.plan_epoch(1, first_step, learner=learner, inputs=inputs)
        self.passes = self._passes(images, replace(execution, capture=False, compile=False))
        self.stepper.begin(self.plan)

    def _passes(self, images: Tensor, eager: Execution) -> list[Pass]:
        """Those of one step, taken for nothing else."""
        stepper = Stepper(self.method, self.stepper.learner, images, execution=eager)
        stepper.begin(self.plan)
        with recorded_passes(stepper.learner) as passes:
            for _ in stepper.run(self.method.draw(self.plan, self.plan.first_step, 1)):
                pass
        return passes

    def round(self, n_steps: int) -> Iterator[None]:
        """Some steps of one block; yields after each."""
        n_steps = min(n_steps, self.plan.n_steps)
        return self.stepper.run(self.method.draw(self.plan, self.plan.first_step, n_steps))

    def whole_ms(self, n_rounds: int, n_steps: int) -> float:
        """Wall time of a step when rounds follow one another as in training, the drawing included."""
        plan = replace(self.plan, n_steps=min(n_steps, self.plan.n_steps))

        def take_all() -> None:
            for _ in range(n_rounds):
                take_steps(self.stepper, plan, plan.first_step, NullMonitor())

        return 1000 * time_work(take_all, self.device)[1] / (n_rounds * plan.n_steps)


class BarePasses:
    """The passes alone, forward and backward, on images that are already there, and SGD."""

    def __init__(self, case: MethodCase, passes: list[Pass], execution: Execution) -> None:
        self.device, self.passes = execution.device, passes
        n_networks = 1 + max(one.network for one in passes)
        self.networks = nn.ModuleList(
            prepare(build_model(case.model, n_classes=case.n_classes), execution) for _ in range(n_networks)
        )
        generator = torch.Generator().manual_seed(0)
        n = max(one.n_images for one in passes)
        self.targets = torch.randint(case.n_classes, (n,), generator=generator).to(self.device)
        self.inputs = [self._images(one, generator) for one in passes]
        trained = sorted({one.network for one in passes if one.trains})
        self.optimizer = torch.optim.SGD(
            [parameter for number in trained for parameter in self.networks[number].parameters()],
            lr=0.03,
            momentum=0.9,
            nesterov=True,
            weight_decay=5e-4,
            fused=self.device.type == "cuda",
        )
        self._step: Callable[[], None] = captured(self._take, self.device) if self.device.type == "cuda" else self._take

    def _images(self, one: Pass, generator: torch.Generator) -> Tensor:
        images = torch.randn(one.n_images, 3, SIDE, SIDE, generator=generator).to(self.device, one.dtype)
        if self.device.type == "cuda":
            images = images.to(memory_format=torch.channels_last)
        return images.requires_grad_(one.of_input)

    def round(self, n_steps: int) -> Iterator[None]:
        for _ in range(n_steps):
            self._step()
            yield

    def _take(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        losses = [
            loss for one, x in zip(self.passes, self.inputs, strict=True) if (loss := self._loss(one, x)) is not None
        ]
        torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def _loss(self, one: Pass, x: Tensor) -> Tensor | None:
        """Of a pass that trains; one that does not is made and done with."""
        precision = mixed_precision(self.device) if one.is_mixed else single_precision(self.device)
        with precision, torch.set_grad_enabled(one.trains or one.of_input):
            logits = self.networks[one.network](x).float()
            loss = functional.cross_entropy(logits, self.targets[: len(x)])
            if one.of_input:
                torch.autograd.grad(loss, x)
        return loss if one.trains else None
