"""The first convolution of a network, as one matrix product where on a GPU that is faster than cuDNN's."""

import itertools

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.models.norm import NormActivation
from laplacenet.runtime.device import autocast_dtype
from laplacenet.runtime.kernels import fits_eager_kernels
from laplacenet.runtime.sharing import current_share

IMAGE_CHANNELS = 3
SMALLEST_TILE, LARGEST_TILE = 16, 256  # channels that the kernels of a whole layer can hold


class ImageConv2d(nn.Conv2d):
    """A 3×3 convolution of images, padded by one; in bf16 on a GPU as a product of patches and weights.

    cuDNN has no kernel that keeps tensor cores busy with three channels. Gathering the patches of 3×3 pixels and
    multiplying them saves the 13-CNN 0.09 of 3.3 ms a step on an H200 (docs/notebook.md). Gradients of the images are
    left to torch, and so is what torch compiles.
    """

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__(n_in, n_out, 3, padding=1, bias=False)

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c2 h w"]:
        return self._product(x) if self.fits_kernels(x) else super().forward(x)

    def fits_kernels(self, x: Tensor) -> bool:
        is_left_to_torch = x.requires_grad or self.in_channels > IMAGE_CHANNELS
        return fits_eager_kernels(x) and not is_left_to_torch and autocast_dtype(x) is not None

    def _product(self, x: Tensor) -> Tensor:
        from laplacenet.models.convolution_kernel import COLUMNS, gather_patches  # noqa: PLC0415 - needs Triton

        n, _, h, w = x.shape
        patches = gather_patches(x.to(autocast_dtype(x)))
        weight = self.weight.permute(0, 2, 3, 1).flatten(1)
        y = functional.linear(patches, functional.pad(weight, (0, COLUMNS - weight.shape[1])))
        return y.view(n, h, w, -1).permute(0, 3, 1, 2)


class ImageSequential(nn.Sequential):
    """Modules in sequence, of which the first two are a convolution of images and its normalization.

    In lower precision on a GPU these two are one operation, which multiplies the patches anew in each pass over the
    output and never stores what is between them; forward and backward hooks of either of them are not called then.
    """

    @property
    def first_layer(self) -> tuple[ImageConv2d, NormActivation] | None:
        """None in a slice that begins elsewhere."""
        match list(itertools.islice(self, 2)):
            case [ImageConv2d() as convolution, NormActivation() as norm]:
                return convolution, norm
        return None

    def forward(self, x: Float[Tensor, "n c h w"]) -> Tensor:
        layer = None if torch.compiler.is_compiling() else self.first_layer
        modules = iter(self)
        if layer is not None and _fit_together(*layer, x):
            x, modules = image_layer(*layer, x), itertools.islice(self, 2, None)
        for module in modules:
            x = module(x)
        return x


def _fit_together(convolution: ImageConv2d, norm: NormActivation, x: Tensor) -> bool:
    """A batch that processes share has statistics of all of them, which the kernels of the whole layer do not add.

    Hooks of the two layers are not called. A hook before either of them, such as that of torch's pruning, may change
    what they compute, so such layers do not fit; nor does an empty batch.
    """
    C = convolution.out_channels
    is_tile = C & (C - 1) == 0 and SMALLEST_TILE <= C <= LARGEST_TILE
    is_one_pass = norm.training == convolution.training and (norm.training or not torch.is_grad_enabled())
    is_hooked = bool(convolution._forward_pre_hooks or norm._forward_pre_hooks)
    is_layer = is_tile and is_one_pass and not norm.pool and not is_hooked
    return convolution.fits_kernels(x) and is_layer and len(x) > 0 and current_share() is None


def image_layer(convolution: ImageConv2d, norm: NormActivation, x: Float[Tensor, "n c h w"]) -> Tensor:
    """`norm(convolution(x))` as kernels of the whole layer."""
    from laplacenet.models.convolution_kernel import ImageLayer, activate_convolution, gather_patches  # noqa: PLC0415

    precision = autocast_dtype(x)
    assert precision is not None
    x, weight = x.to(precision), convolution.weight.to(precision)
    if norm.training:
        y: Tensor = ImageLayer.apply(  # type: ignore[no-untyped-call]
            x, weight, norm.weight, norm.bias, norm.running_mean, norm.running_var, norm.momentum, norm.eps,
            norm.slope,
        )  # fmt: skip
        return y
    return activate_convolution(
        gather_patches(x), weight, norm.running_statistics(), norm.weight, norm.bias,
        shape=x.shape, slope=norm.slope,
    )  # fmt: skip
