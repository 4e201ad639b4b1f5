"""Batch normalization with its activation and an optional pooling: one module, so that one kernel can do all."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.runtime.group import current_group
from laplacenet.runtime.kernels import fits_kernels
from laplacenet.runtime.sharing import Share, current_share


@contextlib.contextmanager
def still_statistics(network: nn.Module) -> Iterator[None]:
    """Batch normalization normalizes by the batch as in training, but its running statistics stay as they are."""
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d | nn.BatchNorm1d)]
    before = [(norm.momentum, norm.num_batches_tracked) for norm in norms]
    for norm in norms:
        norm.momentum, norm.num_batches_tracked = 0.0, None
    try:
        yield
    finally:
        for norm, (momentum, n_batches) in zip(norms, before, strict=True):
            norm.momentum, norm.num_batches_tracked = momentum, n_batches


class NormByAll(torch.autograd.Function):
    """(x − mean)/σ·weight + bias by the statistics of all processes' values, and these: mean and variance.

    One message forward and one backward. Σx and Σx² are added up in float64, where their difference loses nothing.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, share: Share
    ) -> tuple[Tensor, Tensor, Tensor]:
        axes, shape = other_axes(x)
        n = share.of_all(x.numel() // x.shape[1])
        squares = torch.linalg.vector_norm(x, 2, axes, dtype=torch.float64).square()
        sums = current_group().sum_(torch.stack([x.sum(axes, dtype=torch.float64), squares]))
        mean, mean_square = sums / n
        var = (mean_square - mean.square()).clamp_(min=0)
        kind = x.dtype if x.dtype == torch.float64 else torch.float32
        center, rstd = mean.to(kind), (var + eps).rsqrt().to(kind)
        ctx.save_for_backward(x, center, rstd, weight)
        ctx.n = n
        x_hat = (x.to(kind) - center.view(shape)) * rstd.view(shape)
        y = (x_hat * weight.view(shape) + bias.view(shape)).to(x.dtype)
        ctx.mark_non_differentiable(mean, var)
        return y, mean, var

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, center, rstd, weight = ctx.saved_tensors
        axes, shape = other_axes(x)
        dy = gradients[0].to(center.dtype)
        x_hat = (x.to(center.dtype) - center.view(shape)) * rstd.view(shape)
        own = torch.stack([dy.sum(axes), (dy * x_hat).sum(axes)])
        of_dy, of_products = current_group().sum_(own.clone()) / ctx.n
        dx = (dy - of_dy.view(shape) - x_hat * of_products.view(shape)) * (weight * rstd).view(shape)
        return dx.to(x.dtype), own[1].to(weight.dtype), own[0].to(weight.dtype), None, None


def other_axes(x: Float[Tensor, "n c ..."]) -> tuple[list[int], list[int]]:
    """All axes but that of the channels, and the shape of a number for each channel beside x."""
    axes = [axis for axis in range(x.ndim) if axis != 1]
    return axes, [-1 if axis == 1 else 1 for axis in range(x.ndim)]


def shared_batch_norm(norm: nn.BatchNorm1d | nn.BatchNorm2d, x: Float[Tensor, "n c ..."], share: Share) -> Tensor:
    """Batch normalization in training mode, by the statistics of all processes' values."""
    n = share.of_all(x.numel() // x.shape[1])
    y, mean, var = NormByAll.apply(x, norm.weight, norm.bias, norm.eps, share)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked.add_(1)
        if norm.running_mean is not None and norm.running_var is not None and norm.momentum is not None:
            # `data`: torch's own normalization, which a pass that is not divided goes through, has saved both for its
            # gradient. It does not read them there, but autograd would refuse that they have changed
            norm.running_mean.data.lerp_(mean.to(norm.running_mean.dtype), norm.momentum)
            norm.running_var.data.lerp_((var * (n / (n - 1))).to(norm.running_var.dtype), norm.momentum)
    normalized: Tensor = y
    return normalized


class BatchNorm1d(nn.BatchNorm1d):
    """torch's; but in a pass that several processes share, statistics are those of all rows."""

    def forward(self, x: Tensor) -> Tensor:
        share = current_share() if self.training else None
        return super().forward(x) if share is None else shared_batch_norm(self, x, share)


class BatchNorm2d(nn.BatchNorm2d):
    """torch's; but in a pass that several processes share, statistics are those of all rows."""

    def forward(self, x: Tensor) -> Tensor:
        share = current_share() if self.training else None
        return super().forward(x) if share is None else shared_batch_norm(self, x, share)


class FixedBatchNorm2d(nn.BatchNorm2d):
    """Normalizes by its running statistics in training too, and never changes them; weight and bias are trained."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)


class NormActivation(BatchNorm2d):
    """leaky(batch_norm(x)), then a 2×2 max-pooling where `pool` says so; slope 0 is the plain ReLU.

    On a GPU it runs as fused kernels (norm_kernels.py), everywhere else as torch's own operations.
    """

    def __init__(self, n_channels: int, *, slope: float = 0.0, pool: bool = False) -> None:
        super().__init__(n_channels)
        self.slope = slope
        self.pool = pool

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h2 w2"]:
        if self._fits_kernels(x):
            if self.training:
                return self._fused_training(x)
            if not torch.is_grad_enabled():
                return self._fused_inference(x)
        y = functional.leaky_relu(super().forward(x), self.slope)
        return functional.max_pool2d(y, 2) if self.pool else y

    def _fits_kernels(self, x: Tensor) -> bool:
        n_channels = x.shape[1]
        is_power_of_two = n_channels & (n_channels - 1) == 0
        is_even = x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0
        return fits_kernels(x) and is_power_of_two and n_channels >= 8 and (is_even or not self.pool)

    def _fused_training(self, x: Tensor) -> Tensor:
        from laplacenet.models.norm_kernels import NormLeakyReLU, NormLeakyReLUPool  # noqa: PLC0415 - needs Triton

        operation = NormLeakyReLUPool if self.pool else NormLeakyReLU
        y: Tensor = operation.apply(  # type: ignore[no-untyped-call]
            x, self.weight, self.bias, self.running_mean, self.running_var, self.momentum, self.eps, self.slope
        )
        return y

    def _fused_inference(self, x: Tensor) -> Tensor:
        from laplacenet.models.norm_kernels import activate, activate_and_pool  # noqa: PLC0415 - needs Triton

        operation = activate_and_pool if self.pool else activate
        x = x.contiguous(memory_format=torch.channels_last)
        return operation(x, self.running_statistics(), self.weight, self.bias, slope=self.slope)

    def running_statistics(self) -> Float[Tensor, "2 c"]:
        """The running mean and 1/σ."""
        assert self.running_mean is not None
        assert self.running_var is not None
        return torch.stack([self.running_mean, torch.rsqrt(self.running_var + self.eps)])
