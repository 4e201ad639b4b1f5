"""Compile every kernel for a GPU that is not there: python references_compiled_kernels.py CAPABILITY SHARED_BYTES

Triton is told of a GPU with this compute capability and this much shared memory for a program. It compiles what is
launched, down to machine code, asks whether it fits, and launches nothing. The names of what was compiled are printed.
"""

import sys
from typing import Any

import torch
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

from laplacenet.augment import AugmentConfig, sample_views
from laplacenet.augment.kernel import uint8_views
from laplacenet.augment.shrink_kernel import shrink
from laplacenet.models.average_kernel import unit_average
from laplacenet.models.convolution_kernel import ImageLayer, gather_patches
from laplacenet.models.norm_kernels import NormLeakyReLU, NormLeakyReLUPool
from laplacenet.runtime import stream
from laplacenet.training.averages_kernel import list_chunks, move_chunks
from laplacenet.training.objective_kernels import MixedCrossEntropy, mix_pictures

N = 300
"""Views of a step. Kernels are compiled for the sizes of the 13-CNN on CIFAR; no tensor's values are looked at."""


class AbsentGPU:
    """What Triton asks of a driver: which GPU it is, and to load and launch what was compiled."""

    def __init__(self, capability: int, shared_bytes: int) -> None:
        self.target = GPUTarget("cuda", capability, 32)
        self.shared_bytes = shared_bytes
        self.names: set[str] = set()

    @property
    def utils(self) -> "AbsentGPU":
        return self

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {"max_shared_mem": self.shared_bytes}

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[int, ...]:
        assert len(binary) > 0
        self.names.add(name)
        return 0, 0, 0, 0, 1024  # module, function, registers, spilled ones, and threads that a program may have

    def launcher_cls(self, source: Any, metadata: Any) -> Any:
        return lambda *arguments: None


def maps(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.bfloat16).contiguous(memory_format=torch.channels_last).requires_grad_()


def parameters(C: int) -> list[Tensor]:
    return [torch.ones(C, requires_grad=True) for _ in range(2)] + [torch.ones(C) for _ in range(2)]


def launch_all() -> None:
    rows, weight, box = torch.zeros(100, dtype=torch.int64), torch.tensor(0.5), torch.zeros(4, dtype=torch.int64)
    for size in (32, 24):
        pictures = maps(N, 3, size, size).detach()
        gather_patches(pictures)
        ImageLayer.apply(pictures, maps(128, 3, 3, 3), *parameters(128), 0.1, 1e-5, 0.1).sum().backward()
    shrink(maps(N, 3, 32, 32).detach(), (24, 24))
    for operation in (NormLeakyReLU, NormLeakyReLUPool):
        operation.apply(maps(N, 128, 32, 32), *parameters(128), 0.1, 1e-5, 0.1).sum().backward()
    unit_average(maps(N, 128, 6, 6)).sum().backward()
    views = maps(N, 3, 32, 32).detach().unflatten(0, (3, 100))
    mix_pictures(views, rows, weight, box)
    mix_pictures(views, rows, weight, None)
    MixedCrossEntropy.apply(torch.empty(3, 100, 100, requires_grad=True), rows, rows, weight).backward()
    move_chunks(list_chunks([torch.zeros(5000)], [torch.zeros(5000)]), weight)
    drawn = sample_views(4, n_samples=2, height=32, width=32, config=AugmentConfig(), rng=stream(0, "views"))
    uint8_views(torch.zeros(4, 3, 32, 32, dtype=torch.uint8), rows[:4], drawn)


if __name__ == "__main__":
    gpu = AbsentGPU(int(sys.argv[1]), int(sys.argv[2]))
    driver.set_active(gpu)
    launch_all()
    print(*sorted(gpu.names), sep="\n")
