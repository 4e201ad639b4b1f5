"""Where the arithmetic happens, and in which precision."""

import contextlib
from collections.abc import Iterator

import torch

from laplacenet.runtime.errors import InputError

FIRST_WITH_BF16 = (8, 0)  # compute capability: Ampere


def choose_device(name: str = "auto") -> torch.device:
    """`auto` takes the first GPU if there is one; `cpu`, `cuda` and `cuda:1` say which."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"unknown device {name!r}; choose auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device {name!r} asked for, but this machine has no CUDA device; choose auto or cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f"device {name!r} asked for, but there are {torch.cuda.device_count()} CUDA devices")
    return device


def compute_dtype(device: torch.device) -> torch.dtype:
    """What products are computed in: bf16 on a GPU that has it, fp32 on older ones and on a CPU."""
    has_bf16 = device.type == "cuda" and torch.cuda.get_device_capability(device) >= FIRST_WITH_BF16
    return torch.bfloat16 if has_bf16 else torch.float32


@contextlib.contextmanager
def mixed_precision(device: torch.device) -> Iterator[None]:
    """bf16 products over fp32 master weights where the device has bf16; plain fp32 elsewhere."""
    with torch.autocast(device_type=device.type, dtype=torch.bfloat16, enabled=compute_dtype(device) is torch.bfloat16):
        yield
