"""On a GPU: the first convolution as a product against torch's own in float64."""

import pytest
import torch
from torch.nn import functional

from laplacenet.models.convolution import ImageConv2d

pytestmark = [
    pytest.mark.gpu,
    # torch says so where a thread's first work on the device is a product
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
]


@pytest.mark.parametrize(("n_in", "n_out"), [(3, 128), (3, 16), (2, 8), (1, 32)])
@pytest.mark.parametrize("shape", [(20, 32, 32), (3, 7, 5), (1, 84, 84)])
def test_the_product_is_the_convolution_and_has_its_gradient(
    n_in: int, n_out: int, shape: tuple[int, int, int]
) -> None:
    torch.manual_seed(0)
    n, h, w = shape
    layer = ImageConv2d(n_in, n_out).cuda()
    x = torch.randn(n, n_in, h, w, device="cuda").to(torch.bfloat16).contiguous(memory_format=torch.channels_last)
    with torch.autocast("cuda", torch.bfloat16):
        y = layer(x)
    assert y.is_contiguous(memory_format=torch.channels_last)
    dy = torch.randn_like(y)
    y.backward(dy)
    weight = layer.weight.detach().bfloat16().double().requires_grad_()
    expected = functional.conv2d(x.double(), weight, padding=1)
    expected.backward(dy.double())
    for got, want in [(y, expected), (layer.weight.grad, weight.grad)]:
        assert got is not None
        assert want is not None
        assert (got.double() - want).norm() <= 8e-3 * want.norm()


def test_images_that_need_a_gradient_get_it() -> None:
    layer = ImageConv2d(3, 8).cuda()
    x = torch.randn(2, 3, 6, 6, device="cuda", requires_grad=True)
    with torch.autocast("cuda", torch.bfloat16):
        layer(x).sum().backward()
    assert x.grad is not None
