"""EfficientNet-Lite on a CPU through oneDNN: weights laid out for it once, ReLU6 and shortcuts inside the convolution.

Torch's eager mode reads and writes every activation once for the convolution, again for ReLU6 and again for the
shortcut. The operators behind torch's own compiler do it in one pass. They are not part of its public interface, so
`fused` checks on one picture that they exist here and agree, and gives the trunk back as it was where they do not.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from laplacenet.models.features.lite import Convolution, LiteTrunk, MBConv

CHECK_SIDE = 64
CHECK_TOLERANCE = 1e-3  # of the largest feature
RELU6 = ("hardtanh", [0.0, 6.0], "")
NOTHING: tuple[str, list[float], str] = ("none", [], "")


class FusedConvolution(nn.Module):
    """A folded convolution whose weight lies as oneDNN reads it; ReLU6 or the shortcut is applied on the way out."""

    def __init__(self, plain: Convolution) -> None:
        super().__init__()
        conv = plain.conv
        self.plain = plain
        self.stride, self.groups = list(conv.stride), conv.groups
        self.post = RELU6 if plain.is_active else NOTHING
        self.bias = conv.bias.detach() if conv.bias is not None else None
        self.weights: dict[torch.Size, Tensor] = {}

    def weight(self, shape: torch.Size, padding: list[int]) -> Tensor:
        """The weight in the order that oneDNN prefers for inputs of this size, of which there are few."""
        size = shape[1:]
        if size not in self.weights:
            reorder: Any = torch.ops.mkldnn._reorder_convolution_weight
            plain = self.plain.conv.weight.detach()
            self.weights[size] = reorder(plain, padding, self.stride, [1, 1], self.groups, list(shape))
        return self.weights[size]

    def forward(
        self, x: Float[Tensor, "n c h w"], shortcut: Float[Tensor, "n c2 h2 w2"] | None = None
    ) -> Float[Tensor, "n c2 h2 w2"]:
        x, padding = self.plain.pad(x)
        convolve: Any = torch.ops.mkldnn._convolution_pointwise
        weight = self.weight(x.shape, list(padding))
        place = (list(padding), self.stride, [1, 1], self.groups)
        if shortcut is None:
            out: Tensor = convolve(x, weight, self.bias, *place, *self.post)
        else:
            out = convolve.binary(x, shortcut, weight, self.bias, *place, "add", 1.0, None, [], None)
        return out


class FusedMBConv(nn.Module):
    def __init__(self, plain: MBConv) -> None:
        super().__init__()
        self.expand = FusedConvolution(plain.expand) if isinstance(plain.expand, Convolution) else nn.Identity()
        self.depthwise, self.project = FusedConvolution(plain.depthwise), FusedConvolution(plain.project)
        self.has_shortcut = plain.has_shortcut

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c2 h2 w2"]:
        inside: Tensor = self.depthwise(self.expand(x))
        projected: Tensor = self.project(inside, x if self.has_shortcut else None)
        return projected


class FusedTrunk(nn.Module):
    """The same function as the folded trunk that it is made from."""

    def __init__(self, plain: LiteTrunk) -> None:
        super().__init__()
        self.stem, self.head = FusedConvolution(plain.stem), FusedConvolution(plain.head)
        self.blocks = nn.Sequential(*(FusedMBConv(block) for block in plain.blocks if isinstance(block, MBConv)))

    def forward(self, x: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n d"]:
        last: Tensor = self.head(self.blocks(self.stem(x)))
        return last.mean(dim=(2, 3))


@torch.no_grad()
def fused(folded: LiteTrunk) -> nn.Module:
    """The trunk through oneDNN's fused convolutions, or `folded` itself where they are missing or differ."""
    picture = torch.linspace(-1, 1, 3 * CHECK_SIDE**2).reshape(1, 3, CHECK_SIDE, CHECK_SIDE)
    picture = picture.contiguous(memory_format=torch.channels_last)
    expected = folded(picture)
    try:
        trunk = FusedTrunk(folded)
        difference = (trunk(picture) - expected).abs().max()
    except (AttributeError, RuntimeError, TypeError, NotImplementedError):
        return folded
    return trunk if difference <= CHECK_TOLERANCE * expected.abs().max() else folded
