"""Steps that several processes share: they divide the passes through a network; each computes everything else itself.

Every process has the whole batch. Of each pass it computes a part of the rows, batch normalization uses the statistics
of all rows, and then all processes have every output. So whatever a loss does with the outputs (thresholds, tables,
pairs of rows) needs no thought of other processes: it sees what it would see in one. A method that divides its rows
beforehand (`sharing` around its step) has passes of its own rows alone, which are not divided again.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from torch import Tensor
from torch.autograd import Function

from laplacenet.runtime.group import current_group


class Share(NamedTuple):
    """This process's rows of a pass that all processes share, and the rows of all."""

    own: int
    total: int

    def of_all(self, n: int) -> int:
        """Of as many values as `n` here, with so many for each row, the number in all processes."""
        return n * self.total // self.own


_share: Share | None = None
_is_shared = False


def current_share() -> Share | None:
    """While a pass of several processes is computed: whoever averages over its rows has to ask the others."""
    return _share


@contextlib.contextmanager
def sharing(share: Share | None) -> Iterator[None]:
    global _share  # noqa: PLW0603 - a context variable would be unknown to the threads that compute gradients
    before, _share = _share, share
    try:
        yield
    finally:
        _share = before


@contextlib.contextmanager
def shared_step(is_shared: bool) -> Iterator[None]:
    """Inside, the processes of the group divide the passes: all of them have to make the same ones in the same order.

    Gradients: outside of a pass every process computes the same, so each counts a share of 1/size of the loss. The
    gradients of parameters, whether they are used inside of passes or outside, then add up to those of the batch.
    """
    global _is_shared  # noqa: PLW0603 - as above
    before, _is_shared = _is_shared, is_shared
    try:
        yield
    finally:
        _is_shared = before


def shared_pass(compute: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """`compute(x)` for a function of rows; in a shared step each process computes a part of them.

    A pass within a pass is not divided again, nor is one with fewer rows than processes.
    """
    group = current_group()
    if not _is_shared or _share is not None or len(x) < group.size:
        return compute(x)
    own = group.part(len(x))
    with sharing(Share(len(own), len(x))):
        part = compute(OwnRows.apply(x, own))  # type: ignore[no-untyped-call]
    outputs: Tensor = RowsOfAll.apply(part, own, len(x))  # type: ignore[no-untyped-call]
    return outputs


class OwnRows(Function):
    """This process's rows of what all have; all get the gradient of every row."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, own: range) -> Tensor:
        ctx.own, ctx.n = own, len(x)
        return x[own.start : own.stop]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return put_together(gradients[0], ctx.own, ctx.n) / current_group().size, None


class RowsOfAll(Function):
    """The rows of all processes; its gradient undoes that each process counts only its share of the loss."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, own: range, n: int) -> Tensor:
        ctx.own = own
        return put_together(part, own, n)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0][ctx.own.start : ctx.own.stop] * current_group().size, None, None


def put_together(part: Tensor, own: range, n: int) -> Tensor:
    """All n rows, of which these are this process's own; unlike `Group.gather` it asks the host for nothing."""
    rows = part.new_zeros((n, *part.shape[1:]))
    rows[own.start : own.stop] = part
    return current_group().sum_(rows)
