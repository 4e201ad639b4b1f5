"""Which weights decay, and how fast."""

import pytest
import torch
from torch import nn

from laplacenet.models import build_model
from laplacenet.runtime import InputError
from laplacenet.training import Problem, TrainConfig, VectorViews, config_class, method_class
from laplacenet.training.config import OPTIMIZERS
from laplacenet.training.optimizers import make_optimizer, set_learning_rate

LR, BODY_DECAY, HEAD_DECAY = 0.5, 0.1, 0.02


def decayed(optimizer: str, *, head_decay: float | None) -> dict[str, float]:
    """By which factor one step without gradients changes each parameter of a network that holds ones."""
    network = build_model("small-cnn", n_classes=3, in_channels=1)
    for parameter in network.parameters():
        nn.init.ones_(parameter)
        parameter.grad = torch.zeros_like(parameter)
    config = TrainConfig(steps=10, optimizer=optimizer, weight_decay=BODY_DECAY, head_decay=head_decay)
    made = make_optimizer(network, config)
    set_learning_rate(made, torch.tensor(LR))
    made.step()
    return {name: float(parameter.detach().mean()) for name, parameter in network.named_parameters()}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("head_decay", [None, HEAD_DECAY, 0.0])
def test_the_classifier_decays_at_its_own_rate(optimizer: str, head_decay: float | None) -> None:
    """Without gradients a weight shrinks by 1 - lr · decay; Nesterov's first step counts the decay 1.9 times."""
    found = decayed(optimizer, head_decay=head_decay)
    assert len(found) > 2
    for name, factor in found.items():
        decay = BODY_DECAY if head_decay is None or not name.startswith("head.") else head_decay
        is_decoupled = optimizer == "adamw" or (optimizer == "muon" and _is_convolution(name))
        times = 1.0 if is_decoupled else 1.9
        assert factor == pytest.approx(1 - LR * decay * times, rel=1e-5), name


def _is_convolution(name: str) -> bool:
    module = build_model("small-cnn", n_classes=3, in_channels=1).get_submodule(name.rpartition(".")[0])
    return isinstance(module, nn.Conv2d)


def test_a_negative_decay_of_the_classifier_is_refused() -> None:
    with pytest.raises(InputError, match=r"train\.head_decay = -1"):
        TrainConfig(head_decay=-1.0)


@pytest.mark.parametrize(("method", "n_heads"), [("mean-teacher", 2), ("dual-student", 4), ("fixmatch", 1)])
def test_second_heads_decay_like_the_first(method: str, n_heads: int) -> None:
    settings = {} if method == "fixmatch" else {"n_heads": 2}
    train = TrainConfig(steps=10, batch_size=24, labeled_batch_size=12, weight_decay=BODY_DECAY, head_decay=HEAD_DECAY)
    problem = Problem(torch.arange(30) % 3, 3, VectorViews())
    made = method_class(method)(problem, train, config_class(method)(**settings))
    learner = made.learner(build_model("mlp", n_classes=3, in_channels=8))
    groups = made.optimizer(learner).param_groups
    decays = [group["weight_decay"] for group in groups for parameter in group["params"] if parameter.shape[0] == 3]
    assert decays == [HEAD_DECAY] * (2 * n_heads)
