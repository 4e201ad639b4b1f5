"""Steps under way on a device are waited for, but not forever; gradients are summed as they lie in memory."""

import pytest
import torch

from laplacenet.runtime import LostProcessError
from laplacenet.training.pending_steps import PendingSteps
from laplacenet.training.step import in_memory_order, without_gaps


class EndsAfter:
    """A step that has ended when it was asked about so many times."""

    def __init__(self, n: float) -> None:
        self.n = n

    def query(self) -> bool:
        self.n -= 1
        return self.n < 0


def test_steps_are_waited_for_until_few_are_under_way() -> None:
    pending = PendingSteps(deadline_s=60.0)
    for n in (3, 0, 2):
        pending.add(EndsAfter(n))
    pending.wait(at_most=1)
    assert len(pending.marks) == 1
    pending.wait()
    assert not pending.marks


def test_a_step_that_never_ends_is_given_up() -> None:
    pending = PendingSteps(deadline_s=0.05)
    pending.add(EndsAfter(0))
    pending.add(EndsAfter(float("inf")))
    with pytest.raises(LostProcessError, match="no step has ended"):
        pending.wait()


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_a_gradient_as_it_lies_in_memory_and_back(memory_format: torch.memory_format) -> None:
    x = torch.arange(120.0).view(2, 3, 4, 5).contiguous(memory_format=memory_format)
    row = in_memory_order(x)
    assert row.data_ptr() == x.data_ptr()
    assert sorted(row.tolist()) == list(range(120))
    beside = torch.cat([torch.zeros(7), row])
    assert torch.equal(torch.split(beside, [7, 120])[1].as_strided(x.shape, x.stride()), x)


def test_a_gradient_with_gaps_is_copied_and_no_other() -> None:
    whole = torch.arange(16.0).view(4, 4)
    assert without_gaps(whole) is whole
    assert in_memory_order(without_gaps(whole[:, :2])).tolist() == [0, 1, 4, 5, 8, 9, 12, 13]
