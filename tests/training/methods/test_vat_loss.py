"""VAT: its noise, its direction against finite differences, its loss, and whose batch statistics move."""

import numpy as np
import pytest
import torch
from references_losses import (
    BATCH,
    N_LABELED,
    C,
    assert_same,
    labeled_mean,
    random_batch,
    small_learner,
    small_method,
    soft,
    sum_of,
)
from scipy import stats
from torch import Tensor, nn

from laplacenet.models import build_model
from laplacenet.training.methods.vat import adversarial_direction, unit_length
from laplacenet.training.noise import normal_noise, random_bits

MASK = 2**64 - 1


def splitmix64(seed: int, n: int) -> list[int]:
    """The published generator in Python's integers, as signed numbers."""
    numbers = []
    for _ in range(n):
        seed = (seed + 0x9E3779B97F4A7C15) & MASK
        z = seed
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        z ^= z >> 31
        numbers.append(z - 2**64 if z >= 2**63 else z)
    return numbers


@pytest.mark.parametrize("seed", [0, 1, 12345678901234567, 2**62 - 1])
def test_random_bits_are_those_of_splitmix64(seed: int) -> None:
    assert random_bits(torch.tensor(seed), 50).tolist() == splitmix64(seed, 50)


def test_noise_is_normal_and_independent_between_seeds_and_neighbors() -> None:
    first, second = (normal_noise(torch.tensor(seed), torch.Size([200, 100])) for seed in (3, 4))
    assert first.isfinite().all()
    assert stats.kstest(first.flatten().numpy(), "norm").pvalue > 1e-3
    for one, other in ((first, second), (first[:, 1:], first[:, :-1]), (first[1:], first[:-1])):
        assert abs(float(np.corrcoef(one.flatten(), other.flatten())[0, 1])) < 0.03
    assert torch.equal(first, normal_noise(torch.tensor(3), torch.Size([200, 100])))


def divergence(network: nn.Module, p: Tensor, x: Tensor) -> float:
    with torch.no_grad():
        q = network(x).softmax(dim=1)
        return float((p * (p.log() - q.log())).sum())


@pytest.mark.parametrize("n_power_iterations", [1, 2])
def test_the_direction_is_that_of_a_power_iteration_by_finite_differences(n_power_iterations: int) -> None:
    """In double precision, coordinate by coordinate, with a far smaller probe."""
    network = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 3))  # smooth: a ReLU's kink has no differential
    x, start = torch.randn(4, 5), torch.randn(4, 5)
    method = small_method("vat", probe=0.01, n_power_iterations=n_power_iterations)
    ours = adversarial_direction(network, x, start, config=method.config)
    exact, x, d = network.double(), x.double(), start.double()
    with torch.no_grad():
        p = exact(x).softmax(dim=1)
    for _ in range(n_power_iterations):
        d = d / d.norm(dim=1, keepdim=True)
        gradient = torch.zeros_like(d)
        for i in range(4):
            for k in range(5):
                step = torch.zeros_like(d)
                step[i, k] = 1e-5
                at = x + 1e-3 * d
                gradient[i, k] = (divergence(exact, p, at + step) - divergence(exact, p, at - step)) / 2e-5
        d = gradient
    d = d / d.norm(dim=1, keepdim=True)
    assert float((ours.double() * d).sum(dim=1).min()) > 0.99
    torch.testing.assert_close(ours.norm(dim=1), torch.ones(4))


def test_unit_length_survives_gradients_whose_squares_vanish() -> None:
    d = 1e-30 * torch.randn(3, 2, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(unit_length(d).flatten(1).norm(dim=1), torch.ones(3))
    assert unit_length(torch.zeros(2, 3)).tolist() == [[0, 0, 0]] * 2


@pytest.mark.parametrize("entropy_weight", [0.0, 0.6])
def test_vats_loss_is_its_formula(entropy_weight: float) -> None:
    method = small_method("vat", radius=1.5, adversarial_weight=0.7, entropy_weight=entropy_weight)
    learner, batch = small_learner(method), random_batch(1, direction_seed=99)
    u = batch.views[N_LABELED:]
    d = adversarial_direction(learner, u, normal_noise(torch.tensor(99), u.shape), config=method.config)
    clean, moved = learner(u), learner(u + 1.5 * d)
    total = labeled_mean(learner(batch.views[:N_LABELED]), batch)
    for i in range(BATCH - N_LABELED):
        p, q = soft(clean[i]), soft(moved[i])
        kl = sum_of(p[c].detach() * (p[c].detach().log() - q[c].log()) for c in range(C))
        entropy = -sum_of(p[c] * p[c].log() for c in range(C))
        total = total + (0.7 * kl + entropy_weight * entropy) / (BATCH - N_LABELED)
    assert_same(method, learner, batch, total)


def test_the_direction_changes_outputs_more_than_a_random_one() -> None:
    method = small_method("vat")
    learner = small_learner(method)
    x, start = (torch.randn(64, 5, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    p = learner(x).detach().softmax(dim=1)
    d = adversarial_direction(learner, x, start, config=method.config)
    assert divergence(learner, p, x + d) > 1.5 * divergence(learner, p, x + unit_length(start))


def test_only_the_pass_over_labeled_images_moves_the_batch_statistics() -> None:
    method = small_method("vat")
    network, other = (build_model("small-cnn", n_classes=C, in_channels=1, seed=0).train() for _ in range(2))
    flat = random_batch(1, direction_seed=5)
    images = torch.randn(BATCH, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    batch = type(flat)(images, flat.rows, N_LABELED, flat.tables, flat.draws)
    method.loss(network, batch).backward()
    other(images[:N_LABELED])
    theirs = other.state_dict()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in network.state_dict().items())
