"""Convolutions as one matrix product, where on a GPU that is faster than cuDNN: 1×1, and 3×3 of an image's channels."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.models.norm import HAS_TRITON

IMAGE_CHANNELS = 3


class Conv2d(nn.Conv2d):
    """torch's; but in bf16 on a GPU a product where there is one.

    A 1×1 convolution multiplies pixels, as they lie in memory, by its weights. For the few channels of an image cuDNN
    has no kernel that keeps tensor cores busy: there the patches of 3×3 pixels are gathered and multiplied. On an H200
    the 13-CNN's first layer takes 0.09 ms so instead of 0.18, forward and backward (docs/notebook.md).
    """

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c2 h2 w2"]:
        if x.is_cuda and torch.is_autocast_enabled("cuda") and self.groups == 1 and self.bias is None:
            geometry = (self.kernel_size, self.stride, self.padding, self.dilation)
            if geometry == ((1, 1), (1, 1), (0, 0), (1, 1)):
                return self._product_of_pixels(x)
            is_plain = geometry == ((3, 3), (1, 1), (1, 1), (1, 1)) and self.padding_mode == "zeros"
            if HAS_TRITON and is_plain and self.in_channels <= IMAGE_CHANNELS and not x.requires_grad:
                return self._product_of_patches(x)
        return super().forward(x)

    def _product_of_pixels(self, x: Tensor) -> Tensor:
        return functional.linear(x.permute(0, 2, 3, 1), self.weight.flatten(1)).permute(0, 3, 1, 2)

    def _product_of_patches(self, x: Tensor) -> Tensor:
        from laplacenet.models.convolution_kernel import COLUMNS, gather_patches  # noqa: PLC0415 - needs Triton

        n, _, h, w = x.shape
        patches = gather_patches(x.to(torch.get_autocast_dtype("cuda")))
        weight = self.weight.permute(0, 2, 3, 1).flatten(1)
        y = functional.linear(patches, functional.pad(weight, (0, COLUMNS - weight.shape[1])))
        return y.view(n, h, w, -1).permute(0, 3, 1, 2)
