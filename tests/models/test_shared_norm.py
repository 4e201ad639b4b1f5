"""Normalization by the statistics of all processes, here of one that holds the whole batch, against torch's own."""

import pytest
import torch
from torch import nn

from laplacenet.models.norm import NormByAll, shared_batch_norm
from laplacenet.runtime.sharing import Share


@pytest.mark.parametrize(("kind", "shape"), [(nn.BatchNorm2d, (6, 3, 4, 4)), (nn.BatchNorm1d, (9, 3))])
def test_the_whole_batch_is_normalized_as_torch_does(kind: type[nn.BatchNorm2d], shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64) * 3 + 5
    ours, theirs = kind(3).double(), kind(3).double()
    nn.init.uniform_(theirs.weight, 0.5, 2)
    ours.load_state_dict(theirs.state_dict())
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    y, expected = shared_batch_norm(ours, a, Share(len(x), len(x))), theirs(b)
    (y.sin().sum() + y.square().mean()).backward()
    (expected.sin().sum() + expected.square().mean()).backward()
    assert torch.allclose(y, expected, atol=1e-12)
    assert torch.allclose(a.grad, b.grad, atol=1e-12)
    for name, value in theirs.state_dict().items():
        assert torch.allclose(ours.state_dict()[name], value, atol=1e-12), name
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad, atol=1e-12)


def test_gradients_are_those_of_the_function() -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    weight, bias = (torch.rand(2, dtype=torch.float64, requires_grad=True) for _ in range(2))
    share = Share(5, 5)
    assert torch.autograd.gradcheck(lambda x, w, b: NormByAll.apply(x, w, b, 1e-5, share)[0], (x, weight, bias))


def test_a_mean_far_from_zero_costs_no_digits() -> None:
    """In fp32 the mean of squares minus the square of the mean would be noise here."""
    torch.manual_seed(0)
    x = torch.randn(64, 3, 8, 8) + 3000
    y = shared_batch_norm(nn.BatchNorm2d(3), x, Share(64, 64))
    assert torch.allclose(y.double(), nn.BatchNorm2d(3).double()(x.double()), atol=2e-3)
