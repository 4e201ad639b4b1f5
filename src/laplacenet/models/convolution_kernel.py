"""The 3×3 patches around every pixel as a Triton kernel: what turns a first layer into one matrix product."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from laplacenet.runtime.kernels import launch

COLUMNS = 32  # of a row of patches: 9 pixels of up to 3 channels, then zeros, for products of whole tiles
ROWS = 128  # of a program


@triton.jit
def _patches_kernel(x_ptr, patches_ptr, n_pixels, H, W, C: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr):
    """Row r holds the 3×3 pixels around pixel r, by row, column and channel; zeros beyond the border and at the end."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    k = tl.arange(0, COLUMNS)
    down = (k // (3 * C) - 1)[None, :]
    right = ((k // C) % 3 - 1)[None, :]
    h = ((r // W) % H)[:, None] + down
    w = (r % W)[:, None] + right
    is_row = (r < n_pixels)[:, None]
    is_inside = (h >= 0) & (h < H) & (w >= 0) & (w < W) & (k < 9 * C)[None, :] & is_row
    pixels = r[:, None] + down * W + right
    x = tl.load(x_ptr + pixels.to(tl.int64) * C + (k % C)[None, :], mask=is_inside, other=0.0)
    tl.store(patches_ptr + r[:, None].to(tl.int64) * COLUMNS + k[None, :], x, mask=is_row)


def gather_patches(x: Tensor) -> Tensor:
    """(n·h·w, 32): the patch around every pixel of channels-last images with at most three channels."""
    n, C, H, W = x.shape
    x = x.contiguous(memory_format=torch.channels_last)
    patches = torch.empty((n * H * W, COLUMNS), device=x.device, dtype=x.dtype)
    launch(_patches_kernel, (triton.cdiv(len(patches), ROWS),))(x, patches, len(patches), H, W, C, COLUMNS, ROWS)
    return patches
