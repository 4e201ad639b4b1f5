"""Device and precision of the computation."""

import contextlib
import threading
from collections.abc import Iterator

import torch

from laplacenet.runtime.errors import InputError
from laplacenet.runtime.launch import Launch, read_launch

FIRST_WITH_BF16 = (8, 0)  # compute capability: Ampere


def choose_device(name: str = "auto") -> torch.device:
    """`auto` uses the first GPU if there is one; `cpu`, `cuda` and `cuda:1` choose.

    A GPU that is named by its number becomes the process's current one, which `auto` and `cuda` mean from then on. Each
    of several processes on a machine uses its own GPU.
    """
    launch = read_launch()
    if launch.size > 1 and name != "cpu":
        return _own_gpu(name, launch)
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
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)  # graphs are captured, and kernels of our own run, on the current one
    return device


def _own_gpu(name: str, launch: Launch) -> torch.device:
    if name not in ("auto", "cuda"):
        raise InputError(f"device {name!r} asked for by several processes; choose auto, cpu or cuda")
    n_gpus = torch.cuda.device_count()
    if name == "auto" and not n_gpus:
        return torch.device("cpu")
    if not n_gpus:
        raise InputError(f"device {name!r} asked for, but no GPU is found; choose auto or cpu")
    if launch.local_rank >= n_gpus:
        raise InputError(
            f"process {launch.local_rank} of this machine has no GPU of its own, there are {n_gpus};"
            f" give --nproc-per-node {n_gpus}, or --device cpu"
        )
    device = torch.device("cuda", launch.local_rank)
    torch.cuda.set_device(device)
    return device


def wake_up(device: torch.device) -> None:
    """Initialize a GPU in a thread: its context and libraries take a second, in which other things can be done."""

    def begin() -> None:
        with contextlib.suppress(RuntimeError):  # raised again where the device is first used
            x = torch.zeros(1, 8, 8, 8, device=device, dtype=compute_dtype(device))
            torch.nn.functional.conv2d(x, x.new_zeros(8, 8, 3, 3))
            x[0, 0] @ x[0, 0]

    if device.type == "cuda":
        threading.Thread(target=begin, name="wake-up", daemon=True).start()


def compute_dtype(device: torch.device) -> torch.dtype:
    """The precision of matrix products: bf16 on a GPU that has it, fp32 on older ones and on a CPU."""
    has_bf16 = device.type == "cuda" and torch.cuda.get_device_capability(device) >= FIRST_WITH_BF16
    return torch.bfloat16 if has_bf16 else torch.float32


def at_least_float32(x: torch.Tensor) -> torch.Tensor:
    """A loss is not computed in bf16; whoever computes in float64 keeps it."""
    return x if x.dtype == torch.float64 else x.float()


@contextlib.contextmanager
def mixed_precision(device: torch.device) -> Iterator[None]:
    """bf16 products over fp32 master weights where the device has bf16; plain fp32 elsewhere."""
    dtype = compute_dtype(device)
    is_lower = dtype is not torch.float32
    with torch.autocast(device_type=device.type, dtype=dtype if is_lower else None, enabled=is_lower):
        yield


def autocast_dtype(x: torch.Tensor) -> torch.dtype | None:
    """The precision of products where x lies; None where it is not lowered."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None


@contextlib.contextmanager
def convolution_trials(is_on: bool) -> Iterator[None]:
    """Switch cuDNN's benchmark of algorithms on or off; the previous setting is restored."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = is_on
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
