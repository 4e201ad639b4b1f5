"""Weights in lower precision, all at once: numbers, gradients and their layout are those of a cast in each layer."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from laplacenet.models import Network
from laplacenet.models.lowered import Lowered, call_lowered, copy_all
from laplacenet.models.thirteen_cnn import thirteen_cnn
from laplacenet.models.wide_resnet import wide_resnet

WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "as it is": lambda x: x,
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "cut from a larger one": lambda x: torch.cat([x, x], dim=1)[:, : x.shape[1]],
}


@pytest.mark.parametrize("source", WAYS)
@pytest.mark.parametrize("target", ["as it is", "channels last"])
@pytest.mark.parametrize("shape", [(4, 3, 3, 3), (4, 3, 1, 1), (4, 1, 3, 3), (1, 1, 1, 1)])
def test_tensors_are_copied_whatever_their_layout(source: str, target: str, shape: tuple[int, ...]) -> None:
    x = WAYS[source](torch.randn(shape, dtype=torch.float64))
    vector, scalar = torch.randn(5, dtype=torch.float64), torch.randn((), dtype=torch.float64)
    into = [WAYS[target](torch.zeros(shape)), torch.zeros(5), torch.zeros(())]
    copy_all([x, vector, scalar], into=into)
    for copied, original in zip(into, (x, vector, scalar), strict=True):
        torch.testing.assert_close(copied, original.float(), rtol=0, atol=0)


def test_gradients_come_back_in_the_tensors_own_precision_and_layout() -> None:
    a = torch.randn(4, 3, 3, 3, dtype=torch.float64).contiguous(memory_format=torch.channels_last).requires_grad_()
    b, unused = (torch.randn(6, dtype=torch.float64, requires_grad=True) for _ in range(2))
    low_a, low_b, _ = Lowered.apply(torch.float32, a, b, unused)  # type: ignore[no-untyped-call]
    assert low_a.dtype == low_b.dtype == torch.float32
    (low_a.square().sum() + 3 * low_b.sum()).backward()
    assert a.grad is not None
    assert b.grad is not None
    assert unused.grad is not None
    torch.testing.assert_close(a.grad, (2 * a.detach().float()).double(), rtol=0, atol=0)
    assert a.grad.stride() == a.stride()
    assert b.grad.tolist() == [3] * 6
    assert unused.grad.tolist() == [0] * 6


def cast_layer_by_layer(body: nn.Module, x: Tensor) -> Tensor:
    """What autocast does, with float32 in the place of bf16."""

    def cast(layer: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
        assert isinstance(layer, nn.Conv2d)
        return layer._conv_forward(inputs[0], layer.weight.float(), None)

    layers = [layer for layer in body.modules() if isinstance(layer, nn.Conv2d)]
    forwards = [layer.forward for layer in layers]
    try:
        for layer in layers:
            layer.forward = lambda x, layer=layer: cast(layer, (x,))
        return body(x)  # type: ignore[no-any-return]
    finally:
        for layer, forward in zip(layers, forwards, strict=True):
            layer.forward = forward


def network_in_two_precisions(make: Callable[[], Network]) -> Network:
    """Convolutions in float64, as if that were full precision; all other layers in float32."""
    torch.manual_seed(0)
    network = make()
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            layer.double().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network.train()


@pytest.mark.parametrize(
    "make",
    [
        lambda: thirteen_cnn(n_classes=3, in_channels=3),
        lambda: wide_resnet(depth=10, width=1, n_classes=3, in_channels=3),
    ],
)
def test_a_network_computes_the_same_as_with_a_cast_in_each_layer(make: Callable[[], Network]) -> None:
    x = torch.randn(4, 3, 16, 16)
    found = []
    for embed in (lambda body: call_lowered(body, x, torch.float32), lambda body: cast_layer_by_layer(body, x)):
        network = network_in_two_precisions(make)
        z = embed(network.body)
        z.square().sum().backward()
        state = {name: value.clone() for name, value in network.state_dict().items()}
        gradients = {name: p.grad for name, p in network.body.named_parameters()}
        assert all(p.grad is None or p.grad.dtype == p.dtype for p in network.parameters())
        found.append((z.detach(), gradients, state))
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)


def test_a_weight_that_two_layers_share_has_the_gradients_of_both() -> None:
    body = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)).double()
    body[1].weight = body[0].weight
    x = torch.randn(2, 3)
    call_lowered(body, x, torch.float32).sum().backward()
    weight, gradient = body[0].weight.detach().float(), body[0].weight.grad
    upper, lower = weight.clone().requires_grad_(), weight.clone().requires_grad_()
    (x @ lower.T @ upper.T).sum().backward()
    assert upper.grad is not None
    assert lower.grad is not None
    torch.testing.assert_close(gradient, upper.grad.double() + lower.grad.double())


def test_weights_that_are_not_trained_or_have_the_precision_are_left_alone() -> None:
    body = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    x = torch.randn(2, 3)
    assert torch.equal(call_lowered(body, x, torch.float32), body(x))
    body.double().requires_grad_(False)
    with pytest.raises(RuntimeError, match="dtype"):
        call_lowered(body, x, torch.float32)
