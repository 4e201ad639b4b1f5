"""Batch normalization, leaky ReLU and 2×2 max-pooling as Triton kernels over channels-last activations.

Beside its convolutions a network only moves memory: here an activation is read or written eight times a training step
for normalization and activation together, and where a pooling follows, the full-size activated map is never written
at all. Sums are in fp32 and in a fixed order. Measured on an H200 against the compiler's own kernels: docs/notebook.md.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from laplacenet.runtime.group import current_group
from laplacenet.runtime.kernels import launch
from laplacenet.runtime.sharing import Share, current_share

SUM_TILE = 4096  # elements of a tile that is summed: enough loads in flight to cover the memory's latency
SUM_STAGES = 3  # tiles on their way at once
SUM_WARPS = 4
PROGRAMS = 132 * 4  # programs that share the rows of a sum; more would only lengthen the sum of their partial sums
MAP_TILE = 8192  # elements of a tile that is mapped to as many others
MAP_WARPS = 4
POOL_TILE = 2048  # pooled elements of a tile, each with its four pixels
POOL_WARPS = 8


@triton.jit
def last_first(BR: tl.constexpr):
    """The rows of this program's tile. Tiles come last to first: what was summed last may still be in the cache."""
    return (tl.num_programs(0) - 1 - tl.program_id(0)) * BR + tl.arange(0, BR)


@triton.jit
def _sums_kernel(x_ptr, partial_ptr, M, C, P, BR: tl.constexpr, BC: tl.constexpr, STAGES: tl.constexpr):
    """Σx and Σx² of each channel over this program's rows."""
    p = tl.program_id(0)
    channels = tl.program_id(1) * BC + tl.arange(0, BC)
    rows = tl.arange(0, BR)
    total = tl.zeros((BR, BC), dtype=tl.float32)
    squares = tl.zeros((BR, BC), dtype=tl.float32)
    for start in tl.range(p * BR, M, P * BR, num_stages=STAGES):
        r = start + rows
        mask = (r < M)[:, None]
        x = tl.load(x_ptr + r[:, None].to(tl.int64) * C + channels[None, :], mask=mask, other=0.0).to(tl.float32)
        total += x
        squares += x * x
    tl.store(partial_ptr + p * 2 * C + channels, tl.sum(total, axis=0))
    tl.store(partial_ptr + p * 2 * C + C + channels, tl.sum(squares, axis=0))


@triton.jit
def save_statistics(
    channels, mean, var, mean_ptr, rstd_ptr, running_mean_ptr, running_var_ptr, M, eps, momentum,
):  # fmt: skip
    """Store mean and 1/σ of these channels, and move the running statistics toward them."""
    tl.store(mean_ptr + channels, mean)
    tl.store(rstd_ptr + channels, 1.0 / tl.sqrt(var + eps))
    old_mean = tl.load(running_mean_ptr + channels)
    old_var = tl.load(running_var_ptr + channels)
    tl.store(running_mean_ptr + channels, old_mean + momentum * (mean - old_mean))
    tl.store(running_var_ptr + channels, old_var + momentum * (var * (M / (M - 1.0)) - old_var))


@triton.jit
def _statistics_kernel(
    partial_ptr, mean_ptr, rstd_ptr, running_mean_ptr, running_var_ptr, M, C, P, eps, momentum,
    BP: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Mean and 1/σ of the batch; running statistics move toward them."""
    channels = tl.program_id(0) * BC + tl.arange(0, BC)
    total = tl.zeros((BP, BC), dtype=tl.float32)
    squares = tl.zeros((BP, BC), dtype=tl.float32)
    for start in range(0, P, BP):
        p = start + tl.arange(0, BP)
        offsets = p[:, None] * 2 * C + channels[None, :]
        total += tl.load(partial_ptr + offsets, mask=(p < P)[:, None], other=0.0)
        squares += tl.load(partial_ptr + offsets + C, mask=(p < P)[:, None], other=0.0)
    mean = tl.sum(total, axis=0) / M
    var = tl.maximum(tl.sum(squares, axis=0) / M - mean * mean, 0.0)
    save_statistics(channels, mean, var, mean_ptr, rstd_ptr, running_mean_ptr, running_var_ptr, M, eps, momentum)


@triton.jit
def _apply_kernel(
    x_ptr, y_ptr, mean_ptr, rstd_ptr, weight_ptr, bias_ptr, M, C: tl.constexpr, slope: tl.constexpr, BR: tl.constexpr,
):  # fmt: skip
    """y = leaky((x − mean)·rstd·weight + bias)."""
    r = last_first(BR)
    channels = tl.arange(0, C)
    offsets = r[:, None].to(tl.int64) * C + channels[None, :]
    mask = (r < M)[:, None]
    scale = tl.load(rstd_ptr + channels) * tl.load(weight_ptr + channels)
    shift = tl.load(bias_ptr + channels) - tl.load(mean_ptr + channels) * scale
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    z = x * scale[None, :] + shift[None, :]
    y = tl.where(z > 0, z, z * slope)
    tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _gradient_sums_kernel(
    dy_ptr, x_ptr, mean_ptr, rstd_ptr, weight_ptr, bias_ptr, partial_ptr, M, C, P, slope: tl.constexpr,
    BR: tl.constexpr, BC: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Σdz and Σdz·x̂ of each channel over this program's rows, dz the gradient before the activation."""
    p = tl.program_id(0)
    channels = tl.program_id(1) * BC + tl.arange(0, BC)
    rows = tl.arange(0, BR)
    mean = tl.load(mean_ptr + channels)[None, :]
    rstd = tl.load(rstd_ptr + channels)[None, :]
    weight = tl.load(weight_ptr + channels)[None, :]
    bias = tl.load(bias_ptr + channels)[None, :]
    total = tl.zeros((BR, BC), dtype=tl.float32)
    products = tl.zeros((BR, BC), dtype=tl.float32)
    for start in tl.range(p * BR, M, P * BR, num_stages=STAGES):
        r = start + rows
        mask = (r < M)[:, None]
        offsets = r[:, None].to(tl.int64) * C + channels[None, :]
        x_hat = (tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32) - mean) * rstd
        dy = tl.load(dy_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        dz = tl.where(x_hat * weight + bias > 0, dy, dy * slope)
        total += dz
        products += dz * x_hat
    tl.store(partial_ptr + p * 2 * C + channels, tl.sum(total, axis=0))
    tl.store(partial_ptr + p * 2 * C + C + channels, tl.sum(products, axis=0))


@triton.jit
def _column_sums_kernel(partial_ptr, sums_ptr, C2, P, BP: tl.constexpr, BC: tl.constexpr):
    """The partial sums of all programs, added in order."""
    columns = tl.program_id(0) * BC + tl.arange(0, BC)
    total = tl.zeros((BP, BC), dtype=tl.float32)
    for start in range(0, P, BP):
        p = start + tl.arange(0, BP)
        total += tl.load(partial_ptr + p[:, None] * C2 + columns[None, :], mask=(p < P)[:, None], other=0.0)
    tl.store(sums_ptr + columns, tl.sum(total, axis=0))


@triton.jit
def _gradient_kernel(
    dy_ptr, x_ptr, dx_ptr, mean_ptr, rstd_ptr, weight_ptr, bias_ptr, sums_ptr, M, n_rows, C: tl.constexpr,
    slope: tl.constexpr, BR: tl.constexpr,
):  # fmt: skip
    """dx = weight·rstd·(dz − mean(dz) − x̂·mean(dz·x̂))."""
    r = last_first(BR)
    channels = tl.arange(0, C)
    offsets = r[:, None].to(tl.int64) * C + channels[None, :]
    mask = (r < n_rows)[:, None]
    mean = tl.load(mean_ptr + channels)[None, :]
    rstd = tl.load(rstd_ptr + channels)[None, :]
    weight = tl.load(weight_ptr + channels)[None, :]
    bias = tl.load(bias_ptr + channels)[None, :]
    mean_dz = tl.load(sums_ptr + channels)[None, :] / M
    mean_product = tl.load(sums_ptr + C + channels)[None, :] / M
    x_hat = (tl.load(x_ptr + offsets, mask=mask).to(tl.float32) - mean) * rstd
    dy = tl.load(dy_ptr + offsets, mask=mask).to(tl.float32)
    dz = tl.where(x_hat * weight + bias > 0, dy, dy * slope)
    dx = weight * rstd * (dz - mean_dz - x_hat * mean_product)
    tl.store(dx_ptr + offsets, dx.to(dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _corner(r, H, W):
    """The number of the first of the four pixels under pooled pixel r of a 2×2 pooling."""
    w = r % (W // 2)
    h = (r // (W // 2)) % (H // 2)
    n = r // ((W // 2) * (H // 2))
    return (n * H + 2 * h) * W + 2 * w


@triton.jit
def _apply_pool_kernel(
    x_ptr, y_ptr, mean_ptr, rstd_ptr, weight_ptr, bias_ptr, n_pooled, H, W, C: tl.constexpr, slope: tl.constexpr,
    BR: tl.constexpr,
):  # fmt: skip
    """y = leaky(max over 2×2 of the normalized x); the activation is monotone, so it may follow the maximum."""
    r = last_first(BR)
    channels = tl.arange(0, C)
    mask = (r < n_pooled)[:, None]
    scale = (tl.load(rstd_ptr + channels) * tl.load(weight_ptr + channels))[None, :]
    shift = tl.load(bias_ptr + channels)[None, :] - tl.load(mean_ptr + channels)[None, :] * scale
    corner = x_ptr + _corner(r, H, W)[:, None].to(tl.int64) * C + channels[None, :]
    z00 = tl.load(corner, mask=mask).to(tl.float32) * scale + shift
    z01 = tl.load(corner + C, mask=mask).to(tl.float32) * scale + shift
    z10 = tl.load(corner + W * C, mask=mask).to(tl.float32) * scale + shift
    z11 = tl.load(corner + W * C + C, mask=mask).to(tl.float32) * scale + shift
    z = tl.maximum(tl.maximum(z00, z01), tl.maximum(z10, z11))
    y = tl.where(z > 0, z, z * slope)
    tl.store(y_ptr + r[:, None].to(tl.int64) * C + channels[None, :], y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _winner(z00, z01, z10, z11):
    """Which of the four is the maximum, the first in reading order among equals."""
    top = tl.where(z01 > z00, 1, 0)
    bottom = tl.where(z11 > z10, 3, 2)
    return tl.where(tl.maximum(z10, z11) > tl.maximum(z00, z01), bottom, top)


@triton.jit
def _pool_gradient_sums_kernel(
    dy_ptr, x_ptr, mean_ptr, rstd_ptr, weight_ptr, bias_ptr, partial_ptr, M, P, H, W, C: tl.constexpr,
    slope: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Σdz and Σdz·x̂ of each channel over this program's pooled pixels; only a pixel's winner has a gradient."""
    p = tl.program_id(0)
    channels = tl.program_id(1) * BC + tl.arange(0, BC)
    rows = tl.arange(0, BR)
    mean = tl.load(mean_ptr + channels)[None, :]
    rstd = tl.load(rstd_ptr + channels)[None, :]
    weight = tl.load(weight_ptr + channels)[None, :]
    bias = tl.load(bias_ptr + channels)[None, :]
    total = tl.zeros((BR, BC), dtype=tl.float32)
    products = tl.zeros((BR, BC), dtype=tl.float32)
    for start in tl.range(p * BR, M, P * BR, num_stages=STAGES):
        r = start + rows
        mask = (r < M)[:, None]
        i = r[:, None].to(tl.int64) * C + channels[None, :]
        corner = x_ptr + _corner(r, H, W)[:, None].to(tl.int64) * C + channels[None, :]
        x00 = (tl.load(corner, mask=mask, other=0.0).to(tl.float32) - mean) * rstd
        x01 = (tl.load(corner + C, mask=mask, other=0.0).to(tl.float32) - mean) * rstd
        x10 = (tl.load(corner + W * C, mask=mask, other=0.0).to(tl.float32) - mean) * rstd
        x11 = (tl.load(corner + W * C + C, mask=mask, other=0.0).to(tl.float32) - mean) * rstd
        best = _winner(x00 * weight, x01 * weight, x10 * weight, x11 * weight)
        x_hat = tl.where(best == 0, x00, tl.where(best == 1, x01, tl.where(best == 2, x10, x11)))
        dy = tl.load(dy_ptr + i, mask=mask, other=0.0).to(tl.float32)
        dz = tl.where(x_hat * weight + bias > 0, dy, dy * slope)
        total += dz
        products += dz * x_hat
    tl.store(partial_ptr + p * 2 * C + channels, tl.sum(total, axis=0))
    tl.store(partial_ptr + p * 2 * C + C + channels, tl.sum(products, axis=0))


@triton.jit
def _pool_gradient_kernel(
    dy_ptr, x_ptr, dx_ptr, mean_ptr, rstd_ptr, weight_ptr, bias_ptr, sums_ptr, M, n_pooled, H, W, C: tl.constexpr,
    slope: tl.constexpr, BR: tl.constexpr,
):  # fmt: skip
    """dx of the four pixels under each pooled one."""
    r = last_first(BR)
    channels = tl.arange(0, C)
    mask = (r < n_pooled)[:, None]
    mean = tl.load(mean_ptr + channels)[None, :]
    rstd = tl.load(rstd_ptr + channels)[None, :]
    weight = tl.load(weight_ptr + channels)[None, :]
    bias = tl.load(bias_ptr + channels)[None, :]
    mean_dz = tl.load(sums_ptr + channels)[None, :] / M
    mean_product = tl.load(sums_ptr + C + channels)[None, :] / M
    offset = _corner(r, H, W)[:, None].to(tl.int64) * C + channels[None, :]
    x00 = (tl.load(x_ptr + offset, mask=mask).to(tl.float32) - mean) * rstd
    x01 = (tl.load(x_ptr + offset + C, mask=mask).to(tl.float32) - mean) * rstd
    x10 = (tl.load(x_ptr + offset + W * C, mask=mask).to(tl.float32) - mean) * rstd
    x11 = (tl.load(x_ptr + offset + W * C + C, mask=mask).to(tl.float32) - mean) * rstd
    best = _winner(x00 * weight, x01 * weight, x10 * weight, x11 * weight)
    x_hat = tl.where(best == 0, x00, tl.where(best == 1, x01, tl.where(best == 2, x10, x11)))
    dy = tl.load(dy_ptr + r[:, None].to(tl.int64) * C + channels[None, :], mask=mask).to(tl.float32)
    dz = tl.where(x_hat * weight + bias > 0, dy, dy * slope)
    scale = weight * rstd
    kind = dx_ptr.dtype.element_ty
    dx00 = scale * (tl.where(best == 0, dz, 0.0) - mean_dz - x00 * mean_product)
    dx01 = scale * (tl.where(best == 1, dz, 0.0) - mean_dz - x01 * mean_product)
    dx10 = scale * (tl.where(best == 2, dz, 0.0) - mean_dz - x10 * mean_product)
    dx11 = scale * (tl.where(best == 3, dz, 0.0) - mean_dz - x11 * mean_product)
    tl.store(dx_ptr + offset, dx00.to(kind), mask=mask)
    tl.store(dx_ptr + offset + C, dx01.to(kind), mask=mask)
    tl.store(dx_ptr + offset + W * C, dx10.to(kind), mask=mask)
    tl.store(dx_ptr + offset + W * C + C, dx11.to(kind), mask=mask)


def _rows_of_tile(C: int, tile: int) -> int:
    """All channels of so many rows are a tile."""
    return max(1, tile // C)


def _tiles(n_rows: int, C: int, tile: int) -> tuple[int, int, int]:
    """Rows and channels of a tile that is summed, and how many programs share the rows."""
    BC = min(C, 64)
    BR = tile // BC
    return BR, BC, max(1, min(triton.cdiv(n_rows, BR), PROGRAMS // (C // BC)))


def _batch_statistics(x: Tensor, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float) -> Tensor:
    """(2, C): the batch's mean and 1/σ; the running statistics are moved."""
    C = x.shape[1]
    M = x.numel() // C
    BR, BC, P = _tiles(M, C, SUM_TILE)
    partial = torch.empty((P, 2, C), device=x.device, dtype=torch.float32)
    statistics = torch.empty((2, C), device=x.device, dtype=torch.float32)
    launch(_sums_kernel, (P, C // BC))(x, partial, M, C, P, BR, BC, SUM_STAGES, num_warps=SUM_WARPS)
    share = current_share()
    if share is not None:
        partial, M, P = _sums_of_all(partial), share.of_all(M), 1
    launch(_statistics_kernel, (C // 8,))(
        partial, statistics[0], statistics[1], running_mean, running_var, M, C, P, eps, momentum, 256, 8
    )
    return statistics


def _sums_of_all(partial: Tensor) -> Tensor:
    """(1, 2, C): the sums of all programs and of all processes that share the batch."""
    return current_group().sum_(add_partial_sums(partial)[None])


def add_partial_sums(partial: Tensor) -> Tensor:
    """The sum over the first axis, one entry for each program, in a fixed order."""
    P, n_columns = len(partial), partial[0].numel()
    sums = torch.empty(partial.shape[1:], device=partial.device, dtype=torch.float32)
    launch(_column_sums_kernel, (n_columns // 8,))(partial, sums, n_columns, P, 256, 8)
    return sums


def _in_all(sums: Tensor, M: int, share: Share | None) -> tuple[Tensor, int]:
    """What the gradient of an input needs: sums and numbers of values over all processes; the parameters' stay."""
    return (sums, M) if share is None else (current_group().sum_(sums.clone()), share.of_all(M))


def activate(x: Tensor, statistics: Tensor, weight: Tensor, bias: Tensor, *, slope: float) -> Tensor:
    """leaky((x − mean)·rstd·weight + bias), for channels-last x and statistics (mean, rstd)."""
    C, y = x.shape[1], torch.empty_like(x)
    M, BR = x.numel() // C, _rows_of_tile(C, MAP_TILE)
    launch(_apply_kernel, (triton.cdiv(M, BR),))(
        x, y, statistics[0], statistics[1], weight, bias, M, C, slope, BR, num_warps=MAP_WARPS
    )
    return y


def activate_and_pool(x: Tensor, statistics: Tensor, weight: Tensor, bias: Tensor, *, slope: float) -> Tensor:
    """`activate`, then a 2×2 max-pooling, for even height and width."""
    n, C, H, W = x.shape
    y = torch.empty((n, C, H // 2, W // 2), device=x.device, dtype=x.dtype, memory_format=torch.channels_last)
    n_pooled, BR = y.numel() // C, _rows_of_tile(C, POOL_TILE)
    launch(_apply_pool_kernel, (triton.cdiv(n_pooled, BR),))(
        x, y, statistics[0], statistics[1], weight, bias, n_pooled, H, W, C, slope, BR, num_warps=POOL_WARPS
    )
    return y


class NormLeakyReLU(torch.autograd.Function):
    """leaky(batch_norm(x)) in training mode."""

    @staticmethod
    def forward(ctx, x, weight, bias, running_mean, running_var, momentum, eps, slope):
        x = x.contiguous(memory_format=torch.channels_last)
        statistics = _batch_statistics(x, running_mean, running_var, momentum, eps)
        y = activate(x, statistics, weight, bias, slope=slope)
        ctx.save_for_backward(x, statistics, weight, bias)
        ctx.slope, ctx.share = slope, current_share()
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        x, (mean, rstd), weight, bias = ctx.saved_tensors
        dy = dy.contiguous(memory_format=torch.channels_last)
        C, M = x.shape[1], x.numel() // x.shape[1]
        BR, BC, P = _tiles(M, C, SUM_TILE)
        partial = torch.empty((P, 2, C), device=x.device, dtype=torch.float32)
        dx = torch.empty_like(x)
        launch(_gradient_sums_kernel, (P, C // BC))(
            dy, x, mean, rstd, weight, bias, partial, M, C, P, ctx.slope, BR, BC, SUM_STAGES, num_warps=SUM_WARPS
        )
        sums = add_partial_sums(partial)
        total, n = _in_all(sums, M, ctx.share)
        BR = _rows_of_tile(C, MAP_TILE)
        launch(_gradient_kernel, (triton.cdiv(M, BR),))(
            dy, x, dx, mean, rstd, weight, bias, total, n, M, C, ctx.slope, BR, num_warps=MAP_WARPS
        )
        return dx, sums[1], sums[0], None, None, None, None, None


class NormLeakyReLUPool(torch.autograd.Function):
    """max_pool2d(leaky(batch_norm(x)), 2) in training mode, for even height and width."""

    @staticmethod
    def forward(ctx, x, weight, bias, running_mean, running_var, momentum, eps, slope):
        x = x.contiguous(memory_format=torch.channels_last)
        statistics = _batch_statistics(x, running_mean, running_var, momentum, eps)
        y = activate_and_pool(x, statistics, weight, bias, slope=slope)
        ctx.save_for_backward(x, statistics, weight, bias)
        ctx.slope, ctx.share = slope, current_share()
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        x, (mean, rstd), weight, bias = ctx.saved_tensors
        dy = dy.contiguous(memory_format=torch.channels_last)
        _, C, H, W = x.shape
        n_pooled = dy.numel() // C
        BR, BC, P = _tiles(n_pooled, C, SUM_TILE // 4)
        partial = torch.empty((P, 2, C), device=x.device, dtype=torch.float32)
        dx = torch.empty_like(x)
        launch(_pool_gradient_sums_kernel, (P, C // BC))(
            dy,
            x,
            mean,
            rstd,
            weight,
            bias,
            partial,
            n_pooled,
            P,
            H,
            W,
            C,
            ctx.slope,
            BR,
            BC,
            SUM_STAGES,
            num_warps=SUM_WARPS,
        )
        sums = add_partial_sums(partial)
        total, n = _in_all(sums, 4 * n_pooled, ctx.share)
        BR = _rows_of_tile(C, POOL_TILE)
        launch(_pool_gradient_kernel, (triton.cdiv(n_pooled, BR),))(
            dy, x, dx, mean, rstd, weight, bias, total, n, n_pooled, H, W, C, ctx.slope, BR, num_warps=POOL_WARPS
        )
        return dx, sums[1], sums[0], None, None, None, None, None
