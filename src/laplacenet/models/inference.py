"""A whole data set through a network: embeddings and predictions of unaugmented inputs."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from laplacenet.models.network import Network
from laplacenet.runtime import Group, compute_dtype, mixed_precision
from laplacenet.runtime.device import at_least_float32

CHUNK = {"cuda": 2_000, "cpu": 250}
"""Inputs of up to 32×32 pixels a forward pass, enough to fill the device; of larger ones as many as have its pixels."""
PIXELS = 32 * 32


def chunk_size(inputs: Tensor, device: torch.device, *, pixels: int | None = None) -> int:
    """`pixels` is the side that the network enlarges its pictures to."""
    n_pixels = max(inputs.shape[2:].numel(), (pixels or 0) ** 2) if inputs.ndim == 4 else 1
    return max(1, CHUNK[device.type] * PIXELS // max(PIXELS, n_pixels))


class Inference:
    """z(x) and f(x) for all of a data set, in evaluation mode and without gradients.

    `prepare` turns stored inputs (uint8 images, vectors) into what the network reads. Inputs may lie on the host or on
    the device; results lie on the device in fp32. With a `group` every process embeds a part and has the whole: all of
    them have to ask at the same time.
    """

    def __init__(self, network: Network, prepare: Callable[[Tensor], Tensor], *, group: Group | None = None) -> None:
        self.network = network
        self.prepare = prepare
        self.group = group or Group()

    def embed(self, inputs: Tensor) -> Float[Tensor, "n d"]:
        """V = {z(x_1), …, z(x_n)}."""
        device = self.device
        was_training = self.network.training
        self.network.eval()
        try:
            with torch.no_grad(), mixed_precision(device):
                chunks = torch.split(inputs, chunk_size(inputs, device, pixels=self.network.pixels))
                # whole chunks: in passes of the same size features are the same, however many processes there are
                parts = (self.network.embed(self.prepare_chunk(chunks[i])) for i in self.group.part(len(chunks)))
                own = [at_least_float32(part) for part in parts]
                if not own:  # fewer chunks than processes
                    own = [self.network.head.weight.new_empty((0, self.network.embedding_size))]
                return self.group.gather(torch.cat(own))
        finally:
            self.network.train(was_training)

    def logits(self, inputs: Tensor) -> Float[Tensor, "n C"]:
        with torch.no_grad():
            logits: Tensor = self.network.head(self.embed(inputs))
            return logits

    def prepare_chunk(self, chunk: Tensor) -> Tensor:
        """Some of the inputs as the network reads them, on its device and in the layout that is fastest there."""
        x = self.prepare(chunk.to(self.device))
        if x.is_cuda and x.ndim == 4:
            x = x.to(dtype=compute_dtype(x.device), memory_format=torch.channels_last)
        return x

    @property
    def device(self) -> torch.device:
        return self.network.head.weight.device
