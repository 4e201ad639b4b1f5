"""EfficientNet-Lite as a network to be trained: its trunk, not folded, before a new head.

Fine-tuning starts from the published weights, which expect (x − 127)/128 and pictures of at least some hundred pixels:
small ones are enlarged inside the network, where the device does it.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.data import ChannelStatistics
from laplacenet.models.features.lite import N_FEATURES, NORM_EPS, VARIANTS, Convolution, LiteTrunk
from laplacenet.models.features.lite_weights import MEAN, STD, pretrained_trunk
from laplacenet.models.network import GlobalAverage, Network
from laplacenet.models.norm import FixedBatchNorm2d

BYTE = 255.0
LENGTH = 8.0
FROZEN, RUNNING = "frozen", "running"
NORM_STATISTICS = (FROZEN, RUNNING)


class LiteBody(nn.Module):
    """Pictures of any size, in color or grey → the average of the trunk's last channels, at one length, in fp32.

    The published trunk's vectors are some twenty long: a new head would diverge at learning rates that suit the trunk.
    """

    def __init__(self, trunk: LiteTrunk, pixels: int) -> None:
        super().__init__()
        self.trunk = trunk
        self.pixels = pixels
        self.average = GlobalAverage()

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        x = x.expand(-1, 3, -1, -1) if x.shape[1] == 1 else x
        x = resized(x, self.pixels).contiguous(memory_format=torch.channels_last)  # 1.7 times as fast on a CPU
        z: Tensor = self.average(self.trunk.maps(x))
        return LENGTH * functional.normalize(z, dim=1)


def resized(x: Float[Tensor, "n c h w"], pixels: int) -> Float[Tensor, "n c h2 w2"]:
    """The shorter side becomes `pixels`; a larger picture is smoothed on the way."""
    height, width = x.shape[2:]
    shorter = min(height, width)
    if shorter == pixels:
        return x
    size = [round(pixels * height / shorter), round(pixels * width / shorter)]
    return functional.interpolate(x, size, mode="bilinear", antialias=shorter > pixels)


def lite_network(name: str, *, n_classes: int, pixels: int | None, norm_statistics: str) -> Network:
    """The architecture with the weights that torch gives it."""
    trunk = LiteTrunk(VARIANTS[name])
    if norm_statistics == FROZEN:
        fix_statistics(trunk)
    side = pixels or VARIANTS[name].pixels
    network = Network(LiteBody(trunk, side), embedding_size=N_FEATURES, n_classes=n_classes)
    network.pixels = side
    return network


def fix_statistics(trunk: LiteTrunk) -> None:
    """Every batch norm keeps to its running statistics, in training too."""
    for module in trunk.modules():
        if isinstance(module, Convolution):
            module.norm = FixedBatchNorm2d(module.conv.out_channels, eps=NORM_EPS)


@torch.no_grad()
def load_published(network: Network, name: str) -> None:
    """Put the published weights into the trunk; the head stays as it is."""
    assert isinstance(network.body, LiteBody)
    trunk, _ = pretrained_trunk(name)
    network.body.trunk.load_state_dict(trunk.state_dict())


def published_statistics(n_channels: int) -> ChannelStatistics:
    """The normalization that the published weights expect, in units where white is 1."""
    return ChannelStatistics((MEAN / BYTE,) * n_channels, (STD / BYTE,) * n_channels)
