"""The 13-layer network of Tarvainen and Valpola without dropout; its embedding may be ℓ2-normalized as in the paper."""

from torch import nn

from laplacenet.models.convolution import ImageConv2d, ImageSequential
from laplacenet.models.network import GlobalAverage, Network, UnitAverage
from laplacenet.models.norm import NormActivation


def thirteen_cnn(*, n_classes: int, in_channels: int, unit_length: bool = True) -> Network:
    """Three stages of three convolutions: 128 and 256 wide (3×3), then 512 (3×3, unpadded), 256 and 128 (1×1)."""
    body = ImageSequential(
        ImageConv2d(in_channels, 128), NormActivation(128, slope=0.1), *_layer(128, 128), *_layer(128, 128, pool=True),
        *_layer(128, 256), *_layer(256, 256), *_layer(256, 256, pool=True),
        *_layer(256, 512, padding=0), *_layer(512, 256, kernel=1, padding=0), *_layer(256, 128, kernel=1, padding=0),
        UnitAverage() if unit_length else GlobalAverage(),
    )  # fmt: skip
    return Network(body, embedding_size=128, n_classes=n_classes)


def _layer(n_in: int, n_out: int, *, kernel: int = 3, padding: int = 1, pool: bool = False) -> list[nn.Module]:
    return [
        nn.Conv2d(n_in, n_out, kernel, padding=padding, bias=False),
        NormActivation(n_out, slope=0.1, pool=pool),
    ]
