"""Optimizers whose state is tensors that exist from the start, so that a step can be captured, saved and resumed."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import torch
from torch import Tensor, nn

from laplacenet.training.config import TrainConfig
from laplacenet.training.muon import Muon, split_groups
from laplacenet.training.parameter_groups import Group, groups_by_rate, heads_of, set_apart

SGD = TypeVar("SGD", bound=torch.optim.SGD)


def sgd(learner: nn.Module, config: TrainConfig, *, groups: Iterable[Group] | None = None) -> torch.optim.SGD:
    """SGD with Nesterov momentum; the learning rate is a tensor, so that a captured step can be given another.

    Momentum begins as zeros rather than as the first gradient: the first update is the same, and its memory is fixed.
    `groups` are parameter groups in torch's form; `lr_scale` in one multiplies the learning rate.
    """
    return _with_momentum(torch.optim.SGD, learner, config, groups)


def adamw(learner: nn.Module, config: TrainConfig, *, groups: Iterable[Group] | None = None) -> torch.optim.AdamW:
    """Adam with decoupled weight decay and the usual betas, ready to be captured on a GPU."""
    device = next(learner.parameters()).device
    is_gpu = device.type == "cuda"
    optimizer = torch.optim.AdamW(
        _groups(learner, groups, config, device),
        lr=torch.tensor(config.lr, device=device),
        weight_decay=config.weight_decay,
        foreach=False,
        fused=is_gpu,
        capturable=is_gpu,
    )
    for parameter in _parameters(optimizer):
        optimizer.state[parameter] |= {
            "step": torch.zeros((), device=device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
    return optimizer


def muon(learner: nn.Module, config: TrainConfig, *, groups: Iterable[Group] | None = None) -> Muon:
    """Muon for convolutions and SGD with Nesterov momentum for everything else."""
    whole = groups or groups_by_rate(learner)
    split = split_groups(learner, whole, momentum=config.momentum, decay=config.weight_decay)
    return _with_momentum(Muon, learner, config, split)


def _with_momentum(kind: type[SGD], learner: nn.Module, config: TrainConfig, groups: Iterable[Group] | None) -> SGD:
    device = next(learner.parameters()).device
    optimizer = kind(
        _groups(learner, groups, config, device),
        lr=torch.tensor(config.lr, device=device),
        momentum=config.momentum,
        nesterov=config.momentum > 0,
        weight_decay=config.weight_decay,
        fused=device.type == "cuda",
    )
    for parameter in _parameters(optimizer):
        optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer


def make_optimizer(learner: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """The one that `train.optimizer` names."""
    make: Callable[..., torch.optim.Optimizer] = {"sgd": sgd, "adamw": adamw, "muon": muon}[config.optimizer]
    return make(learner, config)


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: Tensor) -> None:
    """Into the tensors that the optimizer holds: nothing here waits for the device."""
    for group in optimizer.param_groups:
        group["lr"].copy_(lr * group["lr_scale"] if "lr_scale" in group else lr)


def optimizer_tensors(optimizer: torch.optim.Optimizer, learner: nn.Module) -> dict[str, Tensor]:
    """The optimizer's state by parameter and kind, such as `head.weight/momentum_buffer`."""
    return {
        f"{name}/{kind}": value
        for name, parameter in learner.named_parameters()
        for kind, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def _groups(
    learner: nn.Module, groups: Iterable[Group] | None, config: TrainConfig, device: torch.device
) -> list[Group]:
    """Each group has a learning rate of its own to be filled."""
    split = [*(groups or groups_by_rate(learner))]
    if config.head_decay is not None:
        split = set_apart(split, heads_of(learner), lambda _: {"weight_decay": config.head_decay})
    return [{"lr": torch.tensor(config.lr, device=device), **group} for group in split]


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
