"""What is made of stored inputs before the network reads them: views of images, vectors as they are."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int64
from torch import Tensor

from laplacenet.augment import AugmentConfig, ViewParameters, make_views, normalized, sample_views, vector_views
from laplacenet.data import ChannelStatistics


@runtime_checkable
class Views(Protocol):
    """Sampling apart from applying: `sample` draws on the host, `make` applies where the inputs lie."""

    def sample(
        self, shape: tuple[int, int], *, n_labeled: int, n_unlabeled: int, rng: np.random.Generator
    ) -> ViewParameters | None:
        """Parameters for (steps, n_views) batches of n_labeled labeled and then n_unlabeled unlabeled inputs."""
        ...

    def make(self, inputs: Tensor, slots: Int64[Tensor, " n"], parameters: ViewParameters | None) -> Tensor: ...

    def plain(self, inputs: Tensor) -> Tensor:
        """The inputs unaugmented, as the network reads them."""
        ...


@dataclass(frozen=True)
class ImageViews:
    """The paper's table: one RandAugment sample for labeled images, two for unlabeled ones."""

    config: AugmentConfig
    statistics: ChannelStatistics
    height: int
    width: int

    def sample(
        self, shape: tuple[int, int], *, n_labeled: int, n_unlabeled: int, rng: np.random.Generator
    ) -> ViewParameters:
        n_steps, n_views = shape
        parts = [
            sample_views(
                n_steps * n_views * n,
                n_samples=n_samples,
                height=self.height,
                width=self.width,
                config=self.config,
                rng=rng,
            ).reshape(n_steps, n_views, n)
            for n, n_samples in (
                (n_labeled, self.config.n_labeled_samples),
                (n_unlabeled, self.config.n_unlabeled_samples),
            )
        ]
        return ViewParameters.concatenate(parts, axis=2).reshape(n_steps, n_views * (n_labeled + n_unlabeled))

    def make(
        self, inputs: Tensor, slots: Int64[Tensor, " n"], parameters: ViewParameters | None
    ) -> Float[Tensor, "n c h w"]:
        assert parameters is not None
        return make_views(inputs, slots, parameters, statistics=self.statistics)

    def plain(self, inputs: Tensor) -> Float[Tensor, "n c h w"]:
        return normalized(inputs, self.statistics)


@dataclass(frozen=True)
class VectorViews:
    """A vector has one view: itself."""

    def sample(self, shape: tuple[int, int], *, n_labeled: int, n_unlabeled: int, rng: np.random.Generator) -> None:
        return None

    def make(
        self, inputs: Tensor, slots: Int64[Tensor, " n"], parameters: ViewParameters | None
    ) -> Float[Tensor, "n d"]:
        return vector_views(inputs, slots)

    def plain(self, inputs: Tensor) -> Float[Tensor, "n d"]:
        return inputs
