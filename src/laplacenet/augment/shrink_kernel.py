"""Pictures scaled down as one Triton kernel: each new pixel is a weighted mean of the old ones around it."""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from laplacenet.runtime.kernels import launch

BLOCK = 1024  # values of a small picture that a program computes


@triton.jit
def _tap(center, tap, scale, size):
    """An old pixel around a new one's center, clamped, and its weight: a triangle as wide as two new ones.

    The first is the one whose center comes first inside of the triangle.
    """
    old = tl.floor(center - scale + 0.5).to(tl.int32) + tap
    weight = tl.maximum(1.0 - tl.abs(old + 0.5 - center) / scale, 0.0)
    is_inside = (old >= 0) & (old < size)
    return tl.minimum(tl.maximum(old, 0), size - 1), tl.where(is_inside, weight, 0.0)


@triton.jit
def _shrink_kernel(
    x_ptr, y_ptr, H, W, new_H, new_W, scale_h, scale_w, C: tl.constexpr, ROW_TAPS: tl.constexpr,
    COLUMN_TAPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Some values of one small picture, channels last."""
    picture = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    n_values = new_H * new_W * C
    c, column, row = i % C, i // C % new_W, i // C // new_W
    center_h, center_w = (row + 0.5) * scale_h, (column + 0.5) * scale_w
    total, weights = tl.zeros((BLOCK,), dtype=tl.float32), tl.zeros((BLOCK,), dtype=tl.float32)
    for row_tap in range(ROW_TAPS):
        h, row_weight = _tap(center_h, row_tap, scale_h, H)
        for column_tap in range(COLUMN_TAPS):
            w, column_weight = _tap(center_w, column_tap, scale_w, W)
            weight = row_weight * column_weight
            x = tl.load(x_ptr + ((picture * H + h) * W + w) * C + c, mask=i < n_values, other=0.0).to(tl.float32)
            total += weight * x
            weights += weight
    tl.store(y_ptr + picture * n_values + i, (total / weights).to(y_ptr.dtype.element_ty), mask=i < n_values)


def shrink(x: Tensor, size: tuple[int, int]) -> Tensor:
    """`functional.interpolate(x, size, mode="bilinear", antialias=True)` for a size no larger than x, channels last."""
    x = x.contiguous(memory_format=torch.channels_last)
    n, C, H, W = x.shape
    y = torch.empty((n, C, *size), device=x.device, dtype=x.dtype, memory_format=torch.channels_last)
    scale_h, scale_w = H / size[0], W / size[1]
    launch(_shrink_kernel, (n, triton.cdiv(C * size[0] * size[1], BLOCK)))(
        x, y, H, W, *size, scale_h, scale_w, C, _n_taps(scale_h), _n_taps(scale_w), BLOCK
    )
    return y


def _n_taps(scale: float) -> int:
    """So many centers of old pixels lie inside a triangle that is two new pixels wide, wherever it stands."""
    return math.ceil(2 * scale)
