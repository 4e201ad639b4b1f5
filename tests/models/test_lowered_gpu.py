"""On a GPU: a pass with all weights cast at once has the outputs and gradients of autocast's own, to the bit."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from laplacenet.models import Network
from laplacenet.models.thirteen_cnn import thirteen_cnn
from laplacenet.models.wide_resnet import wide_resnet

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    "make",
    [
        lambda: thirteen_cnn(n_classes=10, in_channels=3),
        lambda: wide_resnet(depth=28, width=2, n_classes=10, in_channels=3),
    ],
)
def test_outputs_and_gradients_are_those_of_autocast(
    make: Callable[[], Network], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    torch.manual_seed(0)
    network = make().cuda().to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    x = torch.randn(32, 3, 32, 32, device="cuda").contiguous(memory_format=torch.channels_last)

    def outcome() -> list[Tensor]:
        network.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = network(x)
        logits.logsumexp(dim=1).sum().backward()
        gradients = [p.grad for p in network.parameters()]
        assert all(grad is not None and grad.dtype == torch.float32 for grad in gradients)
        return [logits.detach(), *(grad.clone() for grad in gradients if grad is not None)]

    lowered = outcome()
    monkeypatch.setattr("laplacenet.models.network.call_lowered", lambda body, x, _: body(x))
    for got, expected in zip(lowered, outcome(), strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=0)
