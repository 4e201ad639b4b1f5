"""Networks by name."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils import parametrizations

from laplacenet.models.network import Network, initialize_convolutions
from laplacenet.models.patches import patch_cnn
from laplacenet.models.resnet import resnet_18, resnet_50
from laplacenet.models.small import mlp, small_cnn
from laplacenet.models.thirteen_cnn import thirteen_cnn
from laplacenet.models.wide_resnet import wide_resnet
from laplacenet.runtime import InputError

MODELS = ("13-cnn", "wrn-28-2", "wrn-28-8", "resnet-18", "resnet-50", "small-cnn", "patch-cnn", "mlp")


@dataclass(frozen=True)
class ModelConfig:
    """Which network. `weight_norm` reparametrizes every convolution, as Tarvainen's 13-CNN does."""

    name: str = "13-cnn"
    weight_norm: bool = False

    def __post_init__(self) -> None:
        if self.name not in MODELS:
            raise InputError(f"unknown model {self.name!r}; choose one of {', '.join(MODELS)}")


def build_model(
    name: str, *, n_classes: int, in_channels: int = 3, weight_norm: bool = False, seed: int = 0
) -> Network:
    """A fresh network; `in_channels` is the length of a vector for `mlp`.

    The seed alone decides the weights, on the host; torch's global generator is put back as it was.
    """
    ModelConfig(name, weight_norm)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = _architecture(name, n_classes=n_classes, in_channels=in_channels)
        initialize_convolutions(network)
    if weight_norm:
        for module in network.modules():
            if isinstance(module, nn.Conv2d):
                parametrizations.weight_norm(module)
    return network


def _architecture(name: str, *, n_classes: int, in_channels: int) -> Network:
    match name:
        case "13-cnn":
            return thirteen_cnn(n_classes=n_classes, in_channels=in_channels)
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
        case _:
            return mlp(n_classes=n_classes, in_channels=in_channels)
