"""Without a GPU: the kernels of networks, interpreted, against torch's own operations in float64."""

import pytest
import torch
from references_kernels import interpreted, pretend_to_be_on_a_gpu, random_maps
from torch import Tensor
from torch.nn import functional

from laplacenet.models import build_model
from laplacenet.models.convolution import ImageConv2d, ImageSequential, _fit_together
from laplacenet.models.norm import NormActivation
from laplacenet.runtime import mixed_precision

pytestmark = interpreted

SLOPE, MOMENTUM, EPS = 0.1, 0.1, 1e-5
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}

kinds = pytest.mark.parametrize("dtype", TOLERANCE)


def close(got: Tensor, expected: Tensor, tolerance: float) -> bool:
    return bool((got.double() - expected).norm() <= tolerance * expected.norm())


def norm_parameters(C: int) -> tuple[list[Tensor], list[Tensor]]:
    """Weight and bias, then running mean and variance, none of which is zero or one."""
    weight, bias, mean, var = (torch.empty(C).uniform_(0.5, 1.5) for _ in range(4))
    weight[::3] *= -1  # where it is negative the largest value of four becomes the smallest
    return [weight.requires_grad_(), bias.requires_grad_()], [mean, var]


def exact_copies(tensors: list[Tensor]) -> list[Tensor]:
    return [tensor.detach().double().requires_grad_(tensor.requires_grad) for tensor in tensors]


def assert_equal_layers(y: Tensor, expected: Tensor, inputs: list[Tensor], exact: list[Tensor], tol: float) -> None:
    """Two outputs and their gradients, by inputs that need one, for a random upstream."""
    dy = torch.randn(y.shape).to(y.dtype)
    assert close(y, expected, tol)
    for got, wanted in zip(
        torch.autograd.grad(y, inputs, dy), torch.autograd.grad(expected, exact, dy.double()), strict=True
    ):
        assert close(got, wanted, 2 * tol)


@kinds
@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize("shape", [(3, 16, 6, 4), (2, 128, 2, 2), (5, 8, 8, 10)])
def test_fused_normalization_has_the_output_gradients_and_statistics_of_its_parts(
    shape: tuple[int, int, int, int], pool: bool, dtype: torch.dtype
) -> None:
    from laplacenet.models.norm_kernels import NormLeakyReLU, NormLeakyReLUPool

    x = random_maps(*shape, dtype=dtype).requires_grad_()
    parameters, statistics = norm_parameters(shape[1])
    exact, moved = exact_copies([x, *parameters]), exact_copies(statistics)
    y = (NormLeakyReLUPool if pool else NormLeakyReLU).apply(x, *parameters, *statistics, MOMENTUM, EPS, SLOPE)
    z = functional.batch_norm(exact[0], *moved, *exact[1:], training=True, momentum=MOMENTUM, eps=EPS)
    expected = functional.leaky_relu(z, SLOPE)
    assert_equal_layers(
        y, functional.max_pool2d(expected, 2) if pool else expected, [x, *parameters], exact, TOLERANCE[dtype]
    )
    assert all(map(close, statistics, moved, (1e-5, 1e-5)))


@kinds
@pytest.mark.parametrize("pool", [False, True])
def test_fused_inference_uses_the_statistics_that_are_given(pool: bool, dtype: torch.dtype) -> None:
    from laplacenet.models.norm_kernels import activate, activate_and_pool

    x, ((weight, bias), (mean, var)) = random_maps(3, 16, 4, 6, dtype=dtype), norm_parameters(16)
    statistics = torch.stack([mean, torch.rsqrt(var + EPS)])
    y = (activate_and_pool if pool else activate)(x, statistics, weight, bias, slope=SLOPE)
    z = functional.batch_norm(x.double(), mean.double(), var.double(), weight.double(), bias.double(), eps=EPS)
    expected = functional.leaky_relu(z, SLOPE)
    assert close(y, functional.max_pool2d(expected, 2) if pool else expected, TOLERANCE[dtype])


@kinds
@pytest.mark.parametrize(("n_in", "n_out"), [(3, 16), (2, 32), (1, 64)])
@pytest.mark.parametrize("shape", [(3, 9, 7), (5, 12, 12), (2, 1, 3)])
def test_a_whole_first_layer_has_the_output_gradients_and_statistics_of_its_parts(
    n_in: int, n_out: int, shape: tuple[int, int, int], dtype: torch.dtype
) -> None:
    from laplacenet.models.convolution_kernel import ImageLayer

    n, h, w = shape
    x, (parameters, statistics) = random_maps(n, n_in, h, w, dtype=dtype), norm_parameters(n_out)
    kernel = (0.3 * torch.randn(n_out, n_in, 3, 3)).to(dtype).contiguous(memory_format=torch.channels_last)
    exact, moved = exact_copies([kernel.requires_grad_(), *parameters]), exact_copies(statistics)
    y = ImageLayer.apply(x, kernel, *parameters, *statistics, MOMENTUM, EPS, SLOPE)
    z = functional.conv2d(x.double(), exact[0], padding=1)
    z = functional.batch_norm(z, *moved, *exact[1:], training=True, momentum=MOMENTUM, eps=EPS)
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert_equal_layers(y, functional.leaky_relu(z, SLOPE), [kernel, *parameters], exact, TOLERANCE[dtype])
    assert all(map(close, statistics, moved, (1e-5, 1e-5)))


@pytest.mark.parametrize("n_programs", [1, 3])
def test_a_first_layer_is_the_same_where_each_program_sums_many_tiles(
    n_programs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from laplacenet.models import convolution_kernel

    x, (parameters, statistics) = random_maps(5, 3, 12, 12), norm_parameters(16)
    kernel, dy = torch.randn(16, 3, 3, 3).requires_grad_(), torch.randn(5, 16, 12, 12)

    def layer() -> list[Tensor]:
        moved = [tensor.clone() for tensor in statistics]
        y = convolution_kernel.ImageLayer.apply(x, kernel, *parameters, *moved, MOMENTUM, EPS, SLOPE)
        return [y, *moved, *torch.autograd.grad(y, [kernel, *parameters], dy)]

    expected = layer()
    monkeypatch.setattr(convolution_kernel, "PROGRAMS", n_programs)
    assert all(close(got, wanted.double(), 1e-5) for got, wanted in zip(layer(), expected, strict=True))


def test_a_first_layer_is_its_parts_where_a_hook_waits_for_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = ImageSequential(ImageConv2d(3, 16), NormActivation(16)), random_maps(2, 3, 6, 6)
    pretend_to_be_on_a_gpu(monkeypatch)
    with mixed_precision(x.device):
        whole = layer(x)
        called = []
        hook = layer[0].register_forward_pre_hook(lambda *_: called.append("convolution"))
        parts = layer(x)
        hook.remove()
        layer(x)
    assert called == ["convolution"]
    assert close(whole, parts.double(), 2e-3)


def test_a_first_layer_is_its_parts_for_an_empty_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = ImageSequential(ImageConv2d(3, 16), NormActivation(16)), random_maps(2, 3, 6, 6)
    pretend_to_be_on_a_gpu(monkeypatch)
    with mixed_precision(x.device):
        assert _fit_together(*layer, x)
        assert not _fit_together(*layer, x[:0])


def test_a_slice_of_a_network_that_begins_behind_its_first_layer_is_a_sequence() -> None:
    network, x = build_model("13-cnn", n_classes=3).eval(), torch.randn(2, 3, 12, 12)
    z = network.body[2:](network.body[:2](x))
    assert network.body[2:].first_layer is None
    assert torch.equal(z, network.embed(x))


@kinds
def test_in_use_a_whole_first_layer_has_the_statistics_that_are_given(dtype: torch.dtype) -> None:
    from laplacenet.models.convolution_kernel import activate_convolution, gather_patches

    x, ((weight, bias), (mean, var)) = random_maps(3, 3, 5, 8, dtype=dtype), norm_parameters(16)
    kernel, statistics = torch.randn(16, 3, 3, 3).to(dtype), torch.stack([mean, torch.rsqrt(var + EPS)])
    y = activate_convolution(gather_patches(x), kernel, statistics, weight, bias, shape=x.shape, slope=SLOPE)
    z = functional.conv2d(x.double(), kernel.double(), padding=1)
    z = functional.batch_norm(z, mean.double(), var.double(), weight.double(), bias.double(), eps=EPS)
    assert close(y, functional.leaky_relu(z, SLOPE), TOLERANCE[dtype])


@kinds
@pytest.mark.parametrize("shape", [(4, 64, 5, 9), (2, 128, 1, 1), (3, 1, 4, 4)])
def test_averages_of_length_one_have_the_gradients_of_their_parts(
    shape: tuple[int, int, int, int], dtype: torch.dtype
) -> None:
    from laplacenet.models.average_kernel import unit_average

    x = random_maps(*shape, dtype=dtype)
    x[0] = 0  # its average has no direction
    x, (exact,) = x.requires_grad_(), exact_copies([x])
    z, expected = unit_average(x), functional.normalize(exact.mean(dim=(2, 3)), dim=1)
    dz = torch.randn_like(z)
    assert z.dtype == torch.float32
    torch.testing.assert_close(z.double(), expected, rtol=1e-5, atol=1e-6)
    (dx,), (wanted,) = torch.autograd.grad(z, x, dz), torch.autograd.grad(expected, exact, dz.double())
    for got, want in zip(dx[1:], wanted[1:], strict=True):
        assert (got.double() - want).norm() <= TOLERANCE[dtype] * want.norm() + 1e-6
    # 1e12 times dz, which fp16 cannot hold
    assert dx[0].isinf().all() if dtype == torch.float16 else close(dx[0], wanted[0], TOLERANCE[dtype])
