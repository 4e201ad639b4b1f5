"""On a GPU: the fused kernels against torch's own operations in float64."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from laplacenet.models.network import UnitAverage
from laplacenet.models.norm import NormActivation

pytestmark = pytest.mark.gpu


def reference(layer: NormActivation, x: Tensor) -> Tensor:
    y = functional.batch_norm(x, None, None, layer.weight.double(), layer.bias.double(), training=True, eps=layer.eps)
    y = functional.leaky_relu(y, layer.slope)
    return functional.max_pool2d(y, 2) if layer.pool else y


@pytest.mark.parametrize(
    "shape", [(50, 128, 32, 32), (50, 512, 6, 6), (3, 16, 8, 8), (7, 64, 10, 14), (300, 32, 32, 32)]
)
@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fused_normalization_agrees_with_float64(shape: tuple[int, ...], pool: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer = NormActivation(shape[1], slope=0.1, pool=pool).cuda()
    torch.nn.init.normal_(layer.weight)
    torch.nn.init.normal_(layer.bias)
    x = (torch.randn(shape, device="cuda") * 2 + 1).to(dtype=dtype, memory_format=torch.channels_last).requires_grad_()
    exact = x.detach().double().requires_grad_()
    y, expected = layer(x), reference(layer, exact)
    gradient = torch.randn_like(y)
    y.backward(gradient)
    parameters = [layer.weight.grad.clone(), layer.bias.grad.clone()]
    layer.weight.grad = layer.bias.grad = None
    expected.backward(gradient.double())
    tolerance = 1e-5 if dtype == torch.float32 else 8e-3
    for got, want in [
        (y, expected),
        (x.grad, exact.grad),
        *zip(parameters, [layer.weight.grad, layer.bias.grad], strict=True),
    ]:
        assert (got.double() - want).norm() <= tolerance * want.norm()


def test_running_statistics_move_as_torch_moves_them() -> None:
    x = torch.randn(20, 64, 8, 8, device="cuda").contiguous(memory_format=torch.channels_last) * 3 + 2
    ours, torchs = NormActivation(64).cuda(), torch.nn.BatchNorm2d(64).cuda()
    ours(x)
    torchs(x)
    assert torch.allclose(ours.running_mean, torchs.running_mean, atol=1e-5)
    assert torch.allclose(ours.running_var, torchs.running_var, rtol=1e-4)


def test_channels_that_fit_no_kernel_fall_back() -> None:
    layer = NormActivation(12, pool=True).cuda()
    x = torch.randn(4, 12, 7, 7, device="cuda")
    assert torch.allclose(layer(x).double(), reference(layer, x.double()), atol=1e-5)


@pytest.mark.parametrize("shape", [(300, 128, 6, 6), (7, 64, 5, 9), (2, 1024, 1, 1), (3, 2, 4, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_averages_of_length_one_and_their_gradients_agree_with_float64(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    x = (torch.randn(shape, device="cuda") + 0.2).to(dtype=dtype, memory_format=torch.channels_last)
    x[0] = 0  # its average has no direction
    x, exact = x.requires_grad_(), x.detach().double().requires_grad_()
    z, expected = UnitAverage()(x), functional.normalize(exact.mean(dim=(2, 3)), dim=1)
    dz = torch.randn_like(z)
    z.backward(dz)
    expected.backward(dz.double())
    assert z.dtype == torch.float32
    torch.testing.assert_close(z.double(), expected, rtol=1e-5, atol=1e-6)
    rtol = 1e-4 if dtype == torch.float32 else 8e-3
    for got, want in zip(x.grad, exact.grad, strict=True):
        assert (got.double() - want).norm() <= rtol * want.norm() + 1e-6 * abs(dz).max()


def test_an_average_of_channels_that_fit_no_kernel_has_length_one_all_the_same() -> None:
    z = UnitAverage()(torch.randn(5, 12, 3, 3, device="cuda"))
    torch.testing.assert_close(z.norm(dim=1), torch.ones(5, device="cuda"))
