"""Muon against its formula: singular values by a scalar recursion, and steps written out in NumPy."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from laplacenet.models import build_model
from laplacenet.runtime import InputError
from laplacenet.training import TrainConfig
from laplacenet.training.guards import require_trainable
from laplacenet.training.muon import COEFFICIENTS, ITERATIONS, orthogonalize
from laplacenet.training.optimizers import muon, optimizer_tensors, set_learning_rate

TRAIN = TrainConfig(steps=10, lr=0.1, weight_decay=0.01)


def literal_orthogonal(M: np.ndarray) -> np.ndarray:
    """U·p(p(…(S/‖S‖)))·Vᵀ with p(s) = a·s + b·s³ + c·s⁵."""
    a, b, c = COEFFICIENTS
    U, s, Vt = np.linalg.svd(M, full_matrices=False)
    s = s / (np.linalg.norm(s) + 1e-7)
    for _ in range(ITERATIONS):
        s = a * s + b * s**3 + c * s**5
    return (U * s) @ Vt


@pytest.mark.parametrize("shape", [(3, 4, 20), (2, 20, 4), (1, 6, 6)])
def test_singular_values_follow_the_polynomial_and_vectors_stay(shape: tuple[int, int, int]) -> None:
    M = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = orthogonalize(M)
    for one, expected in zip(found, M, strict=True):
        assert np.allclose(one.numpy(), literal_orthogonal(expected.numpy()), atol=1e-10)
        s = torch.linalg.svdvals(one)
        assert 0.6 < float(s.min()) <= float(s.max()) < 1.3


def test_a_gradient_of_zeros_changes_nothing() -> None:
    assert orthogonalize(torch.zeros(1, 3, 5)).abs().max() == 0


def literal_step(weight: np.ndarray, grad: np.ndarray, buffer: np.ndarray, *, is_matrix: bool, lr: float) -> np.ndarray:
    """One update; `buffer` is changed in place."""
    decay, momentum = TRAIN.weight_decay, TRAIN.momentum
    if not is_matrix:
        grad = grad + decay * weight
    buffer[:] = momentum * buffer + grad
    direction = grad + momentum * buffer
    if not is_matrix:
        return weight - lr * direction
    rows = direction.reshape(len(direction), -1)
    update = literal_orthogonal(rows) * max(1, rows.shape[0] / rows.shape[1]) ** 0.5
    return weight * (1 - lr * decay) - 0.2 * lr * update.reshape(weight.shape)


def test_convolutions_take_orthogonal_steps_and_everything_else_those_of_sgd() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Conv2d(4, 9, 1), nn.Conv2d(9, 4, 1), nn.Flatten(), nn.Linear(144, 3)
    ).double()  # wide, tall, and of the same size as another one's transpose
    optimizer = muon(network, TRAIN)
    convolutions = {f"{name}.weight" for name, module in network.named_modules() if isinstance(module, nn.Conv2d)}
    assert convolutions
    weights = {name: parameter.detach().numpy().copy() for name, parameter in network.named_parameters()}
    buffers = {name: np.zeros_like(value) for name, value in weights.items()}
    images, targets = torch.randn(6, 1, 8, 8, dtype=torch.float64), torch.arange(6) % 3
    for lr in (0.1, 0.05, 0.02):
        set_learning_rate(optimizer, torch.tensor(lr))
        optimizer.zero_grad()
        functional.cross_entropy(network(images), targets).backward()
        for name, parameter in network.named_parameters():
            assert parameter.grad is not None
            grad, is_matrix = parameter.grad.numpy().copy(), name in convolutions
            weights[name] = literal_step(weights[name], grad, buffers[name], is_matrix=is_matrix, lr=lr)
        optimizer.step()
    for name, parameter in network.named_parameters():
        assert np.allclose(parameter.detach().numpy(), weights[name], atol=1e-7), name  # rates are in single precision
    assert optimizer_tensors(optimizer, network).keys() == {f"{name}/momentum_buffer" for name in weights}


def test_a_pretrained_body_keeps_its_smaller_rate_and_grouped_convolutions_are_no_matrices() -> None:
    network = build_model("small-cnn", n_classes=3, in_channels=1)
    network.body.append(nn.Conv2d(8, 8, 3, groups=8))
    network.body_lr_scale = 0.5
    optimizer = muon(network, TRAIN)
    set_learning_rate(optimizer, torch.tensor(1.0))
    rates = {id(parameter): float(group["lr"]) for group in optimizer.param_groups for parameter in group["params"]}
    first, grouped = network.body[0], network.body[-1]
    assert rates[id(first.weight)] == pytest.approx(0.1)
    assert rates[id(grouped.weight)] == pytest.approx(0.5)
    assert rates[id(network.head.weight)] == pytest.approx(1.0)


def test_a_network_whose_weights_muon_would_not_train_is_refused() -> None:
    train, x = TrainConfig(optimizer="muon"), torch.randn(2, 3, 16, 16)
    network = build_model("13-cnn", n_classes=3)
    require_trainable(network, x, train, name="13-cnn")
    with_norm = build_model("13-cnn", n_classes=3, weight_norm=True)
    for refused, inputs in ((with_norm, x), (build_model("mlp", n_classes=3, in_channels=3), x[:, :, 0, 0])):
        with pytest.raises(InputError, match=r"muon trains the weights of convolutions, but .*; choose sgd or adamw"):
            require_trainable(refused, inputs, train, name="the network")
        require_trainable(refused, inputs, replace(train, optimizer="sgd"), name="the network")
