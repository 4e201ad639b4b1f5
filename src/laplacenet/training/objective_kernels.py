"""MixUp, CutMix and the mixed loss as a Triton kernel each.

Torch takes some forty launches for them, each over before the next can begin.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from laplacenet.runtime.kernels import launch

MIX_BLOCK = 1024  # values that a program mixes


@triton.jit
def _mix_kernel(
    views_ptr, mixed_ptr, partners_ptr, weight_ptr, box_ptr, n_rows, b, W, n_values, C: tl.constexpr,
    HAS_BOX: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """λ·own + (1 − λ)·partner's for some values of a picture; inside the box the partner's alone, outside the own."""
    picture = tl.program_id(0)
    row = picture % b
    partner = tl.load(partners_ptr + row)
    weight = tl.load(weight_ptr)
    first = (picture // b).to(tl.int64) * n_rows
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n_values
    own = tl.load(views_ptr + (first + row) * n_values + i, mask=mask).to(tl.float32)
    other = tl.load(views_ptr + (first + partner) * n_values + i, mask=mask).to(tl.float32)
    if HAS_BOX:
        top, bottom = tl.load(box_ptr), tl.load(box_ptr + 1)
        left, right = tl.load(box_ptr + 2), tl.load(box_ptr + 3)
        y, x = i // C // W, i // C % W
        is_pasted = (y >= top) & (y < bottom) & (x >= left) & (x < right)
        is_empty = (top >= bottom) | (left >= right)
        weight = tl.where(is_pasted, 0.0, tl.where(is_empty, weight, 1.0))
    difference = own - other
    # as torch.lerp: exact at both ends
    mixed = tl.where(weight < 0.5, other + weight * difference, own - difference * (1 - weight))
    tl.store(mixed_ptr + picture.to(tl.int64) * n_values + i, mixed.to(mixed_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _mixed_loss_kernel(
    logits_ptr, targets_ptr, partners_ptr, weight_ptr, losses_ptr, gradient_ptr, n, b, C, BLOCK: tl.constexpr,
):  # fmt: skip
    """Cross-entropy of one view with its mixed target, and the gradient of the mean over all n views."""
    view = tl.program_id(0)
    row = view % b
    own = tl.load(targets_ptr + row)
    other = tl.load(targets_ptr + tl.load(partners_ptr + row))
    weight = tl.load(weight_ptr)
    c = tl.arange(0, BLOCK)
    mask = c < C
    x = tl.load(logits_ptr + view.to(tl.int64) * C + c, mask=mask, other=float("-inf"))
    x -= tl.max(x, axis=0)
    e = tl.exp(x)
    total = tl.sum(e, axis=0)
    target = tl.where(c == own, weight, 0.0) + tl.where(c == other, 1 - weight, 0.0)
    loss = tl.log(total) - tl.sum(tl.where(target > 0, target * x, 0.0), axis=0)
    tl.store(losses_ptr + view, loss)
    tl.store(gradient_ptr + view.to(tl.int64) * C + c, (e / total - target) / n, mask=mask)


def mix_pictures(views: Tensor, partners: Tensor, mix_weight: Tensor, box: Tensor | None) -> Tensor:
    """`objective.mix` for views (n_views, n, c, h, w) in channels last, each of which is one run of memory."""
    n_views, n_rows, channels, height, width = views.shape
    b, n_values = len(partners), channels * height * width
    mixed = torch.empty(
        (n_views * b, channels, height, width),
        device=views.device,
        dtype=views.dtype,
        memory_format=torch.channels_last,
    )
    launch(_mix_kernel, (n_views * b, triton.cdiv(n_values, MIX_BLOCK)))(
        views, mixed, partners, mix_weight, partners if box is None else box, n_rows, b, width, n_values, channels,
        box is not None, MIX_BLOCK,
    )  # fmt: skip
    return mixed.view(n_views, b, channels, height, width)


class MixedCrossEntropy(torch.autograd.Function):
    """`objective.mixed_cross_entropy` for logits in single precision: loss and gradient in one pass over them."""

    @staticmethod
    def forward(ctx, logits, targets, partners, mix_weight):
        logits, (b, C) = logits.contiguous(), logits.shape[-2:]
        n = logits.numel() // C
        losses = torch.empty(n, device=logits.device)
        gradient = torch.empty_like(logits)
        launch(_mixed_loss_kernel, (n,))(
            logits, targets, partners, mix_weight, losses, gradient, n, b, C, triton.next_power_of_2(C)
        )
        ctx.save_for_backward(gradient)
        return losses.mean()

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        (gradient,) = ctx.saved_tensors
        return gradient * upstream, None, None, None
