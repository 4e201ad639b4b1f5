"""The Π-model: two views of an image should get the same output.

An image is augmented twice at random. Its class does not depend on that, so the two outputs are trained to agree, on
labeled and unlabeled images alike. The weight of this agreement rises from almost nothing, because the outputs of an
untrained network are no targets.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.models import still_statistics
from laplacenet.runtime.device import at_least_float32
from laplacenet.training.method import Batch, EpochPlan
from laplacenet.training.methods.consistency import (
    CONSISTENCY,
    ConsistencyConfig,
    ConsistencyTraining,
    supervised_loss,
)


@dataclass(frozen=True)
class PiModelConfig(ConsistencyConfig):
    """The original divides the labeled loss by the whole batch and multiplies its weight of 100 by the labeled share.

    Its loss is ours times the labeled share, which Adam's steps do not depend on.
    """

    name: str = "pi-model"
    ramp_up: float = 80 / 300


@dataclass(frozen=True, eq=False)
class PiModel(ConsistencyTraining):
    """CE(z_i, y_i) on labeled images + w(t)·1/(C·b) Σ_i ‖z_i − z̃_i‖², z = softmax f(x'), z̃ = softmax f(x'').

    Gradients flow through both views. Each view is a pass of its own with its own batch statistics; as in the authors'
    code, only the second pass updates the running statistics, and w is 0 in the first epoch.

    Kept between steps: nothing but the network.

    Our reading: every batch has the same number of labeled images, while the authors draw batches from all images. Each
    view is mirrored or not by a draw of its own; the authors mirror both views of an image or neither.
    """

    config: PiModelConfig

    summary: ClassVar[str] = "two views of an image should get the same output"
    source: ClassVar[str] = "Laine and Aila, Temporal Ensembling for Semi-Supervised Learning, 2017"

    def draw_numbers(self, plan: EpochPlan, first_step: int, n_steps: int, batch_size: int) -> dict[str, np.ndarray]:
        numbers = super().draw_numbers(plan, first_step, n_steps, batch_size)
        return numbers if plan.index else {**numbers, CONSISTENCY: np.zeros(n_steps, dtype=np.float32)}

    def loss(self, learner: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        first, second = self.noisy_views(batch).chunk(2)
        with still_statistics(learner):
            logits = at_least_float32(learner(first))
        other = at_least_float32(learner(second))
        agreement = functional.mse_loss(logits.softmax(dim=1), other.softmax(dim=1))
        return supervised_loss(logits, batch) + batch.draws[CONSISTENCY] * agreement
