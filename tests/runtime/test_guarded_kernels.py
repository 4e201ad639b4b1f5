"""What the interpreter of the tests adds to Triton's: faulty kernels fail, and bf16 is what it is on a GPU."""

from collections.abc import Callable

import pytest
import torch
from references_kernels import interpreted
from torch import Tensor

triton = pytest.importorskip("triton")
tl = triton.language

pytestmark = interpreted


@triton.jit
def _reverse(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """No fault: y is x backward."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + n - 1 - i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def _read_without_mask(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i), mask=i < n)


@triton.jit
def _write_without_mask(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n))


@triton.jit
def _write_in_each_program(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    tl.store(y_ptr, tl.load(x_ptr))


@triton.jit
def _write_at_once(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr + i // 2, tl.load(x_ptr + i))


@triton.jit
def _read_from_another_program(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    tl.store(y_ptr + program, tl.load(x_ptr))
    tl.store(y_ptr + 2 + program, tl.load(y_ptr, mask=program > 0))


@triton.jit
def _overwrite_what_another_program_reads(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    tl.store(x_ptr + program, tl.load(x_ptr + program + 1))


@triton.jit
def _read_back(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    tl.store(y_ptr + first, tl.load(x_ptr + first))
    tl.store(y_ptr + first + 1, tl.load(y_ptr + first))


@triton.jit
def _read_back_behind_a_barrier(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    tl.store(y_ptr + first, tl.load(x_ptr + first))
    tl.debug_barrier()
    tl.store(y_ptr + first + 1, tl.load(y_ptr + first))


def launch(kernel: Callable[..., None]) -> Tensor:
    """Two programs of four numbers each, for seven numbers."""
    x, y = torch.arange(7.0), torch.zeros(7)
    kernel[(2,)](x, y, 7, 4)
    return y


def test_a_kernel_without_a_fault_is_left_alone() -> None:
    assert launch(_reverse).tolist() == [6, 5, 4, 3, 2, 1, 0]
    assert launch(_read_back_behind_a_barrier).tolist() == [0, 0, 0, 0, 4, 4, 0]


@pytest.mark.parametrize(
    ("kernel", "fault"),
    [
        (_read_without_mask, "leaves its arguments"),
        (_write_without_mask, "leaves its arguments"),
        (_write_in_each_program, "two programs write"),
        (_write_at_once, "writes a number twice"),
        (_read_from_another_program, "reads what another one has written"),
        (_overwrite_what_another_program_reads, "writes what another one has read"),
        (_read_back, "without a barrier"),
    ],
)
def test_a_fault_that_the_interpreter_would_not_show_is_an_error(kernel: Callable[..., None], fault: str) -> None:
    with pytest.raises(triton.runtime.interpreter.InterpreterError, match=fault):
        launch(kernel)


@triton.jit
def _square_in_bf16(x_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i[:, None] * BLOCK + i[None, :])
    tl.store(y_ptr + i[:, None] * BLOCK + i[None, :], tl.dot(x, x).to(tl.bfloat16))


def test_products_and_rounding_in_bf16_are_torchs() -> None:
    x, y = torch.randn(16, 16).bfloat16(), torch.empty(16, 16).bfloat16()
    _square_in_bf16[(1,)](x, y, 16)
    expected = (x.double() @ x.double()).bfloat16()
    assert (y != expected).float().mean() < 0.02  # sums in fp32 may fall on the other side of a border
    torch.testing.assert_close(y, expected)
