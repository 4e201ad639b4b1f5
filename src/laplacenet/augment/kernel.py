"""Views on a GPU: one Triton program a view, from the uint8 image to the normalized view.

A program reads its image by slot, so the gather is folded in, and keeps the stages of its view in two buffers of global
memory that never leave the cache. Everything that depends on a magnitude arrives settled; what is left is integer and
single-precision arithmetic, product and sum rounded apart as in Pillow (`enable_fp_fusion=False`), and for autocontrast
double precision. Shapes are static and nothing waits for the host, so a step with it can be captured.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from laplacenet.augment import sampling
from laplacenet.augment.eager import GREY, GREY_LUMA
from laplacenet.augment.operations import LUMA, OPERATIONS
from laplacenet.augment.sampling import ViewParameters
from laplacenet.runtime import compute_dtype
from laplacenet.runtime.kernels import launch

_MAX_BLOCK = 1024  # pixels that a program holds at once: 8 a thread with 4 warps
_N_WARPS = 4

_FLIP = tl.constexpr(sampling.FLIP)
_ROW_OFFSET = tl.constexpr(sampling.ROW_OFFSET)
_COLUMN_OFFSET = tl.constexpr(sampling.COLUMN_OFFSET)
_TOP = tl.constexpr(sampling.TOP)
_LEFT = tl.constexpr(sampling.LEFT)
_BOTTOM = tl.constexpr(sampling.BOTTOM)
_RIGHT = tl.constexpr(sampling.RIGHT)
_FIRST_SAMPLE = tl.constexpr(sampling.FIRST_SAMPLE)
_SAMPLE_COLUMNS = tl.constexpr(sampling.SAMPLE_COLUMNS)
_N_SAMPLES = tl.constexpr(sampling.N_SAMPLES)
_N_COLUMNS = tl.constexpr(sampling.N_COLUMNS)

_AUTOCONTRAST = tl.constexpr(OPERATIONS.index("autocontrast"))
_BRIGHTNESS = tl.constexpr(OPERATIONS.index("brightness"))
_COLOR = tl.constexpr(OPERATIONS.index("color"))
_CONTRAST = tl.constexpr(OPERATIONS.index("contrast"))
_EQUALIZE = tl.constexpr(OPERATIONS.index("equalize"))
_IDENTITY = tl.constexpr(OPERATIONS.index("identity"))
_POSTERIZE = tl.constexpr(OPERATIONS.index("posterize"))
_SHARPNESS = tl.constexpr(OPERATIONS.index("sharpness"))
_SOLARIZE = tl.constexpr(OPERATIONS.index("solarize"))

_RED, _GREEN, _BLUE = (tl.constexpr(weight) for weight in LUMA)
_GREY_RED, _GREY_GREEN, _GREY_BLUE = (tl.constexpr(level) for level in GREY)
_GREY_LUMA = tl.constexpr(GREY_LUMA)


def _compiled(function: Callable[..., None]) -> Any:
    """A Triton function. Triton reads a function's own source and globals: it gets the bare one, whoever wrapped it."""
    return triton.jit(inspect.unwrap(function))


Affine = tuple[tuple[float, ...], tuple[float, ...]]


def normalized_views(
    images: UInt8[Tensor, "N c h w"], slots: Int64[Tensor, " n"], parameters: ViewParameters, *, affine: Affine
) -> Float[Tensor, "n c h w"]:
    """Views in the device's precision, channels last; `affine` has a factor and a summand for each channel."""
    n, c, height, width = len(slots), *images.shape[1:]
    dtype = compute_dtype(images.device)
    out = torch.empty((n, c, height, width), dtype=dtype, device=images.device, memory_format=torch.channels_last)
    if n == 0:
        return out
    stages = torch.empty(n, 2, c, height * width, dtype=torch.uint8, device=images.device)
    tables = torch.empty(n, c, 256, dtype=torch.uint8, device=images.device)
    scales, offsets = ((*values, 0.0, 0.0)[:3] for values in affine)
    launch(_view_kernel, (n,))(
        images.contiguous(), slots.contiguous(), parameters.integers.contiguous(), parameters.factors.contiguous(),
        stages, tables, out, *scales, *offsets,
        C=c, H=height, W=width, BLOCK=min(triton.next_power_of_2(height * width), _MAX_BLOCK),
        num_warps=_N_WARPS, enable_fp_fusion=False,
    )  # fmt: skip
    return out


def uint8_views(
    images: UInt8[Tensor, "N c h w"], slots: Int64[Tensor, " n"], parameters: ViewParameters
) -> UInt8[Tensor, "n c h w"]:
    """Views before normalization: grey levels are whole numbers up to 255, which every precision holds exactly.

    A kernel of their own would take four seconds to compile.
    """
    levels = normalized_views(images, slots, parameters, affine=((1.0,) * 3, (0.0,) * 3))
    return levels.to(torch.uint8, memory_format=torch.contiguous_format)


@_compiled
def _view_kernel(
    images, slots, integers, factors, stages, tables, out,
    scale0, scale1, scale2, offset0, offset1, offset2,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Flip and crop, the samples one after the other between two buffers, cutout and normalization."""
    view = tl.program_id(0).to(tl.int64)
    row = integers + view * _N_COLUMNS
    image = images + tl.load(slots + view) * (C * H * W)
    stage = stages + view * (2 * C * H * W)
    table = tables + view * (C * 256)
    _flip_and_crop(image, stage, row, C, H, W, BLOCK)
    for sample in range(_N_SAMPLES):
        # the threads of a program read what others of them wrote
        tl.debug_barrier()
        source = stage + sample % 2 * (C * H * W)
        target = stage + (1 - sample % 2) * (C * H * W)
        factor = tl.load(factors + view * _N_SAMPLES + sample)
        _apply(source, target, table, row + _FIRST_SAMPLE + sample * _SAMPLE_COLUMNS, factor, C, H, W, BLOCK)
    tl.debug_barrier()
    last = stage + _N_SAMPLES % 2 * (C * H * W)
    target = out + view * (C * H * W)
    for c in tl.static_range(C):
        scale, offset = scale0, offset0
        if c == 1:
            scale, offset = scale1, offset1
        if c == 2:
            scale, offset = scale2, offset2
        _finish(last + c * H * W, target + c, row, scale, offset, c, C, H, W, BLOCK)


@_compiled
def _flip_and_crop(image, target, row, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, BLOCK: tl.constexpr):
    is_flipped = tl.load(row + _FLIP)
    down, right = tl.load(row + _ROW_OFFSET), tl.load(row + _COLUMN_OFFSET)
    for start in range(0, H * W, BLOCK):
        pixel = start + tl.arange(0, BLOCK)
        inside = pixel < H * W
        y, x = tl.abs(pixel // W + down), tl.abs(pixel % W + right)
        y, x = tl.where(y < H, y, 2 * (H - 1) - y), tl.where(x < W, x, 2 * (W - 1) - x)
        x = tl.where(is_flipped > 0, W - 1 - x, x)
        for c in tl.static_range(C):
            level = tl.load(image + c * H * W + y * W + x, mask=inside, other=0)
            tl.store(target + c * H * W + pixel, level, mask=inside)


@_compiled
def _apply(
    source, target, table, sample, factor, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    number = tl.load(sample)
    if number == _AUTOCONTRAST:
        _autocontrast(source, target, C, H * W, BLOCK)
    elif number == _EQUALIZE:
        _equalize(source, target, table, C, H * W, BLOCK)
    elif number == _SHARPNESS:
        _sharpness(source, target, factor, C, H, W, BLOCK)
    elif (number == _BRIGHTNESS) | (number == _COLOR) | (number == _CONTRAST):
        _enhance(source, target, number, factor, C, H * W, BLOCK)
    elif (number == _IDENTITY) | (number == _POSTERIZE) | (number == _SOLARIZE):
        _map_levels(source, target, number, tl.load(sample + 1), C, H * W, BLOCK)
    else:
        _resample(source, target, sample + 1, C, H, W, BLOCK)


@_compiled
def _resample(source, target, coefficients, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, BLOCK: tl.constexpr):
    a0, a1, a2 = tl.load(coefficients), tl.load(coefficients + 1), tl.load(coefficients + 2)
    a3, a4, a5 = tl.load(coefficients + 3), tl.load(coefficients + 4), tl.load(coefficients + 5)
    for start in range(0, H * W, BLOCK):
        pixel = start + tl.arange(0, BLOCK)
        inside = pixel < H * W
        y, x = pixel // W, pixel % W
        from_x, from_y = (a0 * x + a1 * y + a2) >> 16, (a3 * x + a4 * y + a5) >> 16
        is_seen = inside & (from_x >= 0) & (from_x < W) & (from_y >= 0) & (from_y < H)
        for c in tl.static_range(C):
            level = tl.load(source + c * H * W + from_y * W + from_x, mask=is_seen, other=0)
            tl.store(target + c * H * W + pixel, level, mask=inside)


@_compiled
def _map_levels(source, target, number, bits, C: tl.constexpr, P: tl.constexpr, BLOCK: tl.constexpr):
    """Identity; posterize, whose `bits` is a mask; solarize, whose `bits` is a threshold."""
    mask = tl.where(number == _POSTERIZE, bits, 255)
    threshold = tl.where(number == _SOLARIZE, bits, 256)
    for start in range(0, C * P, BLOCK):
        place = start + tl.arange(0, BLOCK)
        inside = place < C * P
        level = tl.load(source + place, mask=inside, other=0).to(tl.int32) & mask
        tl.store(target + place, tl.where(level < threshold, level, 255 - level).to(tl.uint8), mask=inside)


@_compiled
def _blended(degenerate, level, factor):
    """Whole numbers and a factor in; Pillow's blend, cut off at black and white."""
    start, end = degenerate.to(tl.float32), level.to(tl.float32)
    mixed = start + factor * (end - start)
    return tl.minimum(tl.maximum(mixed, 0.0), 255.0).to(tl.int32).to(tl.uint8)


@_compiled
def _luma(source, pixel, inside, C: tl.constexpr, P: tl.constexpr):
    red = tl.load(source + pixel, mask=inside, other=0).to(tl.int32)
    if C == 1:
        return red
    green = tl.load(source + P + pixel, mask=inside, other=0).to(tl.int32)
    blue = tl.load(source + 2 * P + pixel, mask=inside, other=0).to(tl.int32)
    return (red * _RED + green * _GREEN + blue * _BLUE + 32768) >> 16


@_compiled
def _enhance(source, target, number, factor, C: tl.constexpr, P: tl.constexpr, BLOCK: tl.constexpr):
    """Brightness, color and contrast: toward black, the grey image and its mean."""
    total = tl.zeros((), dtype=tl.int64)
    if number == _CONTRAST:
        for start in range(0, P, BLOCK):
            pixel = start + tl.arange(0, BLOCK)
            total += tl.sum(_luma(source, pixel, pixel < P, C, P), axis=0).to(tl.int64)
    mean = ((2 * total + P) // (2 * P)).to(tl.int32)
    mean = tl.where(number == _CONTRAST, mean, 0)
    for start in range(0, P, BLOCK):
        pixel = start + tl.arange(0, BLOCK)
        inside = pixel < P
        degenerate = tl.where(number == _COLOR, _luma(source, pixel, inside, C, P), mean)
        for c in tl.static_range(C):
            level = tl.load(source + c * P + pixel, mask=inside, other=0)
            tl.store(target + c * P + pixel, _blended(degenerate, level, factor), mask=inside)


@_compiled
def _sharpness(source, target, factor, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, BLOCK: tl.constexpr):
    for start in range(0, H * W, BLOCK):
        pixel = start + tl.arange(0, BLOCK)
        inside = pixel < H * W
        y, x = pixel // W, pixel % W
        is_inner = inside & (y > 0) & (y < H - 1) & (x > 0) & (x < W - 1)
        for c in tl.static_range(C):
            center = source + c * H * W + pixel
            level = tl.load(center, mask=inside, other=0).to(tl.int32)
            total = 4 * level
            for dy in tl.static_range(-1, 2):
                for dx in tl.static_range(-1, 2):
                    total += tl.load(center + dy * W + dx, mask=is_inner, other=0).to(tl.int32)
            smooth = tl.where(is_inner, (2 * total + 13) // 26, level)
            tl.store(target + c * H * W + pixel, _blended(smooth, level, factor), mask=inside)


@_compiled
def _autocontrast(source, target, C: tl.constexpr, P: tl.constexpr, BLOCK: tl.constexpr):
    for c in tl.static_range(C):
        darkest, lightest = tl.full((), 255, tl.int32), tl.full((), 0, tl.int32)
        for start in range(0, P, BLOCK):
            pixel = start + tl.arange(0, BLOCK)
            low = tl.load(source + c * P + pixel, mask=pixel < P, other=255).to(tl.int32)
            high = tl.load(source + c * P + pixel, mask=pixel < P, other=0).to(tl.int32)
            darkest, lightest = tl.minimum(darkest, tl.min(low, axis=0)), tl.maximum(lightest, tl.max(high, axis=0))
        scale = 255.0 / tl.maximum(lightest - darkest, 1).to(tl.float64)
        offset = -darkest.to(tl.float64) * scale
        for start in range(0, P, BLOCK):
            pixel = start + tl.arange(0, BLOCK)
            level = tl.load(source + c * P + pixel, mask=pixel < P, other=0).to(tl.int32)
            stretched = (level.to(tl.float64) * scale + offset).to(tl.int32)
            stretched = tl.minimum(tl.maximum(stretched, 0), 255)
            tl.store(
                target + c * P + pixel, tl.where(lightest > darkest, stretched, level).to(tl.uint8), mask=pixel < P
            )


@_compiled
def _equalize(source, target, table, C: tl.constexpr, P: tl.constexpr, BLOCK: tl.constexpr):
    bins = tl.arange(0, 256)
    for c in tl.static_range(C):
        histogram = tl.zeros((256,), dtype=tl.int32)
        for start in range(0, P, BLOCK):
            pixel = start + tl.arange(0, BLOCK)
            level = tl.load(source + c * P + pixel, mask=pixel < P, other=0).to(tl.int32)
            histogram += tl.histogram(level, 256, mask=pixel < P)
        lightest = tl.max(tl.where(histogram > 0, bins, 0), axis=0)
        step = (P - tl.sum(tl.where(bins == lightest, histogram, 0), axis=0)) // 255
        below = tl.cumsum(histogram, axis=0) - histogram
        spread = tl.minimum((step // 2 + below) // tl.maximum(step, 1), 255)
        tl.store(table + c * 256 + bins, tl.where(step > 0, spread, bins).to(tl.uint8))
    tl.debug_barrier()
    for c in tl.static_range(C):
        for start in range(0, P, BLOCK):
            pixel = start + tl.arange(0, BLOCK)
            level = tl.load(source + c * P + pixel, mask=pixel < P, other=0).to(tl.int32)
            equalized = tl.load(table + c * 256 + level, mask=pixel < P, other=0)
            tl.store(target + c * P + pixel, equalized, mask=pixel < P)


@_compiled
def _finish(
    source, target, row, scale, offset,
    c: tl.constexpr, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Cutout of a channel, then its normalization; the target's channels of a pixel lie side by side."""
    top, left = tl.load(row + _TOP), tl.load(row + _LEFT)
    bottom, right = tl.load(row + _BOTTOM), tl.load(row + _RIGHT)
    grey = _GREY_RED if c == 0 else (_GREY_GREEN if c == 1 else _GREY_BLUE)
    if C == 1:
        grey = _GREY_LUMA
    for start in range(0, H * W, BLOCK):
        pixel = start + tl.arange(0, BLOCK)
        inside = pixel < H * W
        y, x = pixel // W, pixel % W
        is_cut = (y >= top) & (y < bottom) & (x >= left) & (x < right)
        level = tl.where(is_cut, grey, tl.load(source + pixel, mask=inside, other=0).to(tl.int32))
        value = level.to(tl.float32) * scale + offset
        tl.store(target + pixel * C, value.to(target.dtype.element_ty), mask=inside)
