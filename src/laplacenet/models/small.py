"""Small networks: five convolutions for small pictures, one hidden layer for vectors."""

from torch import nn

from laplacenet.models.network import GlobalAverage, Network
from laplacenet.models.norm import NormActivation


def small_cnn(*, n_classes: int, in_channels: int) -> Network:
    """Two stages of two 3×3 convolutions with pooling in between, then one more: for small pictures, on a CPU."""
    body = nn.Sequential(
        *_layer(in_channels, 32), *_layer(32, 32, pool=True),
        *_layer(32, 64), *_layer(64, 64), *_layer(64, 128),
        GlobalAverage(),
    )  # fmt: skip
    return Network(body, embedding_size=128, n_classes=n_classes)


def mlp(*, n_classes: int, in_channels: int, hidden: int = 64) -> Network:
    """One hidden layer, as in the paper's two moons; `in_channels` is the length of a vector."""
    body = nn.Sequential(nn.Linear(in_channels, hidden), nn.ReLU())
    return Network(body, embedding_size=hidden, n_classes=n_classes)


def _layer(n_in: int, n_out: int, *, pool: bool = False) -> list[nn.Module]:
    return [nn.Conv2d(n_in, n_out, 3, padding=1, bias=False), NormActivation(n_out, slope=0.1, pool=pool)]
