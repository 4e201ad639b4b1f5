"""A first layer as Triton kernels: the 3×3 patches around every pixel, and what follows from them.

Patches of three channels are small and their product with the weights is cheap, so that a layer of the form
leaky(batch_norm(convolution(x))) never stores the convolution's output: each pass multiplies anew. As y = W·p for a
patch p, the sums that batch norm needs follow from the patches' moments G = Σ p·pᵀ, and backward one pass over dy
gives A = Σ dz·pᵀ, from which all gradients follow. There every patch is followed by a 1, so that G and A hold plain
sums too.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from laplacenet.models.norm_kernels import add_partial_sums, last_first, save_statistics
from laplacenet.runtime.kernels import launch

COLUMNS = 32  # of a row of patches: 9 pixels of up to 3 channels, possibly a 1, then zeros, to fill a tile
ROWS = 128  # of a program that gathers patches
PROGRAMS = 132 * 2  # that share the rows of a sum
MAP_ROWS, MAP_WARPS = 64, 4  # of a tile of the layer's output
SUM_ROWS, SUM_WARPS, SUM_STAGES = 64, 4, 3  # of a tile whose gradient is summed


@triton.jit
def _patches_of(x_ptr, r, n_pixels, H, W, C: tl.constexpr, COLUMNS: tl.constexpr):
    """Row i holds the 3×3 pixels around pixel r[i], by row, column and channel; zeros outside and at the end."""
    k = tl.arange(0, COLUMNS)
    down = (k // (3 * C) - 1)[None, :]
    right = ((k // C) % 3 - 1)[None, :]
    h = ((r // W) % H)[:, None] + down
    w = (r % W)[:, None] + right
    is_row = (r < n_pixels)[:, None]
    is_inside = (h >= 0) & (h < H) & (w >= 0) & (w < W) & (k < 9 * C)[None, :] & is_row
    pixels = r[:, None] + down * W + right
    return tl.load(x_ptr + pixels.to(tl.int64) * C + (k % C)[None, :], mask=is_inside, other=0.0)


@triton.jit
def _patches_kernel(x_ptr, patches_ptr, n_pixels, H, W, C: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr):
    """The patches around all pixels, one row each."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    k = tl.arange(0, COLUMNS)
    patches = _patches_of(x_ptr, r, n_pixels, H, W, C, COLUMNS)
    tl.store(patches_ptr + r[:, None].to(tl.int64) * COLUMNS + k[None, :], patches, mask=(r < n_pixels)[:, None])


@triton.jit
def _moments_kernel(
    x_ptr, patches_ptr, partial_ptr, n_pixels, H, W, P, C: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The patches around all pixels, each followed by a 1, and this program's part of G = Σ p·pᵀ."""
    program = tl.program_id(0)
    k = tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS, COLUMNS), dtype=tl.float32)
    for start in range(program * ROWS, n_pixels, P * ROWS):
        r = start + tl.arange(0, ROWS)
        patches = _patches_of(x_ptr, r, n_pixels, H, W, C, COLUMNS)
        is_one = (k == 9 * C)[None, :] & (r < n_pixels)[:, None]
        patches = tl.where(is_one, 1.0, patches.to(tl.float32)).to(patches.dtype)
        tl.store(patches_ptr + r[:, None].to(tl.int64) * COLUMNS + k[None, :], patches, mask=(r < n_pixels)[:, None])
        total += tl.dot(tl.trans(patches), patches)
    tl.store(partial_ptr + (program * COLUMNS + k[:, None]) * COLUMNS + k[None, :], total)


@triton.jit
def _weights_of(weight_ptr, c, k, K: tl.constexpr):
    """The weights of channels c for the values k of a patch; zeros behind the K."""
    return tl.load(weight_ptr + c * K + k, mask=k < K, other=0.0)


@triton.jit
def _moment_statistics_kernel(
    weight_ptr, moments_ptr, mean_ptr, rstd_ptr, running_mean_ptr, running_var_ptr, M, eps, momentum,
    K: tl.constexpr, COLUMNS: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Mean w·Σp/M and mean square wᵀ·G·w/M of each channel: in float64, for smooth patches nearly cancel."""
    channels = tl.program_id(0) * BC + tl.arange(0, BC)
    k = tl.arange(0, COLUMNS)
    w = _weights_of(weight_ptr, channels[:, None], k[None, :], K).to(tl.float64)
    G = tl.load(moments_ptr + k[:, None] * COLUMNS + k[None, :]).to(tl.float64)
    mean = tl.sum(w * tl.load(moments_ptr + K * COLUMNS + k).to(tl.float64)[None, :], axis=1) / M
    products = tl.sum(w[:, :, None] * G[None, :, :], axis=1)
    var = tl.maximum(tl.sum(products * w, axis=1) / M - mean * mean, 0.0)
    mean, var = mean.to(tl.float32), var.to(tl.float32)
    save_statistics(channels, mean, var, mean_ptr, rstd_ptr, running_mean_ptr, running_var_ptr, M, eps, momentum)


@triton.jit
def _normalized(patches, weight, mean_ptr, rstd_ptr, scale_ptr, bias_ptr, channels):
    """(W·p − mean)·rstd·scale + bias."""
    scale = tl.load(rstd_ptr + channels) * tl.load(scale_ptr + channels)
    shift = tl.load(bias_ptr + channels) - tl.load(mean_ptr + channels) * scale
    return tl.dot(patches, weight) * scale[None, :] + shift[None, :]


@triton.jit
def _image_layer_kernel(
    patches_ptr, weight_ptr, y_ptr, mean_ptr, rstd_ptr, scale_ptr, bias_ptr, M, K: tl.constexpr, C: tl.constexpr,
    slope: tl.constexpr, COLUMNS: tl.constexpr, BR: tl.constexpr,
):  # fmt: skip
    """y = leaky of the normalized convolution."""
    r = last_first(BR)
    k, channels = tl.arange(0, COLUMNS), tl.arange(0, C)
    mask = (r < M)[:, None]
    patches = tl.load(patches_ptr + r[:, None].to(tl.int64) * COLUMNS + k[None, :], mask=mask, other=0.0)
    weight = _weights_of(weight_ptr, channels[None, :], k[:, None], K)
    z = _normalized(patches, weight, mean_ptr, rstd_ptr, scale_ptr, bias_ptr, channels)
    y = tl.where(z > 0, z, z * slope)
    tl.store(y_ptr + r[:, None].to(tl.int64) * C + channels[None, :], y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _gradient_moments_kernel(
    dy_ptr, patches_ptr, weight_ptr, mean_ptr, rstd_ptr, scale_ptr, bias_ptr, partial_ptr, M, P, K: tl.constexpr,
    C: tl.constexpr, slope: tl.constexpr, COLUMNS: tl.constexpr, BR: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """This program's part of A = Σ dz·pᵀ, dz the gradient before the activation."""
    program = tl.program_id(0)
    k, channels = tl.arange(0, COLUMNS), tl.arange(0, C)
    weight = _weights_of(weight_ptr, channels[None, :], k[:, None], K)
    total = tl.zeros((C, COLUMNS), dtype=tl.float32)
    n_tiles = tl.cdiv(M, BR)
    for tile in tl.range(program, n_tiles, P, num_stages=STAGES):
        r = (n_tiles - 1 - tile) * BR + tl.arange(0, BR)  # last to first, too
        mask = (r < M)[:, None]
        patches = tl.load(patches_ptr + r[:, None].to(tl.int64) * COLUMNS + k[None, :], mask=mask, other=0.0)
        dy = tl.load(dy_ptr + r[:, None].to(tl.int64) * C + channels[None, :], mask=mask, other=0.0).to(tl.float32)
        z = _normalized(patches, weight, mean_ptr, rstd_ptr, scale_ptr, bias_ptr, channels)
        dz = tl.where(z > 0, dy, dy * slope).to(patches.dtype)
        total += tl.dot(tl.trans(dz), patches)
    tl.store(partial_ptr + (program * C + channels[:, None]) * COLUMNS + k[None, :], total)


@triton.jit
def _image_layer_gradient_kernel(
    gradient_moments_ptr, moments_ptr, weight_ptr, mean_ptr, rstd_ptr, scale_ptr, dweight_ptr, dscale_ptr, dbias_ptr, M,
    K: tl.constexpr, COLUMNS: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Σdz is A's last column and Σdz·y = W·A; dW = scale·rstd·(A − mean(dz)·Σp − mean(dz·x̂)·Σx̂·p)."""
    channels = tl.program_id(0) * BC + tl.arange(0, BC)
    c, k = channels[:, None], tl.arange(0, COLUMNS)
    A = tl.load(gradient_moments_ptr + c * COLUMNS + k[None, :])
    G = tl.load(moments_ptr + k[:, None] * COLUMNS + k[None, :])
    patch_sums = tl.load(moments_ptr + K * COLUMNS + k)[None, :]
    w = _weights_of(weight_ptr, c, k[None, :], K).to(tl.float32)
    mean, rstd = tl.load(mean_ptr + channels), tl.load(rstd_ptr + channels)
    dbias = tl.load(gradient_moments_ptr + channels * COLUMNS + K)
    dscale = rstd * (tl.sum(w * A, axis=1) - mean * dbias)
    x_hat_p = rstd[:, None] * (tl.sum(w[:, :, None] * G[None, :, :], axis=1) - mean[:, None] * patch_sums)
    rest = A - (dbias / M)[:, None] * patch_sums - (dscale / M)[:, None] * x_hat_p
    dweight = (tl.load(scale_ptr + channels) * rstd)[:, None] * rest
    tl.store(dweight_ptr + c * K + k[None, :], dweight.to(dweight_ptr.dtype.element_ty), mask=(k < K)[None, :])
    tl.store(dscale_ptr + channels, dscale)
    tl.store(dbias_ptr + channels, dbias)


def gather_patches(x: Tensor) -> Tensor:
    """(n·h·w, 32): the patch around every pixel of channels-last images with at most three channels."""
    n, C, H, W = x.shape
    x = x.contiguous(memory_format=torch.channels_last)
    patches = torch.empty((n * H * W, COLUMNS), device=x.device, dtype=x.dtype)
    launch(_patches_kernel, (triton.cdiv(len(patches), ROWS),))(x, patches, len(patches), H, W, C, COLUMNS, ROWS)
    return patches


def _patches_and_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """The same patches, each followed by a 1, and G = Σ p·pᵀ, (32, 32)."""
    n, C, H, W = x.shape
    x = x.contiguous(memory_format=torch.channels_last)
    patches = torch.empty((n * H * W, COLUMNS), device=x.device, dtype=x.dtype)
    P = min(PROGRAMS, triton.cdiv(len(patches), ROWS))
    partial = torch.empty((P, COLUMNS, COLUMNS), device=x.device, dtype=torch.float32)
    launch(_moments_kernel, (P,))(x, patches, partial, len(patches), H, W, P, C, COLUMNS, ROWS)
    return patches, add_partial_sums(partial)


def _as_rows(weight: Tensor) -> Tensor:
    """(C, 9·c): a channel's weights in the order of a patch; a view of weights that lie channels last."""
    return weight.permute(0, 2, 3, 1).flatten(1).contiguous()


def activate_convolution(
    patches: Tensor, weight: Tensor, statistics: Tensor, scale: Tensor, bias: Tensor, *, shape: torch.Size, slope: float
) -> Tensor:
    """leaky(batch_norm(convolution)) of images of this shape, from their patches and statistics (mean, 1/σ)."""
    (n, _, H, W), C, rows = shape, len(weight), _as_rows(weight)
    y = torch.empty((n, C, H, W), device=patches.device, dtype=patches.dtype, memory_format=torch.channels_last)
    launch(_image_layer_kernel, (triton.cdiv(len(patches), MAP_ROWS),))(
        patches, rows, y, statistics[0], statistics[1], scale, bias, len(patches), rows.shape[1], C, slope, COLUMNS,
        MAP_ROWS, num_warps=MAP_WARPS,
    )  # fmt: skip
    return y


class ImageLayer(torch.autograd.Function):
    """leaky(batch_norm(convolution(x))) in training mode, for weights in the precision of images without gradient."""

    @staticmethod
    def forward(ctx, x, weight, scale, bias, running_mean, running_var, momentum, eps, slope):
        patches, moments = _patches_and_moments(x)
        C, rows = len(weight), _as_rows(weight)
        statistics = torch.empty((2, C), device=x.device, dtype=torch.float32)
        launch(_moment_statistics_kernel, (C // 4,))(
            rows, moments, statistics[0], statistics[1], running_mean, running_var, len(patches), eps, momentum,
            rows.shape[1], COLUMNS, 4,
        )  # fmt: skip
        y = activate_convolution(patches, weight, statistics, scale, bias, shape=x.shape, slope=slope)
        ctx.save_for_backward(patches, moments, weight, statistics, scale, bias)
        ctx.slope = slope
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        patches, moments, weight, statistics, scale, bias = ctx.saved_tensors
        dy, (mean, rstd) = dy.contiguous(memory_format=torch.channels_last), statistics
        M, C, rows = len(patches), len(weight), _as_rows(weight)
        P, K = min(PROGRAMS, triton.cdiv(M, SUM_ROWS)), rows.shape[1]
        partial = torch.empty((P, C, COLUMNS), device=dy.device, dtype=torch.float32)
        launch(_gradient_moments_kernel, (P,))(
            dy, patches, rows, mean, rstd, scale, bias, partial, M, P, K, C, ctx.slope, COLUMNS, SUM_ROWS, SUM_STAGES,
            num_warps=SUM_WARPS,
        )  # fmt: skip
        dweight, sums = torch.empty_like(rows), torch.empty((2, C), device=dy.device, dtype=torch.float32)
        launch(_image_layer_gradient_kernel, (C // 4,))(
            add_partial_sums(partial), moments, rows, mean, rstd, scale, dweight, sums[0], sums[1], M,
            K, COLUMNS, 4,
        )  # fmt: skip
        _, c, height, width = weight.shape
        dweight = dweight.view(C, height, width, c).permute(0, 3, 1, 2)
        return None, dweight, sums[0], sums[1], None, None, None, None, None
