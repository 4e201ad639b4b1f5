"""Virtual adversarial training: outputs should not change in the direction in which they change most.

For each unlabeled image the method finds the small change of its pixels that changes the output most. The network is
trained to give the same output with and without this change, so that its output is smooth around every image. Unlike
augmentation, this needs no knowledge of what may change in an image.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.models import still_statistics
from laplacenet.runtime.device import at_least_float32
from laplacenet.training.method import Batch, EpochPlan
from laplacenet.training.methods.consistency import ViewConfig, ViewTraining, supervised_loss
from laplacenet.training.noise import normal_noise

DIRECTION_SEED = "direction_seed"


@dataclass(frozen=True)
class VATConfig(ViewConfig):
    """`radius` is the paper's ε, `probe` its ξ: the length of the step that measures how the output changes.

    The authors' ξ of 1e-6 vanishes in single precision. `n_power_iterations` is how often the direction is improved;
    with 0 it is random. `adversarial_weight` is the paper's α; `entropy_weight` is β,
    1 in its version with entropy minimization (VAT + EntMin).
    """

    name: str = "vat"
    radius: float = 8.0
    probe: float = 0.1
    n_power_iterations: int = 1
    adversarial_weight: float = 1.0
    entropy_weight: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_weight("radius", "adversarial_weight", "entropy_weight")
        self.require(0 < self.probe < float("inf"), "probe", "be positive and finite")
        self.require(0 <= self.n_power_iterations <= 100, "n_power_iterations", "lie between 0 and 100")


@dataclass(frozen=True, eq=False)
class VAT(ViewTraining):
    """CE(f(x), y) on labeled images + α·1/b_u Σ KL(p(u) ‖ p(u + r)) (+ β·1/b_u Σ H(p(u))) on unlabeled ones.

    r = ε·d, where d is the unit direction after one power iteration that starts from Gaussian noise: d ← ∇_r KL(p(u) ‖
    p(u + r)) at r = ξ·d, scaled to length 1. No gradient flows through p(u) in the divergence, nor through d. As in the
    authors' code, only the pass over labeled images updates the running batch statistics. d is computed in single
    precision: in bf16 a step of length ξ would be rounded away.

    Kept between steps: nothing but the network.

    Our reading: the radius ε is measured in standardized pixels; the authors whiten images by ZCA, where the same
    length changes a picture differently. Unlabeled images are those without a label; the authors draw them from all
    images.
    """

    config: VATConfig

    summary: ClassVar[str] = "outputs that do not change in their most sensitive direction"
    source: ClassVar[str] = "Miyato et al., Virtual Adversarial Training, 2018"

    @property
    def n_views(self) -> int:
        return 1

    def draw_numbers(self, plan: EpochPlan, first_step: int, n_steps: int, batch_size: int) -> dict[str, np.ndarray]:
        numbers = super().draw_numbers(plan, first_step, n_steps, batch_size)
        return {**numbers, DIRECTION_SEED: self.draw_seeds("direction", first_step, n_steps)}

    def loss(self, learner: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        views = self.noisy_views(batch)
        labeled, unlabeled = views[: batch.n_labeled], views[batch.n_labeled :]
        supervised = supervised_loss(at_least_float32(learner(labeled)), batch)
        if not len(unlabeled):
            return supervised
        start = normal_noise(batch.draws[DIRECTION_SEED], unlabeled.shape)
        with still_statistics(learner):
            with torch.set_grad_enabled(self.config.entropy_weight > 0):
                logits = at_least_float32(learner(unlabeled))
            d = adversarial_direction(learner, unlabeled, start, config=self.config)
            moved = at_least_float32(learner(unlabeled + (self.config.radius * d).to(unlabeled.dtype)))
        p = logits.softmax(dim=1)
        divergence = functional.kl_div(moved.log_softmax(dim=1), p.detach(), reduction="batchmean")
        entropy = -(p * logits.log_softmax(dim=1)).sum(dim=1).mean()
        unlabeled_loss: Tensor = self.config.adversarial_weight * divergence + self.config.entropy_weight * entropy
        return supervised + unlabeled_loss


def adversarial_direction(
    network: nn.Module, x: Float[Tensor, "n ..."], start: Float[Tensor, "n ..."], *, config: VATConfig
) -> Float[Tensor, "n ..."]:
    """d of every input, of length 1."""
    x = at_least_float32(x.detach())
    d = unit_length(start.to(x.dtype))
    with single_precision(x.device):
        with torch.no_grad():
            p = network(x).softmax(dim=1)
        for _ in range(config.n_power_iterations):
            d = d.detach().requires_grad_()
            moved = network(x + config.probe * d).log_softmax(dim=1)
            (gradient,) = torch.autograd.grad(functional.kl_div(moved, p, reduction="sum"), d)
            d = unit_length(gradient)
    return d.detach()


def unit_length(d: Float[Tensor, "n ..."]) -> Float[Tensor, "n ..."]:
    """Divided by the largest entry first: the square of a small gradient vanishes."""
    rows = d.flatten(1)
    rows = rows / (rows.abs().amax(dim=1, keepdim=True) + 1e-30)
    return functional.normalize(rows, dim=1).reshape(d.shape)


@contextlib.contextmanager
def single_precision(device: torch.device) -> Iterator[None]:
    """No bf16, no TF32; what others of this process asked for is put back."""
    convolutions = torch.backends.cudnn.conv  # type: ignore[attr-defined,unused-ignore]  # newer than torch's types
    products = torch.backends.cuda.matmul
    before = convolutions.fp32_precision, products.fp32_precision
    convolutions.fp32_precision = products.fp32_precision = "ieee"
    try:
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        convolutions.fp32_precision, products.fp32_precision = before
