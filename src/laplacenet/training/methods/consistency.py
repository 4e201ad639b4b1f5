"""What methods share that ask for agreement: their views, Gaussian noise on them, and a weight that rises."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from laplacenet.augment import ViewParameters
from laplacenet.models import Network
from laplacenet.runtime import stream
from laplacenet.runtime.device import at_least_float32
from laplacenet.training.method import Batch, EpochPlan
from laplacenet.training.methods.base import TARGETS, BaseMethod, MethodConfig
from laplacenet.training.noise import normal_noise
from laplacenet.training.schedule import sigmoid_ramp_up
from laplacenet.training.views import VectorViews, ViewGroup, groups_of_views, views_of_all

CONSISTENCY, NOISE_SEED, WEIGHTS = "consistency", "noise_seed", "weights"
STRENGTHS = ("weak", "strong")
LABELED, WHOLE_BATCH = "labeled", "batch"
DENOMINATORS = (LABELED, WHOLE_BATCH)
"""By which number of images the labeled loss is divided."""


@dataclass(frozen=True)
class ViewConfig(MethodConfig):
    """`strength` is that of all views: weak (flip and crop) or strong (RandAugment as in LaplaceNet).

    `noise` is the standard deviation of the Gaussian noise added to every view; vectors have no other augmentation.
    """

    strength: str = "weak"
    noise: float = 0.0

    def __post_init__(self) -> None:
        self.require(self.strength in STRENGTHS, "strength", f"be one of {', '.join(STRENGTHS)}")
        self.require_weight("noise")

    def require_weight(self, *names: str) -> None:
        for name in names:
            self.require(0 <= getattr(self, name) < float("inf"), name, "not be negative or infinite")


@dataclass(frozen=True)
class ConsistencyConfig(ViewConfig):
    """`consistency` is the weight of the agreement once it has risen over the first `ramp_up` of all steps."""

    consistency: float = 100.0
    ramp_up: float = 0.25

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_weight("consistency")
        self.require(0 <= self.ramp_up <= 1, "ramp_up", "lie between 0 and 1")


@dataclass(frozen=True, eq=False)
class ViewTraining(BaseMethod):
    """Some views of every row, all of one strength; two unless the method says otherwise."""

    config: ViewConfig

    @property
    def n_views(self) -> int:
        return 2

    def draw_views(
        self, n_steps: int, n_labeled: int, n_unlabeled: int, rng: np.random.Generator
    ) -> tuple[Int64[Tensor, " v"], ViewParameters | None]:
        if self.config.strength == "weak":
            group = ViewGroup(0, n_labeled + n_unlabeled, "weak", n_views=self.n_views)
            return groups_of_views(self.views, n_steps, [group], rng=rng)
        return views_of_all(
            self.views, n_steps, n_views=self.n_views, n_labeled=n_labeled, n_unlabeled=n_unlabeled, rng=rng
        )

    def draw_numbers(self, plan: EpochPlan, first_step: int, n_steps: int, batch_size: int) -> dict[str, np.ndarray]:
        if self.config.noise == 0:
            return {}
        return {NOISE_SEED: self.draw_seeds("noise", first_step, n_steps)}

    def draw_seeds(self, name: str, first_step: int, n_steps: int) -> Int64[np.ndarray, " steps"]:
        """One seed a step, for noise that is made on the device."""
        return stream(self.problem.seed, name, first_step).integers(0, 2**62, size=n_steps)

    def noisy_views(self, batch: Batch) -> Float[Tensor, "v ..."]:
        if self.config.noise == 0:
            return batch.views
        noise = normal_noise(batch.draws[NOISE_SEED], batch.views.shape)
        return batch.views + (self.config.noise * noise).to(batch.views.dtype)


@dataclass(frozen=True, eq=False)
class ConsistencyTraining(ViewTraining):
    """A weight w(t) = w_max·exp(−5·(1 − t/T)²) for the agreement between outputs."""

    config: ConsistencyConfig

    def notes(self) -> list[str]:
        if isinstance(self.views, VectorViews) and self.config.noise == 0:
            return ["vectors have no augmentation, so all views of one are equal; set method.noise to make them differ"]
        return []

    def draw_numbers(self, plan: EpochPlan, first_step: int, n_steps: int, batch_size: int) -> dict[str, np.ndarray]:
        ramp = sigmoid_ramp_up(first_step, n_steps, self.config.ramp_up * self.steps)
        numbers = super().draw_numbers(plan, first_step, n_steps, batch_size)
        return {**numbers, CONSISTENCY: np.float32(self.config.consistency) * ramp}


def supervised_loss(logits: Float[Tensor, "v C"], batch: Batch, *, over: str = LABELED) -> Float[Tensor, ""]:
    """The cross-entropy of the labeled rows, which come first, divided by their number or by that of all rows."""
    mean = functional.cross_entropy(logits[: batch.n_labeled], batch.tables[TARGETS][: batch.n_labeled])
    return mean if over == LABELED else batch.n_labeled / len(batch.rows) * mean


def weighted_loss(logits: Float[Tensor, "b C"], batch: Batch) -> Float[Tensor, ""]:
    """1/b Σ_i w_i·CE_i with the epoch's labels and weights; a row without a label has weight 0."""
    losses = functional.cross_entropy(logits, batch.tables[TARGETS].clamp(min=0), reduction="none")
    return (losses * batch.tables[WEIGHTS]).mean()


def embed_and_classify(network: Network, x: Tensor) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n C"]]:
    """z(x) and f(x) from one pass, both in fp32."""
    z = at_least_float32(network.embed(x))
    with torch.autocast(z.device.type, enabled=False):
        return z, network.head(z)
