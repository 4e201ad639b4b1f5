"""The first convolution of a network, as one matrix product where on a GPU that is faster than cuDNN's."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.models.norm import HAS_TRITON

IMAGE_CHANNELS = 3


class ImageConv2d(nn.Conv2d):
    """A 3×3 convolution of images, padded by one; in bf16 on a GPU as a product of patches and weights.

    cuDNN has no kernel that keeps tensor cores busy with three channels. Gathering the patches of 3×3 pixels and
    multiplying them saves the 13-CNN 0.09 of 3.3 ms a step on an H200 (docs/notebook.md). Gradients of the images are
    left to torch, and so is what torch compiles.
    """

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__(n_in, n_out, 3, padding=1, bias=False)

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c2 h w"]:
        is_in_bf16 = x.is_cuda and torch.is_autocast_enabled("cuda")
        is_left_to_torch = x.requires_grad or self.in_channels > IMAGE_CHANNELS or torch.compiler.is_compiling()
        return self._product(x) if is_in_bf16 and HAS_TRITON and not is_left_to_torch else super().forward(x)

    def _product(self, x: Tensor) -> Tensor:
        from laplacenet.models.convolution_kernel import COLUMNS, gather_patches  # noqa: PLC0415 - needs Triton

        n, _, h, w = x.shape
        patches = gather_patches(x.to(torch.get_autocast_dtype("cuda")))
        weight = self.weight.permute(0, 2, 3, 1).flatten(1)
        y = functional.linear(patches, functional.pad(weight, (0, COLUMNS - weight.shape[1])))
        return y.view(n, h, w, -1).permute(0, 3, 1, 2)
