"""Without a GPU: the kernels of a training step, interpreted, against torch's own operations."""

import pytest
import torch
from references_kernels import interpreted
from torch import Tensor

from laplacenet.training.objective import mix, mixed_cross_entropy

pytestmark = interpreted


@pytest.mark.parametrize("box", [None, [0, 0, 0, 0], [1, 4, 2, 6], [0, 5, 0, 6], [2, 2, 0, 3]])
@pytest.mark.parametrize("weight", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_pictures_are_mixed_as_torch_mixes_them(dtype: torch.dtype, weight: float, box: list[int] | None) -> None:
    from laplacenet.training.objective_kernels import mix_pictures

    views = torch.randn(3 * 7, 3, 5, 6).to(dtype).contiguous(memory_format=torch.channels_last).unflatten(0, (3, 7))
    partners = torch.tensor([2, 0, 6, 3, 1])  # the last two are partners only
    given = partners, torch.tensor(weight), None if box is None else torch.tensor(box)
    mixed = mix_pictures(views, *given)
    assert mixed.flatten(0, 1).is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(mixed, mix(views, *given))


@pytest.mark.parametrize("n_classes", [2, 10, 100])
def test_the_mixed_loss_has_the_value_and_gradient_of_torchs(n_classes: int) -> None:
    from laplacenet.training.objective_kernels import MixedCrossEntropy

    def loss_and_gradient(loss: Tensor) -> tuple[Tensor, Tensor]:
        return loss.detach(), torch.autograd.grad(2 * loss, logits)[0]

    targets, partners = torch.randint(n_classes, (9,)), torch.tensor([3, 8, 2, 0, 1, 7])
    logits = (5 * torch.randn(3, 6, n_classes)).requires_grad_()
    given = targets, partners, torch.tensor(0.3)
    expected = loss_and_gradient(mixed_cross_entropy(logits, *given))
    torch.testing.assert_close(loss_and_gradient(MixedCrossEntropy.apply(logits, *given)), expected)


def test_tensors_of_any_size_and_order_are_averaged_in_one_launch() -> None:
    from laplacenet.training.averages_kernel import CHUNK, list_chunks, move_chunks

    last = torch.randn(8, 3, 3, 3).contiguous(memory_format=torch.channels_last)
    means = [torch.randn(2 * CHUNK + 5), torch.randn(()), torch.randn(CHUNK), last]
    values = [torch.randn_like(mean) for mean in means]
    before = [mean.clone() for mean in means]
    chunks = list_chunks(means, values)
    assert len(chunks) == 3 + 1 + 1 + 1
    move_chunks(chunks, torch.tensor(0.3))
    torch.testing.assert_close(means, [torch.lerp(m, v, 0.3) for m, v in zip(before, values, strict=True)])
