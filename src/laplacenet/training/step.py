"""One optimization step: gather → views → MixUp → forward → loss → backward → SGD.

On a GPU the step is compiled once, captured once for each batch shape and from then on only replayed: nothing in it
depends on the host. A counter on the device selects the step's row of a block that was drawn ahead.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from laplacenet.models import Network
from laplacenet.runtime import mixed_precision
from laplacenet.training.config import TrainConfig
from laplacenet.training.method import Batch, Block, Method
from laplacenet.training.supply import Supply, supply_for
from laplacenet.training.views import Views

BLOCK_STEPS = 64  # steps drawn ahead at once
WARM_UP_STEPS = 3  # before a capture: compilation and the choice of convolution algorithms


@dataclass(frozen=True)
class Execution:
    """Where and how steps run, and how often a run is saved; nothing here changes what it learns.

    A checkpoint comes when `checkpoint_every_s` have passed, within a long epoch too. The rest concerns GPUs only:
    `compile` hands the loss to torch's compiler and `capture` replays a step as one graph. `resident_bytes` limits the
    data held on the device (by default half of its free memory); what is larger is streamed.
    """

    device: torch.device
    compile: bool = True
    capture: bool = True
    resident_bytes: int | None = None
    checkpoint_every_s: float = 60.0

    @property
    def compiles(self) -> bool:
        return self.compile and self.device.type == "cuda"

    @property
    def captures(self) -> bool:
        return self.capture and self.device.type == "cuda"


class Stepper:
    """Takes steps with a network and keeps what a step changes beside it: the optimizer's momentum, the loss so far."""

    def __init__(
        self,
        method: Method,
        network: Network,
        inputs: Tensor,
        *,
        views: Views,
        config: TrainConfig,
        execution: Execution,
    ) -> None:
        self.method, self.network, self.views, self.device = method, network, views, execution.device
        self.supply: Supply = supply_for(
            inputs,
            self.device,
            resident_bytes=execution.resident_bytes,
            capacity=BLOCK_STEPS * config.batch_size,
        )
        self.optimizer = _optimizer(network, config, self.device)
        self.loss_sum = torch.zeros((), device=self.device)
        self.compile_s = 0.0
        self._targets = torch.full((len(inputs),), -1, dtype=torch.int64, device=self.device)
        # there from the start or never: a captured step cannot learn of weights later
        self._weights = torch.ones(len(inputs), device=self.device) if config.class_weighting else None
        self._loss: Callable[..., Tensor] = (
            torch.compile(self._precise_loss, dynamic=False) if execution.compiles else self._precise_loss
        )
        self._captures = execution.captures
        self._captured: dict[int, CapturedStep] = {}

    def set_targets(self, targets: Tensor, weights: Tensor | None = None) -> None:
        """The label of every input in the coming steps and, where they do not all count alike, its weight."""
        self._targets.copy_(targets)
        if self._weights is not None and weights is not None:
            self._weights.copy_(weights)

    def run(self, block: Block) -> Iterator[None]:
        """Take the block's steps one after another; yields after each (on a GPU, once it is under way)."""
        slots = self.supply.stage(block.rows)
        if not self._captures:
            here, slots = block.map(self._moved), self._moved(slots)
            for i in range(len(block)):
                self._take(here, slots, torch.tensor([i], device=self.device))
                yield
            return
        captured = self._captured.get(block.batch_size) or self._capture(block, slots)
        captured.load(block, slots)
        for _ in range(len(block)):
            captured.replay()
            yield

    @property
    def is_on_host(self) -> bool:
        return self.device.type == "cpu"

    def is_known_to_diverge(self) -> bool:
        """Looked at after every step on a CPU; a GPU would have to be waited for, so there it is not known."""
        return self.is_on_host and not math.isfinite(float(self.loss_sum))

    def momentum(self) -> dict[str, Tensor]:
        state = self.optimizer.state
        return {name: state[p]["momentum_buffer"] for name, p in self.network.named_parameters()}

    def _take(self, block: Block, slots: Tensor, i: Tensor) -> None:
        """The step itself, number `i` of the block."""
        now = block.at(i)
        views = self.views.make(self.supply.buffer, slots.index_select(0, i)[0].repeat(now.n_views), now.views)
        self.optimizer.param_groups[0]["lr"].copy_(now.learning_rate)
        self.optimizer.zero_grad(set_to_none=True)
        targets = self._targets.index_select(0, now.rows)
        weights = None if self._weights is None else self._weights.index_select(0, now.rows)
        loss = self._loss(views, targets, now.partners, now.mix_weight, weights)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.loss_sum += loss.detach()

    def _moved(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.device)

    def _precise_loss(
        self, views: Tensor, targets: Tensor, partners: Tensor, mix_weight: Tensor, weights: Tensor | None
    ) -> Tensor:
        with mixed_precision(self.device):
            return self.method.loss(self.network, Batch(views, targets, partners, mix_weight, weights))

    def _capture(self, block: Block, slots: Tensor) -> "CapturedStep":
        """Warm up, capture, and put everything back as it was: a capture takes no step."""
        started_at = time.perf_counter()
        changed = [*self.network.parameters(), *self.network.buffers(), *self.momentum().values(), self.loss_sum]
        before = [tensor.detach().clone() for tensor in changed]
        captured = CapturedStep(block, slots, self.device, take=self._take)
        with torch.no_grad():
            for tensor, value in zip(changed, before, strict=True):
                tensor.copy_(value)
        self._captured[block.batch_size] = captured
        torch.cuda.synchronize(self.device)
        self.compile_s += time.perf_counter() - started_at
        return captured


class CapturedStep:
    """A step as one replayable graph over static buffers that hold a block."""

    def __init__(
        self, block: Block, slots: Tensor, device: torch.device, *, take: Callable[[Block, Tensor, Tensor], None]
    ) -> None:
        def room(tensor: Tensor) -> Tensor:
            return torch.zeros((BLOCK_STEPS, *tensor.shape[1:]), dtype=tensor.dtype, device=device)

        self.block, self.slots = block.map(room), room(slots)
        self.counter = torch.zeros(1, dtype=torch.int64, device=device)
        self.load(block, slots)
        side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_STEPS):
                take(self.block, self.slots, self.counter)
        torch.cuda.current_stream(device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            take(self.block, self.slots, self.counter)
            self.counter += 1

    def load(self, block: Block, slots: Tensor) -> None:
        """The next block, through pinned memory: the host does not wait, and the steps under way finish first."""
        for static, fresh in zip([*self.block.tensors(), self.slots], [*block.tensors(), slots], strict=True):
            static[: len(fresh)].copy_(fresh.pin_memory(), non_blocking=True)
        self.counter.zero_()

    def replay(self) -> None:
        self.graph.replay()


def _optimizer(network: Network, config: TrainConfig, device: torch.device) -> torch.optim.SGD:
    """SGD with Nesterov momentum; the learning rate is a tensor, so that a captured step can be told another.

    Momentum begins as zeros rather than as the first gradient: the first update is the same, and its memory is fixed.
    """
    optimizer = torch.optim.SGD(
        network.parameters(),
        lr=torch.tensor(config.lr, device=device),
        momentum=config.momentum,
        nesterov=config.momentum > 0,
        weight_decay=config.weight_decay,
        fused=device.type == "cuda",
    )
    for parameter in network.parameters():
        optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer
