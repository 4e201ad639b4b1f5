"""Views by batched operations: views with the same operation are gathered, and each group is treated at once."""

import torch
from jaxtyping import Float32, Int32, Int64, UInt8
from torch import Tensor

from laplacenet.augment.operations import APPLY, LUMA, OPERATIONS
from laplacenet.augment.sampling import (
    COLUMN_OFFSET,
    FIRST_SAMPLE,
    FLIP,
    N_SAMPLES,
    RIGHT,
    ROW_OFFSET,
    SAMPLE_COLUMNS,
    TOP,
    ViewParameters,
)

GREY = (125, 123, 114)
GREY_LUMA = (sum(weight * level for weight, level in zip(LUMA, GREY, strict=True)) + (1 << 15)) >> 16


def uint8_views(
    images: UInt8[Tensor, "N c h w"], slots: Int64[Tensor, " n"], parameters: ViewParameters
) -> UInt8[Tensor, "n c h w"]:
    """Flip, crop, the samples, cutout."""
    integers, factors = parameters.integers, parameters.factors
    views = flip_and_crop(images, slots, integers)
    for sample in range(N_SAMPLES):
        start = FIRST_SAMPLE + sample * SAMPLE_COLUMNS
        views = apply_mixed(views, integers[:, start : start + SAMPLE_COLUMNS], factors[:, sample])
    return cut_out(views, integers[:, TOP : RIGHT + 1])


def flip_and_crop(
    images: UInt8[Tensor, "N c h w"], slots: Int64[Tensor, " n"], integers: Int32[Tensor, "n _"]
) -> UInt8[Tensor, "n c h w"]:
    """Mirror where asked, then crop from the image reflected at its borders."""
    c, height, width = images.shape[1:]
    rows = _reflected(integers[:, ROW_OFFSET], height)
    columns = _reflected(integers[:, COLUMN_OFFSET], width)
    columns = torch.where(integers[:, FLIP, None] > 0, width - 1 - columns, columns)
    index = (rows[:, :, None] * width + columns[:, None, :]).flatten(1)[:, None]
    chosen = images.index_select(0, slots).flatten(2)
    return chosen.gather(2, index.expand(-1, c, -1)).reshape(len(slots), c, height, width)


def apply_mixed(
    views: UInt8[Tensor, "n c h w"], samples: Int32[Tensor, "n 7"], factors: Float32[Tensor, " n"]
) -> UInt8[Tensor, "n c h w"]:
    """To each view the operation that its sample names."""
    numbers = samples[:, 0].long()
    order = numbers.argsort(stable=True)
    grouped, samples, factors = views.index_select(0, order), samples[order], factors[order]
    sizes = numbers.bincount(minlength=len(OPERATIONS)).tolist()
    results, start = torch.empty_like(views), 0
    for name, size in zip(OPERATIONS, sizes, strict=True):
        group = slice(start, start := start + size)
        if size:
            results[group] = APPLY[name](grouped[group], samples[group, 1:], factors[group])
    return results.index_select(0, order.argsort())


def cut_out(views: UInt8[Tensor, "n c h w"], squares: Int32[Tensor, "n 4"]) -> UInt8[Tensor, "n c h w"]:
    """Fill each view's square with grey."""
    c, height, width = views.shape[1:]
    y, x = torch.arange(height, dtype=torch.int32), torch.arange(width, dtype=torch.int32)
    top, left, bottom, right = (edge[:, None] for edge in squares.unbind(1))
    # bytes of ones inside the square: masking bits is many times faster than choosing elements
    rows, columns = (((y >= top) & (y < bottom)).byte() * 255, ((x >= left) & (x < right)).byte() * 255)
    inside = (rows[:, :, None] & columns[:, None, :])[:, None]
    fill = torch.tensor(GREY if c == 3 else (GREY_LUMA,), dtype=torch.uint8)
    return (views & ~inside).bitwise_or_(fill[:, None, None] & inside)


def _reflected(offsets: Int32[Tensor, " n"], side: int) -> Int64[Tensor, "n side"]:
    positions = (offsets.long()[:, None] + torch.arange(side)).abs()
    return torch.where(positions >= side, 2 * (side - 1) - positions, positions)
