"""EfficientNet-Lite: MBConv blocks without squeeze-excitation, ReLU6, and TensorFlow's "same" padding.

The architecture is that of Tan and Le (2019) as Google's Lite variants have it: the stem, the first and the last stage
are not scaled. Only the trunk is here, up to the average over the last 1 280 channels.
"""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.models.norm import BatchNorm2d

STEM_CHANNELS, N_FEATURES = 32, 1280
NORM_EPS = 1e-3
CHANNEL_STEP = 8


@dataclass(frozen=True)
class BlockStage:
    """A run of blocks; only the first of them has the stride and changes the number of channels."""

    n_blocks: int
    kernel: int
    stride: int
    expansion: int
    channels: int


STAGES = (
    BlockStage(n_blocks=1, kernel=3, stride=1, expansion=1, channels=16),
    BlockStage(n_blocks=2, kernel=3, stride=2, expansion=6, channels=24),
    BlockStage(n_blocks=2, kernel=5, stride=2, expansion=6, channels=40),
    BlockStage(n_blocks=3, kernel=3, stride=2, expansion=6, channels=80),
    BlockStage(n_blocks=3, kernel=5, stride=1, expansion=6, channels=112),
    BlockStage(n_blocks=4, kernel=5, stride=2, expansion=6, channels=192),
    BlockStage(n_blocks=1, kernel=3, stride=1, expansion=6, channels=320),
)


@dataclass(frozen=True)
class LiteVariant:
    """How far the stages are scaled, and the side in pixels of the pictures it was trained on."""

    width: float
    depth: float
    pixels: int

    @property
    def stages(self) -> tuple[BlockStage, ...]:
        last = len(STAGES) - 1
        return tuple(
            replace(
                stage,
                n_blocks=stage.n_blocks if i in (0, last) else math.ceil(self.depth * stage.n_blocks),
                channels=scale_channels(stage.channels, self.width),
            )
            for i, stage in enumerate(STAGES)
        )


VARIANTS = {
    "lite0": LiteVariant(width=1.0, depth=1.0, pixels=224),
    "lite1": LiteVariant(width=1.0, depth=1.1, pixels=240),
    "lite2": LiteVariant(width=1.1, depth=1.2, pixels=260),
}


def scale_channels(channels: int, width: float) -> int:
    """The nearest multiple of 8, but never less than nine tenths of what was asked for."""
    scaled = channels * width
    rounded = max(CHANNEL_STEP, int(scaled + CHANNEL_STEP / 2) // CHANNEL_STEP * CHANNEL_STEP)
    return rounded if rounded >= 0.9 * scaled else rounded + CHANNEL_STEP


def same_padding(side: int, kernel: int, stride: int) -> tuple[int, int]:
    """TensorFlow's "same": ⌈side / stride⌉ outputs, and of an odd number of zeros the larger part at the end."""
    total = max((math.ceil(side / stride) - 1) * stride + kernel - side, 0)
    return total // 2, total - total // 2


class Convolution(nn.Module):
    """Convolution, batch norm and, where `is_active`, ReLU6; after `fold` the norm is part of the convolution."""

    def __init__(self, n_in: int, n_out: int, *, kernel: int = 1, stride: int = 1, groups: int = 1, is_active: bool):
        super().__init__()
        self.conv = nn.Conv2d(n_in, n_out, kernel, stride, groups=groups, bias=False)
        self.norm: nn.Module = BatchNorm2d(n_out, eps=NORM_EPS)
        self.is_active = is_active

    def pad(self, x: Float[Tensor, "n c h w"]) -> tuple[Float[Tensor, "n c h2 w2"], tuple[int, int]]:
        """The input, padded where the zeros differ between the two ends, and the padding left to the convolution."""
        kernel, stride = self.conv.kernel_size[0], self.conv.stride[0]
        (top, bottom), (left, right) = (same_padding(side, kernel, stride) for side in x.shape[2:])
        if top == bottom and left == right:
            return x, (top, left)
        return functional.pad(x, (left, right, top, bottom)), (0, 0)

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c2 h2 w2"]:
        x, padding = self.pad(x)
        conv = self.conv
        x = self.norm(functional.conv2d(x, conv.weight, conv.bias, conv.stride, padding, groups=conv.groups))
        return functional.relu6(x) if self.is_active else x

    @torch.no_grad()
    def fold(self) -> None:
        """Batch norm with its running statistics is a factor and an offset for each channel."""
        norm, weight = self.norm, self.conv.weight
        assert isinstance(norm, nn.BatchNorm2d)
        assert norm.running_mean is not None
        assert norm.running_var is not None
        factor = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
        offset = norm.bias.double() - norm.running_mean.double() * factor
        self.conv.weight.copy_((weight.double() * factor[:, None, None, None]).to(weight.dtype))
        self.conv.bias = nn.Parameter(offset.to(weight.dtype))
        self.norm = nn.Identity()


class MBConv(nn.Module):
    """Expand, look around in each channel by itself, project; the input is added where the shape stays."""

    def __init__(self, n_in: int, n_out: int, *, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        n_inside = n_in * expansion
        self.expand = Convolution(n_in, n_inside, is_active=True) if expansion != 1 else nn.Identity()
        self.depthwise = Convolution(n_inside, n_inside, kernel=kernel, stride=stride, groups=n_inside, is_active=True)
        self.project = Convolution(n_inside, n_out, is_active=False)
        self.has_shortcut = stride == 1 and n_in == n_out

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c2 h2 w2"]:
        projected: Tensor = self.project(self.depthwise(self.expand(x)))
        return projected + x if self.has_shortcut else projected


class LiteTrunk(nn.Module):
    """Pictures of normalized channels → the average of the last 1 280 channels."""

    def __init__(self, variant: LiteVariant) -> None:
        super().__init__()
        self.stem = Convolution(3, STEM_CHANNELS, kernel=3, stride=2, is_active=True)
        blocks, n_in = [], STEM_CHANNELS
        for stage in variant.stages:
            for i in range(stage.n_blocks):
                stride = stage.stride if i == 0 else 1
                blocks.append(
                    MBConv(n_in, stage.channels, kernel=stage.kernel, stride=stride, expansion=stage.expansion)
                )
                n_in = stage.channels
        self.blocks = nn.Sequential(*blocks)
        self.head = Convolution(n_in, N_FEATURES, is_active=True)

    def maps(self, x: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n d h2 w2"]:
        last: Tensor = self.head(self.blocks(self.stem(x)))
        return last

    def forward(self, x: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n d"]:
        return self.maps(x).mean(dim=(2, 3))

    def fold(self) -> "LiteTrunk":
        """The same function without batch norm, in place; for inference only."""
        for module in self.modules():
            if isinstance(module, Convolution):
                module.fold()
        return self


PUBLISHED_NAMES = (
    ("_conv_stem.", "stem.conv."),
    ("_conv_head.", "head.conv."),
    ("_blocks.", "blocks."),
    ("_expand_conv.", "expand.conv."),
    ("_depthwise_conv.", "depthwise.conv."),
    ("_project_conv.", "project.conv."),
)
BLOCK_NORMS = {"_bn0.": "expand.norm.", "_bn1.": "depthwise.norm.", "_bn2.": "project.norm."}
OUTER_NORMS = {"_bn0.": "stem.norm.", "_bn1.": "head.norm."}


def our_name(published: str) -> str | None:
    """Where this trunk keeps a tensor of the published files; None for the classifier, which it does not have."""
    if published.startswith("_fc."):
        return None
    norms = BLOCK_NORMS if published.startswith("_blocks.") else OUTER_NORMS
    for theirs, ours in (*PUBLISHED_NAMES, *norms.items()):
        published = published.replace(theirs, ours)
    return published


def lite_trunk(name: str, weights: dict[str, Tensor]) -> LiteTrunk:
    """The trunk with the published weights, in evaluation mode; strict about names and shapes."""
    trunk = LiteTrunk(VARIANTS[name])
    trunk.load_state_dict({ours: tensor for theirs, tensor in weights.items() if (ours := our_name(theirs))})
    return trunk.eval().requires_grad_(False)
