"""What Triton's interpreter lacks of a GPU: bf16, and memory that is guarded.

On a GPU a kernel that reads or writes beside its arguments may end the process, and the programs of a launch run in any
order and at once. The interpreter runs them one after the other in the memory of the process, and shows neither.
"""

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

NOBODY, SEVERAL = -1, -2


def end_of(tensor: Tensor) -> int:
    """The address behind the last number."""
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr() + (last + 1) * tensor.element_size() if tensor.numel() else tensor.data_ptr()


class Region:
    """The bytes of an argument, or of several that overlap, and which program wrote and which read each of them."""

    def __init__(self, first: int, end: int) -> None:
        self.first, self.end = first, end
        self.writers = np.full(end - first, NOBODY)
        self.readers = np.full(end - first, NOBODY)
        self.is_unsettled = np.zeros(end - first, dtype=bool)

    def read(self, places: np.ndarray, program: int) -> None:
        writers, readers = self.writers[places], self.readers[places]
        assert np.isin(writers, [NOBODY, program]).all(), "a program reads what another one has written"
        assert not self.is_unsettled[places].any(), "a program reads what it has written, without a barrier between"
        self.readers[places] = np.where(np.isin(readers, [NOBODY, program]), program, SEVERAL)

    def write(self, places: np.ndarray, program: int) -> None:
        assert len(np.unique(places)) == len(places), "a program writes a number twice at once"
        assert np.isin(self.writers[places], [NOBODY, program]).all(), "two programs write the same number"
        assert np.isin(self.readers[places], [NOBODY, program]).all(), "a program writes what another one has read"
        self.writers[places], self.is_unsettled[places] = program, True


def regions_of(tensors: Iterable[Tensor]) -> list[Region]:
    """One for each, and for those that overlap one for all."""
    joined: list[tuple[int, int]] = []
    for first, end in sorted((tensor.data_ptr(), end_of(tensor)) for tensor in tensors):
        if joined and first < joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((first, end))
    return list(itertools.starmap(Region, joined))


class Guard:
    """Looks at every access of the kernels that are interpreted from now on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        from triton.runtime import interpreter

        self.patch = patch
        self.regions: list[Region] = []
        self.behind_tables: list[Tensor] = []
        self.watch_launches(interpreter.GridExecutor)
        builder = interpreter.InterpreterBuilder
        for name, look in (("create_masked_load", self.see_load), ("create_masked_store", self.see_store)):
            self.look_first(builder, name, look)
        self.look_first(builder, "create_barrier", self.see_barrier)
        self.know_tables()

    def look_first(self, owner: Any, name: str, look: Any) -> None:
        usual = getattr(owner, name)

        def looked_at(builder: Any, *given: Any) -> Any:
            look(builder, *given)
            return usual(builder, *given)

        self.patch.setattr(owner, name, looked_at)

    def watch_launches(self, executors: Any) -> None:
        usual = executors.__call__

        def watched(executor: Any, *arguments: Any, **options: Any) -> None:
            tensors = [argument for argument in (*arguments, *options.values()) if isinstance(argument, Tensor)]
            self.regions = regions_of([*tensors, *self.behind_tables])
            usual(executor, *arguments, **options)

        self.patch.setattr(executors, "__call__", watched)

    def know_tables(self) -> None:
        """A table of addresses leads a kernel to tensors that are no arguments."""
        from laplacenet.training import averages_kernel

        usual = averages_kernel.list_chunks

        def noted(means: list[Tensor], values: list[Tensor]) -> Tensor:
            self.behind_tables += [*means, *values]
            return usual(means, values)

        self.patch.setattr(averages_kernel, "list_chunks", noted)

    def see_load(self, builder: Any, pointers: Any, mask: Any, *_: Any) -> None:
        for region, places in self.places(pointers, mask):
            region.read(places, program_of(builder))

    def see_store(self, builder: Any, pointers: Any, _: Any, mask: Any, *__: Any) -> None:
        for region, places in self.places(pointers, mask):
            region.write(places, program_of(builder))

    def see_barrier(self, builder: Any) -> None:
        for region in self.regions:
            region.is_unsettled[:] = False

    def places(self, pointers: Any, mask: Any) -> list[tuple[Region, np.ndarray]]:
        """The places in each region that is accessed."""
        addresses = pointers.data[np.broadcast_to(mask.data, pointers.data.shape)].astype(np.int64)
        size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        found = [
            (region, addresses[(addresses >= region.first) & (addresses + size <= region.end)] - region.first)
            for region in self.regions
        ]
        assert sum(len(places) for _, places in found) == len(addresses), "a kernel leaves its arguments"
        return [(region, places) for region, places in found if len(places)]


def program_of(builder: Any) -> int:
    """The number of the program that runs."""
    (x, y, z), (_, n_y, n_z) = builder.grid_idx, builder.grid_dim
    return int((x * n_y + y) * n_z + z)


@pytest.fixture
def guarded_kernels(monkeypatch: pytest.MonkeyPatch) -> Guard:
    """For tests of interpreted kernels: an access that would be wrong on a GPU is an error."""
    return Guard(monkeypatch)


@pytest.fixture
def right_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    """bf16 as on a GPU: rounded, and multiplied as numbers.

    The interpreter holds such numbers as their 16 bits. It cuts off where a GPU rounds, and multiplies the bits.
    """
    import triton.language as tl
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    cast, dot = InterpreterBuilder.cast_impl, InterpreterBuilder.create_dot

    def rounded(builder: Any, source: Any, kind: Any) -> Any:
        if source.dtype.scalar == tl.float32 and kind.scalar == tl.bfloat16:
            numbers = torch.from_numpy(np.ascontiguousarray(source.data)).bfloat16()
            return TensorHandle(numbers.view(torch.int16).numpy().view(np.uint16), tl.bfloat16)
        return cast(builder, source, kind)

    def product(builder: Any, a: Any, b: Any, *rest: Any) -> Any:
        if a.dtype.scalar == b.dtype.scalar == tl.bfloat16:
            a, b = (cast(builder, factor, tl.float32) for factor in (a, b))
        return dot(builder, a, b, *rest)

    monkeypatch.setattr(InterpreterBuilder, "cast_impl", rounded)
    monkeypatch.setattr(InterpreterBuilder, "create_dot", product)
