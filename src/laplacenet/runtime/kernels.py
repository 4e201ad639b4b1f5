"""Triton kernels compiled side by side: one after another, those of a first step take a quarter of a minute.

Triton compiles a kernel when it is first launched, each in a few stages that release Python's lock. So a step is first
taken for show: its kernels are compiled in threads and not run, and what they would have written stays as it is.
"""

import contextlib
import importlib.util
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import torch
from torch import Tensor

HAS_TRITON = importlib.util.find_spec("triton") is not None


def is_on_gpu(x: Tensor) -> bool:
    """Tests of kernels that are interpreted answer yes."""
    return x.is_cuda


def fits_kernels(x: Tensor) -> bool:
    """Whether kernels of our own may take the place of torch's operations: they compute in single precision."""
    return is_on_gpu(x) and HAS_TRITON and x.dtype is not torch.float64


def fits_eager_kernels(x: Tensor) -> bool:
    """The same for kernels that torch.compile cannot compile, which gets torch's operations instead."""
    return fits_kernels(x) and not torch.compiler.is_compiling()


class Rehearsal:
    """Steps taken on `stream` for show. Other streams, and so other threads' work, are left alone."""

    def __init__(self, stream: Any, pool: ThreadPoolExecutor) -> None:
        self.stream, self.pool = stream, pool
        self.locks: dict[int, threading.Lock] = {}

    def compile_later(self, kernel: Any, *arguments: Any, **options: Any) -> Future[None]:
        """As the kernel would be compiled for these arguments; again and again costs nothing."""
        lock = self.locks.setdefault(id(kernel), threading.Lock())
        return self.pool.submit(self._compile, lock, kernel, arguments, options)

    def _compile(self, lock: threading.Lock, kernel: Any, arguments: Any, options: Any) -> None:
        # variants of one kernel in turn, for they share its tables; a new thread would look at the first GPU
        with lock, torch.cuda.device(self.stream.device_index):
            compiled = kernel.warmup(*arguments, grid=(1,), **options)
            getattr(compiled, "run", None)  # makes its launcher, with a C compiler, and loads it


_open: list[Rehearsal] = []


def launch(kernel: Any, grid: tuple[int, ...]) -> Callable[..., Any]:
    """`kernel[grid]`, to be called with the kernel's arguments."""
    # a context variable would not do: backward passes run in threads of torch's own, on the stream of the forward pass
    for rehearsal in _open:
        if torch.cuda.current_stream() == rehearsal.stream:
            return partial(rehearsal.compile_later, kernel)
    return kernel[grid]  # type: ignore[no-any-return]


@contextlib.contextmanager
def rehearsing(stream: Any) -> Iterator[None]:
    """What is launched on the stream meanwhile is compiled instead; at the end all of it is.

    What cannot be compiled fails when it is launched in earnest. One core is left alone: cuDNN tries its algorithms
    meanwhile, and keeps what it finds.
    """
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 1)) as pool:
        rehearsal = Rehearsal(stream, pool)
        _open.append(rehearsal)
        try:
            yield
        finally:
            _open.remove(rehearsal)
