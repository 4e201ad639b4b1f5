"""Triton's interpreter, which runs kernels on a CPU, one program after another: what their tests need without a GPU."""

import importlib.metadata
import importlib.util
import os
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor


def has_old_triton() -> bool:
    return importlib.util.find_spec("triton") is not None and tuple(
        map(int, importlib.metadata.version("triton").split(".")[:2])
    ) < (3, 7)


has_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")

interpreted = [
    has_triton,
    pytest.mark.skipif(has_old_triton(), reason="before 3.7 Triton's interpreter does not work beside NumPy 2.4"),
    pytest.mark.skipif(torch.cuda.is_available(), reason="beside a GPU kernels are compiled, and tested there"),
    pytest.mark.usefixtures("guarded_kernels", "right_bf16"),
    # lanes behind a mask compute something, too
    pytest.mark.filterwarnings("ignore:(invalid value|divide by zero|overflow) encountered:RuntimeWarning"),
]


def interpret_kernels() -> None:
    """From now on, in modules that are imported."""
    os.environ["TRITON_INTERPRET"] = "1"


def pretend_to_be_on_a_gpu(patch: pytest.MonkeyPatch) -> None:
    """Kernels are used as they would be there, and products are computed in fp16."""
    for module in ("runtime.kernels", "models.network", "augment.views"):
        patch.setattr(f"laplacenet.{module}.is_on_gpu", lambda x: True)
    for module in ("runtime.device", "models.inference", "augment.kernel"):
        patch.setattr(f"laplacenet.{module}.compute_dtype", lambda device: torch.float16)


def kernel_names() -> set[str]:
    """Of all kernels of the project."""
    files = (Path(__file__).parents[1] / "src").rglob("*kernel*.py")
    sources = [file.read_text(encoding="utf-8") for file in files]
    return {name for source in sources for name in re.findall(r"^def (_\w+_kernel)\(", source, re.MULTILINE)}


def random_maps(n: int, c: int, h: int, w: int, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """Flat for the most part, as pictures are: neighboring values are alike, and a picture's mean is not zero."""
    x = torch.randn(n, c, 1, 1) + 0.3 * torch.randn(n, c, h, w)
    return x.to(dtype).contiguous(memory_format=torch.channels_last)
