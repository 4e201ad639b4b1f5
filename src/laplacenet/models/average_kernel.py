"""The global average of a map and its ℓ2 normalization as one Triton kernel in each direction, in fp32.

Torch takes several launches in each direction for these few numbers, each over before the next can begin.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from laplacenet.runtime.kernels import launch

ROWS = 16  # pixels that a program holds at once, with all their channels
EPS = 1e-12  # as in torch's normalize


@triton.jit
def _unit_average_kernel(x_ptr, z_ptr, rlength_ptr, n_pixels, C: tl.constexpr, EPS: tl.constexpr, ROWS: tl.constexpr):
    """z = a/max(‖a‖, EPS) for a picture's average a; 1/max(‖a‖, EPS), or its negative where EPS is the larger."""
    picture = tl.program_id(0).to(tl.int64)
    channels = tl.arange(0, C)
    total = tl.zeros((ROWS, C), dtype=tl.float32)
    for first in range(0, n_pixels, ROWS):
        r = first + tl.arange(0, ROWS)
        offsets = (picture * n_pixels + r[:, None]) * C + channels[None, :]
        total += tl.load(x_ptr + offsets, mask=(r < n_pixels)[:, None], other=0.0).to(tl.float32)
    average = tl.sum(total, axis=0) / n_pixels
    length = tl.sqrt(tl.sum(average * average, axis=0))
    rlength = 1.0 / tl.maximum(length, EPS)
    tl.store(z_ptr + picture * C + channels, average * rlength)
    tl.store(rlength_ptr + picture, tl.where(length > EPS, rlength, -rlength))


@triton.jit
def _unit_average_gradient_kernel(
    dz_ptr, z_ptr, rlength_ptr, dx_ptr, n_pixels, C: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Every pixel has (dz − z·(z·dz))/(‖a‖·n), or where the length was not that of a, dz/(EPS·n)."""
    picture = tl.program_id(0).to(tl.int64)
    channels = tl.arange(0, C)
    dz = tl.load(dz_ptr + picture * C + channels)
    z = tl.load(z_ptr + picture * C + channels)
    rlength = tl.load(rlength_ptr + picture)
    along = tl.where(rlength > 0, tl.sum(z * dz, axis=0), 0.0)
    dx = ((dz - z * along) * tl.abs(rlength) / n_pixels).to(dx_ptr.dtype.element_ty)
    for first in range(0, n_pixels, ROWS):
        r = first + tl.arange(0, ROWS)
        offsets = (picture * n_pixels + r[:, None]) * C + channels[None, :]
        tl.store(dx_ptr + offsets, tl.broadcast_to(dx[None, :], (ROWS, C)), mask=(r < n_pixels)[:, None])


class UnitAverage(torch.autograd.Function):
    """normalize(mean over the pixels of x) for channels-last maps; it can be differentiated once."""

    @staticmethod
    def forward(ctx, x):
        n, C, H, W = x.shape
        x = x.contiguous(memory_format=torch.channels_last)
        z = torch.empty((n, C), device=x.device, dtype=torch.float32)
        rlength = torch.empty(n, device=x.device, dtype=torch.float32)
        launch(_unit_average_kernel, (n,))(x, z, rlength, H * W, C, EPS, ROWS)
        ctx.save_for_backward(z, rlength)
        ctx.shape, ctx.dtype = x.shape, x.dtype
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx, dz):
        z, rlength = ctx.saved_tensors
        n, C, H, W = ctx.shape
        dx = torch.empty(ctx.shape, device=dz.device, dtype=ctx.dtype, memory_format=torch.channels_last)
        launch(_unit_average_gradient_kernel, (n,))(dz.contiguous(), z, rlength, dx, H * W, C, ROWS)
        return dx


def unit_average(x: Tensor) -> Tensor:
    """(n, C) of length 1, in fp32."""
    z: Tensor = UnitAverage.apply(x)
    return z
