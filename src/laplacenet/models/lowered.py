"""A network's weights in the precision of its products: all in one launch, and their gradients back in one.

Under autocast each layer would copy its own weights to bf16 and their gradient back to fp32: two launches a layer, most
of them over sooner than the next begins. The numbers are the same.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

LAYERS = (nn.Conv2d, nn.Linear)
"""What autocast computes in lower precision here."""


class Lowered(torch.autograd.Function):
    """Copies of tensors in another precision."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *tensors: Tensor) -> tuple[Tensor, ...]:
        copies = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
        copy_all(tensors, into=copies)
        ctx.save_for_backward(*tensors)
        return tuple(copies)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        raised = [torch.empty_like(tensor) for tensor in ctx.saved_tensors]
        copy_all(gradients, into=raised)
        return None, *raised


def copy_all(tensors: Sequence[Tensor], *, into: Sequence[Tensor]) -> None:
    """Copy each tensor into the one of its place, on a GPU in one launch; a precision may change.

    Torch does it in one launch only where strides agree, and those of a 1×1 kernel may differ though its memory does
    not: so tensors are copied as rows of numbers.
    """
    rows = [row_of_numbers(tensor, like=target) for tensor, target in zip(tensors, into, strict=True)]
    torch._foreach_copy_([row_of_numbers(target, like=target) for target in into], rows)


def row_of_numbers(x: Float[Tensor, "..."], *, like: Tensor) -> Float[Tensor, " n"]:
    """The tensor in the order in which `like`, a tensor without gaps, lies in memory; a copy only where x does not."""
    is_channels_last = like.ndim == 4 and like.is_contiguous(memory_format=torch.channels_last)
    x = x.contiguous(memory_format=torch.channels_last if is_channels_last else torch.contiguous_format)
    return x.as_strided((x.numel(),), (1,))


def call_lowered(module: nn.Module, x: Tensor, dtype: torch.dtype) -> Tensor:
    """`module(x)` with the weights of its layers in this precision; their gradients come back in their own."""
    weights = {
        f"{layer_name}.{name}" if layer_name else name: weight
        for layer_name, layer in module.named_modules()
        if isinstance(layer, LAYERS)
        for name, weight in layer.named_parameters(recurse=False)
        if weight.requires_grad and weight.dtype != dtype
    }
    if not weights:
        return module(x)  # type: ignore[no-any-return]
    copies = Lowered.apply(dtype, *weights.values())  # type: ignore[no-untyped-call]
    # two layers that share a weight have a copy each, which torch would refuse if it tied them
    return functional_call(module, dict(zip(weights, copies, strict=True)), (x,), tie_weights=False)  # type: ignore[no-any-return]
