"""Rows to learn from: images as one uint8 tensor, or vectors, with what is known of their labels."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float32, Int64, UInt8
from torch import Tensor

from laplacenet.runtime import InputError

UNKNOWN = -1
"""The label of an image whose class is not known or must not be seen."""

# half a grey level: a flat channel stays finite when it is divided by its deviation
SMALLEST_STD = 0.5 / 255
ROWS_CHECKED_AT_ONCE = 1 << 12


@dataclass(frozen=True)
class ChannelStatistics:
    """Mean and standard deviation of each channel, in units where white is 1."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std):
            raise InputError(f"channel statistics need as many means as deviations; got {self.mean} and {self.std}")
        if not all(math.isfinite(value) for value in self.mean):
            raise InputError(f"channel means must be finite; got {self.mean}")
        if not all(math.isfinite(value) and value > 0 for value in self.std):
            raise InputError(f"channel deviations must be finite and above 0; got {self.std}")


MEASURED = ChannelStatistics((), ())
"""A placeholder: statistics will be measured on the images."""


def channel_statistics(
    images: UInt8[Tensor, "n c h w"], *, block: int = 256, check: Callable[[int, int], None] | None = None
) -> ChannelStatistics:
    """Mean and deviation of each channel, from an exact histogram of its grey levels.

    `check(start, stop)` is called before those rows are read.
    """
    histogram = np.zeros((images.shape[1], 256), dtype=np.int64)
    for start in range(0, len(images), block):
        if check is not None:
            check(start, min(start + block, len(images)))
        pixels = images[start : start + block].cpu().numpy()
        for channel in range(images.shape[1]):
            histogram[channel] += np.bincount(pixels[:, channel].ravel(), minlength=256)
    share = histogram / histogram.sum(axis=1, keepdims=True)
    level = np.arange(256) / 255
    mean = share @ level
    variance = (share * (level - mean[:, None]) ** 2).sum(axis=1)
    return ChannelStatistics(tuple(mean.tolist()), tuple(np.sqrt(variance).clip(min=SMALLEST_STD).tolist()))


def require_labels(labels: object, *, n: int, class_names: tuple[str, ...]) -> None:
    """Check that labels fit their rows and class names; −1 means unknown."""
    if not isinstance(labels, Tensor) or labels.dtype != torch.int64 or labels.ndim != 1:
        raise InputError(f"labels must be an int64 tensor (n,); got {describe_value(labels)}")
    if len(labels) != n:
        raise InputError(f"{n} rows but {len(labels)} labels; each row needs one label (-1 = unknown)")
    if len(set(class_names)) != len(class_names):
        raise InputError(f"class names must differ from one another; got {', '.join(sorted(class_names))}")
    smallest, largest = int(labels.min()), int(labels.max())
    if smallest < UNKNOWN or largest >= len(class_names):
        raise InputError(
            f"labels must lie between -1 (unknown) and {len(class_names) - 1} for {len(class_names)} classes;"
            f" got {smallest} to {largest}"
        )


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images of one size, their labels (−1 = unknown) and the names of the classes.

    `names` are the file names where the images came from files. `statistics` are measured on the images unless given:
    a test set takes those of its train set.
    """

    images: UInt8[Tensor, "n c h w"]
    labels: Int64[Tensor, " n"]
    class_names: tuple[str, ...]
    names: tuple[str, ...] | None = None
    statistics: ChannelStatistics = MEASURED

    def __post_init__(self) -> None:
        images: object = self.images
        if not isinstance(images, Tensor) or images.dtype != torch.uint8 or images.ndim != 4:
            raise InputError(f"images must be a uint8 tensor (n, c, h, w); got {describe_value(images)}")
        if images.shape[1] not in (1, 3):
            raise InputError(f"images must have 1 or 3 channels; got {images.shape[1]}")
        if images.numel() == 0:
            raise InputError(f"no images: the tensor has shape {tuple(images.shape)}")
        require_labels(self.labels, n=len(images), class_names=self.class_names)
        if self.names is not None and len(self.names) != len(images):
            raise InputError(f"{len(images)} images but {len(self.names)} names; each image needs one name")
        if self.statistics == MEASURED:
            object.__setattr__(self, "statistics", channel_statistics(images))
        if len(self.statistics.mean) != images.shape[1]:
            raise InputError(f"statistics of {len(self.statistics.mean)} channels for {images.shape[1]}-channel images")

    def __len__(self) -> int:
        return len(self.images)

    @property
    def n_classes(self) -> int:
        """C, counting classes of which no label is known."""
        return len(self.class_names)


@dataclass(frozen=True, eq=False)
class VectorSet:
    """Finite float32 vectors, their labels (−1 = unknown) and the names of the classes."""

    vectors: Float32[Tensor, "n d"]
    labels: Int64[Tensor, " n"]
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        vectors: object = self.vectors
        if not isinstance(vectors, Tensor) or vectors.dtype != torch.float32 or vectors.ndim != 2:
            raise InputError(f"vectors must be a float32 tensor (n, d); got {describe_value(vectors)}")
        if vectors.numel() == 0:
            raise InputError(f"no vectors: the tensor has shape {tuple(vectors.shape)}")
        if not all(bool(some.isfinite().all()) for some in torch.split(vectors, ROWS_CHECKED_AT_ONCE)):
            raise InputError("vectors must be finite; some hold NaN or infinity")
        require_labels(self.labels, n=len(vectors), class_names=self.class_names)

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def n_classes(self) -> int:
        """C, counting classes of which no label is known."""
        return len(self.class_names)


def describe_value(value: object) -> str:
    if isinstance(value, Tensor | np.ndarray):
        return f"{type(value).__name__} {value.dtype} {tuple(value.shape)}"
    return type(value).__name__
