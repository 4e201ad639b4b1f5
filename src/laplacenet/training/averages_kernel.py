"""A moving average of all tensors of a network as one Triton kernel, which moves half as many bytes as torch does."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from laplacenet.runtime.kernels import launch

CHUNK = 4096  # numbers that a program averages


@triton.jit
def _average_kernel(chunks_ptr, share_ptr, CHUNK: tl.constexpr):
    """mean ← mean + share·(value − mean) for one chunk: the addresses of its means and values, and their number."""
    chunk_ptr = chunks_ptr + 3 * tl.program_id(0)
    mean_ptr = tl.load(chunk_ptr).to(tl.pointer_type(tl.float32))
    value_ptr = tl.load(chunk_ptr + 1).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, CHUNK)
    mask = i < tl.load(chunk_ptr + 2)
    mean = tl.load(mean_ptr + i, mask=mask)
    value = tl.load(value_ptr + i, mask=mask)
    tl.store(mean_ptr + i, mean + tl.load(share_ptr) * (value - mean), mask=mask)


def list_chunks(means: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
    """(n, 3): where each chunk's means and values begin, and how many there are; both lie in the same order."""
    rows = [
        (mean.data_ptr() + 4 * first, value.data_ptr() + 4 * first, min(CHUNK, mean.numel() - first))
        for mean, value in zip(means, values, strict=True)
        for first in range(0, mean.numel(), CHUNK)
    ]
    return torch.tensor(rows, dtype=torch.int64, device=means[0].device)


def move_chunks(chunks: Tensor, share: Tensor) -> None:
    """mean ← mean + share·(value − mean) for all chunks; `share` lies on the device."""
    launch(_average_kernel, (len(chunks),))(chunks, share, CHUNK)
