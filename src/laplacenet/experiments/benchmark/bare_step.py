"""The least that training must do: forward, backward and SGD of a network on images that are already there.

On a GPU in bf16 and channels last, compiled and captured as one graph: the same treatment as our step's.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional

from laplacenet.experiments.benchmark.clock import captured
from laplacenet.experiments.benchmark.settings import StepCase
from laplacenet.models import build_model
from laplacenet.runtime import mixed_precision
from laplacenet.training import Execution
from laplacenet.training.loop import prepare


class BareStep:
    """One network and one fixed batch of n_views · b images."""

    def __init__(self, case: StepCase, execution: Execution, *, side: int) -> None:
        device = self.device = execution.device
        n = case.n_views * case.batch_size
        generator = torch.Generator().manual_seed(0)
        images = torch.randn(n, 3, side, side, generator=generator).to(device)
        if device.type == "cuda":
            images = images.to(dtype=torch.bfloat16, memory_format=torch.channels_last)
        self.images = images
        self.targets = torch.randint(case.n_classes, (n,), generator=generator).to(device)
        self.network = prepare(build_model(case.model, n_classes=case.n_classes), execution)
        self.optimizer = torch.optim.SGD(
            self.network.parameters(),
            lr=0.03,
            momentum=0.9,
            nesterov=True,
            weight_decay=5e-4,
            fused=device.type == "cuda",
        )
        self._loss: Callable[[], Tensor] = (
            torch.compile(self._plain_loss, dynamic=False) if execution.compiles else self._plain_loss
        )
        self._step: Callable[[], None] = captured(self._take, self.device) if device.type == "cuda" else self._take

    def round(self, n_steps: int) -> Iterator[None]:
        """Some steps; yields after each."""
        for _ in range(n_steps):
            self._step()
            yield

    def _plain_loss(self) -> Tensor:
        with mixed_precision(self.device):
            logits = self.network(self.images)
        return functional.cross_entropy(logits.float(), self.targets)

    def _take(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self._loss().backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
