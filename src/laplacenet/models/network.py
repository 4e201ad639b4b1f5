"""f = g ∘ z: what every network here is."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from laplacenet.models.lowered import call_lowered
from laplacenet.runtime import InputError
from laplacenet.runtime.device import at_least_float32, autocast_dtype
from laplacenet.runtime.kernels import fits_eager_kernels, is_on_gpu
from laplacenet.runtime.sharing import shared_pass

WIDEST_TILE = 1024  # channels of a picture that one program averages
FOR_PICTURES = "small-cnn (from 2 px), patch-cnn (from 8 px), 13-cnn (from 12 px), or any wrn, resnet or lite network"


class Head(nn.Linear):
    """A linear classifier on features: the paper's g, and the second one that some methods have."""


class Network(nn.Module):
    """A classifier f(x) = g(z(x)): `embed` is the paper's z, `head` its g.

    The graph is built on what `embed` gives; training goes through `forward`. The learning rate of the body is
    multiplied by `body_lr_scale`; `is_pretrained` says that it has published weights. `pixels` is the side that the
    network itself brings its pictures to, None where it reads them as they are. Processes that share a step divide the
    rows of every pass, in `embed` and in `forward`.
    """

    body_lr_scale: float = 1.0
    is_pretrained: bool = False
    pixels: int | None = None

    def __init__(self, body: nn.Module, *, embedding_size: int, n_classes: int) -> None:
        super().__init__()
        self.body = body
        self.embedding_size = embedding_size
        self.n_classes = n_classes
        self.head = Head(embedding_size, n_classes)

    def embed(self, x: Float[Tensor, "n ..."]) -> Float[Tensor, "n d"]:
        return shared_pass(self._embed, x)

    def forward(self, x: Float[Tensor, "n ..."]) -> Float[Tensor, "n C"]:
        return shared_pass(self._classify, x)

    def _embed(self, x: Float[Tensor, "n ..."]) -> Float[Tensor, "n d"]:
        is_lowered = is_on_gpu(x) and torch.is_grad_enabled() and not torch.compiler.is_compiling()
        if is_lowered and (dtype := autocast_dtype(x)):
            return call_lowered(self.body, x, dtype)
        z: Tensor = self.body(x)
        return z

    def _classify(self, x: Float[Tensor, "n ..."]) -> Float[Tensor, "n C"]:
        z = self.embed(x)
        with torch.autocast(z.device.type, enabled=False):  # fp32 from the pooling on
            logits: Tensor = self.head(at_least_float32(z))
        return logits


class GlobalAverage(nn.Module):
    """Any map size → one vector an image, in fp32: rounded to bf16, close neighbors change places."""

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c"]:
        return x.mean(dim=(2, 3), dtype=torch.float32)


class UnitAverage(GlobalAverage):
    """The average with the ℓ2 normalization that the paper adds to the 13-CNN's embedding."""

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c"]:
        if _fits_kernel(x):
            from laplacenet.models.average_kernel import unit_average  # noqa: PLC0415 - needs Triton

            return unit_average(x)
        return nn.functional.normalize(super().forward(x), dim=1)


def _fits_kernel(x: Float[Tensor, "n c h w"]) -> bool:
    n, n_channels, *_ = x.shape
    is_tile = n_channels & (n_channels - 1) == 0 and n_channels <= WIDEST_TILE
    return fits_eager_kernels(x) and n > 0 and is_tile


def initialize_convolutions(network: nn.Module) -> None:
    """He's normal initialization, by fan-out; everything else keeps torch's own."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def require_fit(network: Network, example: Tensor, *, name: str, remedy: str = "") -> None:
    """Pass one input through the network, so that images that are too small or of the wrong kind fail here, not
    mid-run. `remedy` is what to choose before another network.
    """
    try:
        with torch.no_grad():
            network.eval()(example)
    except (RuntimeError, ValueError) as error:
        shape = "×".join(map(str, example.shape[1:]))
        accepted = "mlp" if example.dim() == 2 else FOR_PICTURES
        raise InputError(
            f"model {name} cannot read inputs of shape {shape}; choose {remedy}--model {accepted}"
        ) from error
