"""What is made of stored inputs before the network reads them: views of images, vectors as they are."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, get_args, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from laplacenet.augment import AugmentConfig, ViewParameters, make_views, normalized, sample_views, vector_views
from laplacenet.data import ChannelStatistics
from laplacenet.runtime import InputError

Strength = Literal["weak", "labeled", "unlabeled"]
"""Flip and crop alone; or the paper's views of labeled images (one RandAugment sample), of unlabeled ones (two)."""
STRENGTHS: tuple[str, ...] = get_args(Strength)


@runtime_checkable
class Views(Protocol):
    """Sampling apart from applying: `sample` draws on the host, `make` applies where the inputs lie."""

    def sample(self, n: int, strength: Strength, *, rng: np.random.Generator) -> ViewParameters | None:
        """Parameters of n views; None for inputs that have no augmentation."""
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

    def sample(self, n: int, strength: Strength, *, rng: np.random.Generator) -> ViewParameters:
        config, n_samples = self.config, 0
        if strength == "weak":
            config = replace(config, cutout=0.0)
        else:
            n_samples = config.n_labeled_samples if strength == "labeled" else config.n_unlabeled_samples
        return sample_views(n, n_samples=n_samples, height=self.height, width=self.width, config=config, rng=rng)

    def make(
        self, inputs: Tensor, slots: Int64[Tensor, " n"], parameters: ViewParameters | None
    ) -> Float[Tensor, "n c h w"]:
        assert parameters is not None
        return make_views(inputs, slots, parameters, statistics=self.statistics)

    def plain(self, inputs: Tensor) -> Float[Tensor, "n c h w"]:
        return normalized(inputs, self.statistics)


@dataclass(frozen=True)
class VectorViews:
    """A vector has one view, whatever the strength: itself."""

    def sample(self, n: int, strength: Strength, *, rng: np.random.Generator) -> None:
        return None

    def make(
        self, inputs: Tensor, slots: Int64[Tensor, " n"], parameters: ViewParameters | None
    ) -> Float[Tensor, "n d"]:
        return vector_views(inputs, slots)

    def plain(self, inputs: Tensor) -> Float[Tensor, "n d"]:
        return inputs


@dataclass(frozen=True)
class ViewGroup:
    """`n_views` views of the batch's rows from `first` up to `end`, all of one strength."""

    first: int
    end: int
    strength: Strength
    n_views: int = 1

    def __post_init__(self) -> None:
        if self.strength not in STRENGTHS:
            raise InputError(f"ViewGroup: unknown strength {self.strength!r}; choose one of {', '.join(STRENGTHS)}")

    def __len__(self) -> int:
        return (self.end - self.first) * self.n_views


def groups_of_views(
    views: Views, n_steps: int, groups: Sequence[ViewGroup], *, rng: np.random.Generator
) -> tuple[Int64[Tensor, " v"], ViewParameters | None]:
    """One group after another, each view by view: which row each view shows, and the parameters of (steps, v) views."""
    sources = [torch.arange(group.first, group.end).repeat(group.n_views) for group in groups]
    parts = [
        parameters.reshape(n_steps, len(group))
        for group in groups
        if (parameters := views.sample(n_steps * len(group), group.strength, rng=rng)) is not None
    ]
    return torch.cat(sources), ViewParameters.concatenate(parts, axis=1) if parts else None


def views_of_all(
    views: Views, n_steps: int, *, n_views: int, n_labeled: int, n_unlabeled: int, rng: np.random.Generator
) -> tuple[Int64[Tensor, " v"], ViewParameters | None]:
    """The paper's batch: each of the n_views views shows the whole batch, the labeled rows first."""
    sources = torch.arange(n_labeled + n_unlabeled).repeat(n_views)
    sizes: list[tuple[int, Strength]] = [(n_labeled, "labeled"), (n_unlabeled, "unlabeled")]
    parts = [
        parameters.reshape(n_steps, n_views, n)
        for n, strength in sizes
        if (parameters := views.sample(n_steps * n_views * n, strength, rng=rng)) is not None
    ]
    if not parts:
        return sources, None
    return sources, ViewParameters.concatenate(parts, axis=2).reshape(n_steps, len(sources))
