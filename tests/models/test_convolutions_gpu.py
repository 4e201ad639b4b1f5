"""On a GPU: the first convolution, alone and with its normalization, against torch's own operations in float64."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from laplacenet.models.convolution import ImageConv2d, ImageSequential, _fit_together
from laplacenet.models.norm import NormActivation

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


def random_layer(n_in: int, n_out: int) -> ImageSequential:
    """A first layer whose normalization neither begins nor ends at zero and one."""
    layer = ImageSequential(ImageConv2d(n_in, n_out), NormActivation(n_out, slope=0.1)).cuda()
    for tensor in (layer[1].weight, layer[1].bias, layer[1].running_mean, layer[1].running_var):
        torch.nn.init.uniform_(tensor, 0.5, 1.5)
    return layer.to(memory_format=torch.channels_last)


def random_images(n: int, c: int, h: int, w: int) -> Tensor:
    """Flat for the most part, as pictures are: neighboring values are alike, and a picture's mean is not zero."""
    x = torch.randn(n, c, 1, 1, device="cuda") + 0.3 * torch.randn(n, c, h, w, device="cuda")
    return x.to(torch.bfloat16).contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(("n_in", "n_out"), [(3, 128), (3, 16), (2, 32), (1, 256)])
@pytest.mark.parametrize("shape", [(300, 32, 32), (300, 24, 24), (20, 7, 5), (2, 1, 3)])
def test_a_whole_first_layer_has_the_output_gradients_and_statistics_of_its_parts(
    n_in: int, n_out: int, shape: tuple[int, int, int]
) -> None:
    n, h, w = shape
    layer, x = random_layer(n_in, n_out), random_images(n, n_in, h, w)
    mean, var = layer[1].running_mean.double(), layer[1].running_var.double()
    with torch.autocast("cuda", torch.bfloat16):
        assert _fit_together(layer[0], layer[1], x)
        y = layer(x)
    assert y.is_contiguous(memory_format=torch.channels_last)
    dy = torch.randn_like(y)
    y.backward(dy)
    weight = layer[0].weight.detach().bfloat16().double().requires_grad_()
    scale, bias = (p.detach().double().requires_grad_() for p in (layer[1].weight, layer[1].bias))
    z = functional.conv2d(x.double(), weight, padding=1)
    expected = functional.leaky_relu(functional.batch_norm(z, mean, var, scale, bias, training=True), 0.1)
    expected.backward(dy.double())
    for got, want, tolerance in [
        (y, expected, 8e-3),
        (layer[0].weight.grad, weight.grad, 1e-2),
        (layer[1].weight.grad, scale.grad, 1e-2),
        (layer[1].bias.grad, bias.grad, 1e-2),
        (layer[1].running_mean, mean, 1e-5),
        (layer[1].running_var, var, 1e-4),
    ]:
        assert (got.double() - want).norm() <= tolerance * want.norm()


def test_in_use_a_whole_first_layer_has_the_running_statistics() -> None:
    layer, x = random_layer(3, 128).eval(), random_images(50, 3, 32, 32)
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        y = layer(x)
    z = functional.conv2d(x.double(), layer[0].weight.bfloat16().double(), padding=1)
    statistics = (layer[1].running_mean.double(), layer[1].running_var.double())
    z = functional.batch_norm(z, *statistics, layer[1].weight.double(), layer[1].bias.double())
    expected = functional.leaky_relu(z, 0.1)
    assert (y.double() - expected).norm() <= 8e-3 * expected.norm()


def test_a_layer_that_fits_no_kernel_is_its_parts() -> None:
    for n_in, n_out in [(3, 24), (4, 32), (3, 8)]:
        layer, x = random_layer(n_in, n_out), random_images(4, n_in, 8, 8)
        with torch.autocast("cuda", torch.bfloat16):
            assert not _fit_together(layer[0], layer[1], x)
            assert torch.equal(layer(x), layer[1](layer[0](x)))
    layer, x = random_layer(3, 32), random_images(4, 3, 8, 8)
    assert not _fit_together(layer[0], layer[1], x.float())  # no autocast: single precision
