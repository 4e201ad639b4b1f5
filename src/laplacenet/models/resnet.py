"""ResNet-18 and ResNet-50 of He et al., with the 7×7 stem."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from laplacenet.models.network import GlobalAverage, Network
from laplacenet.models.norm import BatchNorm2d, NormActivation


class ResidualBlock(nn.Module):
    """ReLU(residual(x) + shortcut(x)); where the shape changes the shortcut is a 1×1 convolution."""

    def __init__(self, residual: nn.Sequential, *, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.residual = residual
        same_shape = n_in == n_out and stride == 1
        self.shortcut = nn.Identity() if same_shape else nn.Sequential(*_conv_norm(n_in, n_out, 1, stride=stride))
        self.relu = nn.ReLU()

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c2 h2 w2"]:
        total: Tensor = self.relu(self.residual(x) + self.shortcut(x))
        return total


def resnet_18(*, n_classes: int, in_channels: int) -> Network:
    return _resnet(_basic_block, (2, 2, 2, 2), expansion=1, n_classes=n_classes, in_channels=in_channels)


def resnet_50(*, n_classes: int, in_channels: int) -> Network:
    return _resnet(_bottleneck, (3, 4, 6, 3), expansion=4, n_classes=n_classes, in_channels=in_channels)


def _resnet(
    block: Callable[..., ResidualBlock], n_blocks: tuple[int, ...], *, expansion: int, n_classes: int, in_channels: int
) -> Network:
    layers: list[nn.Module] = [*_conv_norm_relu(in_channels, 64, 7, stride=2), nn.MaxPool2d(3, stride=2, padding=1)]
    n_in = 64
    for stage, count in enumerate(n_blocks):
        n_out = 64 * 2**stage * expansion
        for i in range(count):
            layers.append(block(n_in, n_out, stride=2 if stage > 0 and i == 0 else 1))
            n_in = n_out
    return Network(nn.Sequential(*layers, GlobalAverage()), embedding_size=n_in, n_classes=n_classes)


def _basic_block(n_in: int, n_out: int, *, stride: int) -> ResidualBlock:
    residual = nn.Sequential(*_conv_norm_relu(n_in, n_out, 3, stride=stride), *_conv_norm(n_out, n_out, 3))
    return ResidualBlock(residual, n_in=n_in, n_out=n_out, stride=stride)


def _bottleneck(n_in: int, n_out: int, *, stride: int) -> ResidualBlock:
    narrow = n_out // 4
    residual = nn.Sequential(
        *_conv_norm_relu(n_in, narrow, 1),
        *_conv_norm_relu(narrow, narrow, 3, stride=stride),
        *_conv_norm(narrow, n_out, 1),
    )
    return ResidualBlock(residual, n_in=n_in, n_out=n_out, stride=stride)


def _conv_norm(n_in: int, n_out: int, kernel: int, *, stride: int = 1) -> list[nn.Module]:
    return [_conv(n_in, n_out, kernel, stride=stride), BatchNorm2d(n_out)]


def _conv_norm_relu(n_in: int, n_out: int, kernel: int, *, stride: int = 1) -> list[nn.Module]:
    return [_conv(n_in, n_out, kernel, stride=stride), NormActivation(n_out)]


def _conv(n_in: int, n_out: int, kernel: int, *, stride: int) -> nn.Conv2d:
    return nn.Conv2d(n_in, n_out, kernel, stride=stride, padding=kernel // 2, bias=False)
