"""Networks by name."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils import parametrizations

from laplacenet.data import ChannelStatistics
from laplacenet.models.features.lite import VARIANTS
from laplacenet.models.lite_network import (
    FROZEN,
    NORM_STATISTICS,
    RUNNING,
    lite_network,
    load_published,
    published_statistics,
)
from laplacenet.models.network import Network, initialize_convolutions
from laplacenet.models.patches import patch_cnn
from laplacenet.models.resnet import resnet_18, resnet_50
from laplacenet.models.small import mlp, small_cnn
from laplacenet.models.thirteen_cnn import thirteen_cnn
from laplacenet.models.wide_resnet import wide_resnet
from laplacenet.runtime import InputError

MODELS = ("13-cnn", "wrn-28-2", "wrn-28-8", "resnet-18", "resnet-50", "small-cnn", "patch-cnn", "mlp", *VARIANTS)
LEAST_PIXELS, MOST_PIXELS = 32, 1024


@dataclass(frozen=True)
class ModelConfig:
    """Which network. `weight_norm` reparametrizes every convolution, as Tarvainen's 13-CNN does.

    `unit_length` concerns the 13-CNN: whether its embedding is ℓ2-normalized, as in the paper. Methods whose papers
    have no such layer go without (`MethodConfig.unit_length`).

    The rest concerns EfficientNet-Lite (`lite0`, `lite1`, `lite2`). `pixels` is the side that pictures are brought to
    inside the network, None for the one that it was published for. A `pretrained` one starts from the published
    weights; then `trunk_lr` is the trunk's learning rate as a part of the head's, and `norm_statistics` says whether
    batch norm keeps the published statistics (`frozen`) or goes on with those of the batches (`running`).
    """

    name: str = "13-cnn"
    weight_norm: bool = False
    unit_length: bool = True
    pretrained: bool = False
    pixels: int | None = None
    trunk_lr: float = 0.1
    norm_statistics: str = FROZEN

    def __post_init__(self) -> None:
        if self.name not in MODELS:
            raise InputError(f"unknown model {self.name!r}; choose one of {', '.join(MODELS)}")
        if self.name not in VARIANTS and self.pretrained:
            raise InputError(f"model {self.name} has no pretrained weights; choose one of {', '.join(VARIANTS)}")
        if self.weight_norm and self.pretrained:
            raise InputError("model.weight_norm and model.pretrained exclude each other; leave one out")
        if self.name not in VARIANTS and self.pixels is not None:
            raise InputError(f"model.pixels = {self.pixels}: only {', '.join(VARIANTS)} resize their pictures")
        if self.pixels is not None and not LEAST_PIXELS <= self.pixels <= MOST_PIXELS:
            raise InputError(
                f"model.pixels = {self.pixels}; it must lie between {LEAST_PIXELS} and {MOST_PIXELS}, or be none"
            )
        if not 0 < self.trunk_lr <= 1:
            raise InputError(f"model.trunk_lr = {self.trunk_lr}; it must be above 0 and at most 1")
        if self.norm_statistics not in NORM_STATISTICS:
            raise InputError(
                f"model.norm_statistics = {self.norm_statistics!r}; choose one of {', '.join(NORM_STATISTICS)}"
            )

    def input_statistics(self, measured: ChannelStatistics) -> ChannelStatistics:
        """By which the network's pictures are normalized: as its weights expect, or else by their own statistics."""
        return published_statistics(len(measured.mean)) if self.pretrained else measured


def build_model(
    name: str, *, n_classes: int, in_channels: int = 3, weight_norm: bool = False, seed: int = 0
) -> Network:
    """A fresh network of this name with its usual settings; `in_channels` is the length of a vector for `mlp`."""
    return build_network(ModelConfig(name, weight_norm), n_classes=n_classes, in_channels=in_channels, seed=seed)


def build_network(config: ModelConfig, *, n_classes: int, in_channels: int = 3, seed: int = 0) -> Network:
    """A fresh network, from its pretrained weights if the settings say so.

    The seed alone decides all other weights, on the host; torch's global generator is put back as it was.
    """
    network = untrained_network(config, n_classes=n_classes, in_channels=in_channels, seed=seed)
    if config.pretrained:
        load_published(network, config.name)
    return network


def untrained_network(config: ModelConfig, *, n_classes: int, in_channels: int = 3, seed: int = 0) -> Network:
    """The architecture, with weights as before any training."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = _architecture(config, n_classes=n_classes, in_channels=in_channels)
        initialize_convolutions(network)
    if config.weight_norm:
        for module in network.modules():
            if isinstance(module, nn.Conv2d):
                parametrizations.weight_norm(module)
    if config.pretrained:
        network.is_pretrained, network.body_lr_scale = True, config.trunk_lr
    return network


def _architecture(config: ModelConfig, *, n_classes: int, in_channels: int) -> Network:
    match config.name:
        case "13-cnn":
            return thirteen_cnn(n_classes=n_classes, in_channels=in_channels, unit_length=config.unit_length)
        case "wrn-28-2":
            return wide_resnet(depth=28, width=2, n_classes=n_classes, in_channels=in_channels)
        case "wrn-28-8":
            return wide_resnet(depth=28, width=8, n_classes=n_classes, in_channels=in_channels)
        case "resnet-18":
            return resnet_18(n_classes=n_classes, in_channels=in_channels)
        case "resnet-50":
            return resnet_50(n_classes=n_classes, in_channels=in_channels)
        case "small-cnn":
            return small_cnn(n_classes=n_classes, in_channels=in_channels)
        case "patch-cnn":
            return patch_cnn(n_classes=n_classes, in_channels=in_channels)
        case "mlp":
            return mlp(n_classes=n_classes, in_channels=in_channels)
        case _:
            statistics = config.norm_statistics if config.pretrained else RUNNING
            return lite_network(config.name, n_classes=n_classes, pixels=config.pixels, norm_statistics=statistics)
