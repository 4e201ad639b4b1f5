"""A pretrained network that is only asked: pictures as bytes in, one vector a picture out."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

CPU_BATCH = 4  # activations of so few pictures stay in a core's cache; larger batches were measured to be slower
CUDA_BATCH = 128


@dataclass(frozen=True, eq=False)
class FeatureNetwork:
    """`name` as the user gave it; `fingerprint` tells apart two networks of one name.

    Pictures are squares of `pixels` a side; `mean` and `std` are in units of their bytes. `module` is the same function
    in plain operations of torch, for export; None where there is none.
    """

    name: str
    n_features: int
    pixels: int
    fingerprint: str
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    trunk: Callable[[Float[Tensor, "n 3 h w"]], Float[Tensor, "n d"]]
    device: torch.device
    module: nn.Module | None = None

    @property
    def batch_size(self) -> int:
        """How many pictures `embed` takes at once at its fastest; on a CPU, for each thread."""
        return CUDA_BATCH if self.device.type == "cuda" else CPU_BATCH

    @torch.no_grad()
    def embed(self, pictures: UInt8[Tensor, "n 3 h w"]) -> Float[Tensor, "n d"]:
        """One row of fp32 on the CPU for each picture; on a GPU the products are bf16."""
        dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        x = pictures.to(self.device).contiguous(memory_format=torch.channels_last)
        mean, std = (torch.tensor(values, device=self.device)[:, None, None] for values in (self.mean, self.std))
        return self.trunk(((x.float() - mean) / std).to(dtype)).float().cpu()


def on_device(module: nn.Module, device: torch.device) -> nn.Module:
    """For inference: channels last, and bf16 on a GPU."""
    if device.type == "cuda":
        return module.to(device=device, dtype=torch.bfloat16, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return] # torch's stubs know no such pair
    return module.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
