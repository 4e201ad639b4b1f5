"""On a GPU: MixUp, CutMix and the mixed loss as kernels against torch's own operations."""

import pytest
import torch
from torch import Tensor

from laplacenet.training.objective import mix, mixed_cross_entropy

pytestmark = pytest.mark.gpu

BOXES = [None, [0, 0, 0, 0], [1, 9, 3, 17], [0, 20, 0, 24]]


def random_views(n_views: int, n: int, size: tuple[int, int, int], dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    views = torch.randn(n_views * n, *size, generator=generator).to(dtype)
    return views.contiguous(memory_format=torch.channels_last).unflatten(0, (n_views, n))


@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("weight", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("size", [(3, 20, 24), (1, 28, 28), (3, 32, 32)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_pictures_are_mixed_as_on_a_cpu(
    dtype: torch.dtype, size: tuple[int, int, int], weight: float, box: list[int] | None
) -> None:
    views, partners = random_views(3, 7, size, dtype), torch.tensor([2, 0, 6, 3, 1])  # the last two are partners only
    pasted = None if box is None else torch.tensor(box)
    expected = mix(views, partners, torch.tensor(weight), pasted)
    mixed = mix(views.cuda(), partners.cuda(), torch.tensor(weight).cuda(), None if pasted is None else pasted.cuda())
    assert mixed.flatten(0, 1).is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(mixed.cpu(), expected)


def test_views_that_do_not_lie_one_behind_another_are_mixed_all_the_same() -> None:
    views, partners, weight = random_views(2, 6, (3, 8, 8), torch.float32), torch.tensor([1, 0, 2]), torch.tensor(0.4)
    for some in (views[:, 1:5], views.contiguous(), views[..., 2:]):
        mixed = mix(some.cuda(), partners.cuda(), weight.cuda())
        torch.testing.assert_close(mixed.cpu(), mix(some, partners, weight))


@pytest.mark.parametrize("n_classes", [2, 10, 100, 1000])
def test_the_mixed_loss_and_its_gradient_are_those_of_torch(n_classes: int) -> None:
    generator = torch.Generator().manual_seed(0)
    targets = torch.randint(n_classes, (9,), generator=generator)
    partners, weight = torch.tensor([3, 8, 2, 0, 1, 7]), torch.tensor(0.3)
    logits = 5 * torch.randn(3, 6, n_classes, generator=generator)
    results = []
    for device in ("cpu", "cuda"):
        here = logits.detach().to(device).requires_grad_()  # detached: on a CPU `to` gives the same tensor
        loss = mixed_cross_entropy(here, targets.to(device), partners.to(device), weight.to(device))
        (2 * loss).backward()
        assert here.grad is not None
        results.append((loss.detach().cpu(), here.grad.cpu()))
    (expected, gradient), (got, got_gradient) = results
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(got_gradient, gradient)


def test_a_class_without_probability_costs_nothing_where_it_is_not_the_target() -> None:
    logits = torch.tensor([[[0.0, float("-inf"), 1.0]]], device="cuda")
    targets, partners = torch.tensor([2], device="cuda"), torch.tensor([0], device="cuda")
    loss = mixed_cross_entropy(logits, targets, partners, torch.tensor(1.0, device="cuda"))
    torch.testing.assert_close(loss.cpu(), torch.tensor(1.0).exp().add(1).log() - 1)
