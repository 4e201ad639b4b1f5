"""On a GPU: convolutions as products against torch's own in float64."""

import pytest
import torch
from torch.nn import functional

from laplacenet.models.convolution import Conv2d

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(("n_in", "n_out", "kernel"), [(3, 128, 3), (3, 16, 3), (1, 32, 3), (512, 256, 1), (16, 32, 1)])
@pytest.mark.parametrize("shape", [(20, 32, 32), (3, 7, 5), (1, 84, 84)])
def test_a_product_is_the_convolution_and_has_its_gradients(
    n_in: int, n_out: int, kernel: int, shape: tuple[int, int, int]
) -> None:
    torch.manual_seed(0)
    n, h, w = shape
    layer = Conv2d(n_in, n_out, kernel, padding=kernel // 2, bias=False).cuda()
    x = torch.randn(n, n_in, h, w, device="cuda").to(torch.bfloat16).contiguous(memory_format=torch.channels_last)
    x.requires_grad_(kernel == 1)  # of a first layer's input no gradient is needed
    with torch.autocast("cuda", torch.bfloat16):
        y = layer(x)
    assert y.is_contiguous(memory_format=torch.channels_last)
    dy = torch.randn_like(y)
    y.backward(dy)
    exact, weight = x.detach().double().requires_grad_(), layer.weight.detach().bfloat16().double().requires_grad_()
    expected = functional.conv2d(exact, weight, padding=kernel // 2)
    expected.backward(dy.double())
    pairs = [(y, expected), (layer.weight.grad, weight.grad)]
    for got, want in pairs if x.grad is None else [*pairs, (x.grad, exact.grad)]:
        assert got is not None
        assert want is not None
        assert (got.double() - want).norm() <= 8e-3 * want.norm()


def test_an_input_that_needs_a_gradient_goes_through_torchs_convolution() -> None:
    layer = Conv2d(3, 8, 3, padding=1, bias=False).cuda()
    x = torch.randn(2, 3, 6, 6, device="cuda", requires_grad=True)
    with torch.autocast("cuda", torch.bfloat16):
        layer(x).sum().backward()
    assert x.grad is not None
