"""What happens to each view: drawn on the host, settled in whole numbers, carried to the device in two tensors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int32, Int64
from numpy import ndarray
from torch import Tensor

from laplacenet.augment.config import AugmentConfig
from laplacenet.augment.operations import OPERATIONS, resolve_magnitudes

N_SAMPLES = 2
"""RandAugment samples that every view has room for; the ones that it lacks are `identity`."""

# columns of ViewParameters.integers; a sample has its operation's number and six coefficients
FLIP, ROW_OFFSET, COLUMN_OFFSET, TOP, LEFT, BOTTOM, RIGHT, FIRST_SAMPLE = range(8)
SAMPLE_COLUMNS = 7
N_COLUMNS = FIRST_SAMPLE + N_SAMPLES * SAMPLE_COLUMNS

_FACTOR_RANGE = (0.05, 0.95)
MAGNITUDE_RANGES = {
    "brightness": _FACTOR_RANGE,
    "color": _FACTOR_RANGE,
    "contrast": _FACTOR_RANGE,
    "posterize": (4.0, 9.0),  # truncated: 4 to 8 bits
    "rotate": (-30.0, 30.0),
    "sharpness": _FACTOR_RANGE,
    "shear_x": (-0.3, 0.3),
    "shear_y": (-0.3, 0.3),
    "solarize": (0.0, 1.0),
    "translate_x": (-0.3, 0.3),
    "translate_y": (-0.3, 0.3),
}
"""The paper's ranges; the other operations have no magnitude."""


@dataclass(frozen=True)
class ViewParameters:
    """All that making the views needs to know of them, one row a view behind any leading axes."""

    integers: Int32[Tensor, "*views 21"]
    """Flip, crop offset, cutout square, and for each sample its operation and six coefficients."""
    factors: Float32[Tensor, "*views 2"]
    """The blending factor of each sample."""

    def __len__(self) -> int:
        return len(self.integers)

    def __getitem__(self, index: Any) -> "ViewParameters":
        """The views at an index along the leading axes."""
        return ViewParameters(self.integers[index], self.factors[index])

    def reshape(self, *leading: int) -> "ViewParameters":
        """The same views behind other leading axes, such as (steps, views)."""
        return ViewParameters(self.integers.reshape(*leading, N_COLUMNS), self.factors.reshape(*leading, N_SAMPLES))

    def to(self, device: torch.device | str) -> "ViewParameters":
        """The same views on a device; a copy from pinned memory does not wait."""
        return ViewParameters(
            self.integers.to(device, non_blocking=True),
            self.factors.to(device, non_blocking=True),
        )

    @staticmethod
    def concatenate(parts: Sequence["ViewParameters"], *, axis: int = 0) -> "ViewParameters":
        """Views after one another along a leading axis, counted from the front."""
        return ViewParameters(
            torch.cat([part.integers for part in parts], dim=axis),
            torch.cat([part.factors for part in parts], dim=axis),
        )


@dataclass(frozen=True)
class Draws:
    """What was drawn for n views, in the paper's units."""

    is_flipped: Bool[ndarray, " n"]
    offsets: Int64[ndarray, "n 2"]
    """Rows and columns by which the crop lies below and to the right of the image."""
    operations: Int64[ndarray, "n 2"]
    magnitudes: Float64[ndarray, "n 2"]
    """Of single precision, so that shifts by them are exact in fixed point."""
    squares: Int64[ndarray, "n 4"]
    """Top, left, bottom and right of the grey square, ends excluded."""


def sample_views(
    n: int, *, n_samples: int, height: int, width: int, config: AugmentConfig, rng: np.random.Generator
) -> ViewParameters:
    """Parameters of n views with this many RandAugment samples each."""
    draws = draw_views(n, n_samples=n_samples, height=height, width=width, config=config, rng=rng)
    return resolve_views(draws, height=height, width=width)


def draw_views(
    n: int, *, n_samples: int, height: int, width: int, config: AugmentConfig, rng: np.random.Generator
) -> Draws:
    """Flip, crop, operations with their magnitudes, and square of n views."""
    pad = config.pad_for(height, width)
    operations = rng.integers(len(OPERATIONS), size=(n, N_SAMPLES))
    operations[:, n_samples:] = OPERATIONS.index("identity")
    return Draws(
        is_flipped=(rng.random(n) < 0.5) & config.flip,
        offsets=rng.integers(-pad, pad, size=(n, 2), endpoint=True),
        operations=operations,
        magnitudes=_draw_magnitudes(operations, rng),
        squares=_draw_squares(n, height=height, width=width, largest=config.cutout, rng=rng),
    )


def resolve_views(draws: Draws, *, height: int, width: int) -> ViewParameters:
    """The draws in whole numbers and single-precision factors, for images of this size."""
    n = len(draws.operations)
    integers = np.empty((n, N_COLUMNS), dtype=np.int32)
    factors = np.ones((n, N_SAMPLES), dtype=np.float32)
    integers[:, FLIP] = draws.is_flipped
    integers[:, ROW_OFFSET : COLUMN_OFFSET + 1] = draws.offsets
    integers[:, TOP : RIGHT + 1] = draws.squares
    for sample in range(N_SAMPLES):
        start = FIRST_SAMPLE + sample * SAMPLE_COLUMNS
        integers[:, start] = draws.operations[:, sample]
        for number, name in enumerate(OPERATIONS):
            rows = np.flatnonzero(draws.operations[:, sample] == number)
            resolved = resolve_magnitudes(name, draws.magnitudes[rows, sample], height=height, width=width)
            integers[rows, start + 1 : start + SAMPLE_COLUMNS], factors[rows, sample] = resolved
    return ViewParameters(torch.from_numpy(integers), torch.from_numpy(factors))


def _draw_magnitudes(operations: Int64[ndarray, "n 2"], rng: np.random.Generator) -> Float64[ndarray, "n 2"]:
    ranges = np.array([MAGNITUDE_RANGES.get(name, (0.0, 0.0)) for name in OPERATIONS])
    low, high = ranges[operations, 0], ranges[operations, 1]
    return _in_single_precision(low + (high - low) * rng.random(operations.shape), low=low, high=high)


def _in_single_precision(
    drawn: Float64[ndarray, "n 2"], *, low: Float64[ndarray, "n 2"], high: Float64[ndarray, "n 2"]
) -> Float64[ndarray, "n 2"]:
    """Rounded, but never up to the range's end, which is not drawn: one posterize in ten million would get there."""
    below_end = np.nextafter(high.astype(np.float32), low.astype(np.float32))
    magnitudes: ndarray = np.minimum(drawn.astype(np.float32), below_end).astype(np.float64)
    return magnitudes


def _draw_squares(
    n: int, *, height: int, width: int, largest: float, rng: np.random.Generator
) -> Int64[ndarray, "n 4"]:
    sides = np.rint(rng.random(n) * largest * width)[:, None]
    top_left = np.floor(rng.random((n, 2)) * (height, width) - sides / 2)
    return np.concatenate([top_left, top_left + sides], axis=1).clip(0, (height, width) * 2).astype(np.int64)
