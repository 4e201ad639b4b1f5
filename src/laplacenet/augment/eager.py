"""Views by batched operations: views with the same operation are gathered, and each group is treated at once."""

import torch
from jaxtyping import Float32, Int32, Int64, UInt8
from torch import Tensor

from laplacenet.augment.geometry import copied_rows
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

KINDS = tuple(dict.fromkeys(APPLY[name] for name in OPERATIONS))
"""What is done to views; some operations differ in their coefficients alone and are treated together."""
KIND_OF_OPERATION = torch.tensor([KINDS.index(APPLY[name]) for name in OPERATIONS])

GREY = (125, 123, 114)
GREY_LUMA = (sum(weight * level for weight, level in zip(LUMA, GREY, strict=True)) + (1 << 15)) >> 16


def uint8_views(
    images: UInt8[Tensor, "N c h w"], slots: Int64[Tensor, " n"], parameters: ViewParameters
) -> UInt8[Tensor, "n c h w"]:
    """Flip, crop, the samples, cutout."""
    if not len(slots):
        return images[:0]
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
    height, width = images.shape[2:]
    order = integers[:, FLIP].argsort(stable=True)
    n_plain = len(order) - int(integers[:, FLIP].sum())
    pad = int(integers[:, COLUMN_OFFSET].abs().max())
    framed = reflected_columns(images.index_select(0, slots[order]), n_plain, pad)
    rows = _reflected(integers[:, ROW_OFFSET], height)
    columns = (integers[:, COLUMN_OFFSET, None] + pad).expand(-1, height)
    return copied_rows(framed, order.argsort(), rows, columns, width=width)


def reflected_columns(images: UInt8[Tensor, "n c h w"], n_plain: int, pad: int) -> UInt8[Tensor, "n c h padded"]:
    """The images, mirrored from the `n_plain`-th on, and beside them what a mirror at either border shows."""
    n, c, height, width = images.shape
    framed = images.new_empty(n, c, height, width + 2 * pad)
    framed[:n_plain, ..., pad : pad + width] = images[:n_plain]
    framed[n_plain:, ..., pad : pad + width] = images[n_plain:].flip(3)
    for distance in range(1, pad + 1):
        framed[..., pad - distance] = framed[..., pad + distance]
        framed[..., pad + width - 1 + distance] = framed[..., pad + width - 1 - distance]
    return framed


def apply_mixed(
    views: UInt8[Tensor, "n c h w"], samples: Int32[Tensor, "n 7"], factors: Float32[Tensor, " n"]
) -> UInt8[Tensor, "n c h w"]:
    """To each view the operation that its sample names."""
    numbers = KIND_OF_OPERATION[samples[:, 0]]
    order = numbers.argsort(stable=True)
    grouped, samples, factors = views.index_select(0, order), samples[order], factors[order]
    sizes = numbers.bincount(minlength=len(KINDS)).tolist()
    groups = zip(KINDS, *(torch.split(part, sizes) for part in (grouped, samples[:, 1:], factors)), strict=True)
    results = [apply(some, coefficients, blends) for apply, some, coefficients, blends in groups if len(some)]
    return torch.cat(results).index_select(0, order.argsort())


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
