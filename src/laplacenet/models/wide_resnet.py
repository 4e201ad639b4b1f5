"""WideResNets of Zagoruyko and Komodakis: WRN-28-2 and WRN-28-8 for small images."""

import itertools

from jaxtyping import Float
from torch import Tensor, nn

from laplacenet.models.convolution import ImageConv2d
from laplacenet.models.network import GlobalAverage, Network
from laplacenet.models.norm import NormActivation


class PreactivationBlock(nn.Module):
    """BN → ReLU → conv, twice, plus the input; where the width changes, a 1×1 convolution of the activated input."""

    def __init__(self, n_in: int, n_out: int, *, stride: int) -> None:
        super().__init__()
        self.activate = NormActivation(n_in)
        self.residual = nn.Sequential(
            nn.Conv2d(n_in, n_out, 3, stride=stride, padding=1, bias=False),
            NormActivation(n_out),
            nn.Conv2d(n_out, n_out, 3, padding=1, bias=False),
        )
        self.shortcut = None if n_in == n_out else nn.Conv2d(n_in, n_out, 1, stride=stride, bias=False)

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c2 h2 w2"]:
        activated = self.activate(x)
        shortcut = x if self.shortcut is None else self.shortcut(activated)
        total: Tensor = shortcut + self.residual(activated)
        return total


def wide_resnet(*, depth: int, width: int, n_classes: int, in_channels: int) -> Network:
    n_blocks = (depth - 4) // 6
    widths = [16, 16 * width, 32 * width, 64 * width]
    layers: list[nn.Module] = [ImageConv2d(in_channels, widths[0])]
    for stage, (n_in, n_out) in enumerate(itertools.pairwise(widths)):
        layers.append(PreactivationBlock(n_in, n_out, stride=1 if stage == 0 else 2))
        layers += [PreactivationBlock(n_out, n_out, stride=1) for _ in range(n_blocks - 1)]
    layers += [NormActivation(widths[-1]), GlobalAverage()]
    return Network(nn.Sequential(*layers), embedding_size=widths[-1], n_classes=n_classes)
