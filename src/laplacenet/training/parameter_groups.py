"""Which parameters an optimizer treats alike: groups in torch's form, with rate and decay of their own."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch import nn

from laplacenet.models import Head, Network

Group = dict[str, Any]


def groups_by_rate(learner: nn.Module) -> list[Group]:
    """What is trained at the full learning rate first, then what is trained at a part of it, such as a pretrained body.

    A learner without such a part has one group.
    """
    slow = {
        parameter: network.body_lr_scale
        for network in learner.modules()
        if isinstance(network, Network) and network.body_lr_scale != 1
        for parameter in network.body.parameters()
    }
    trained = [parameter for parameter in learner.parameters() if parameter.requires_grad]
    by_scale: dict[float, list[nn.Parameter]] = {1.0: []}
    for parameter in trained:
        by_scale.setdefault(slow.get(parameter, 1.0), []).append(parameter)
    groups = [{"params": members, "lr_scale": scale} for scale, members in by_scale.items()]
    return groups if slow else [{"params": trained}]


def heads_of(learner: nn.Module) -> Iterator[nn.Parameter]:
    """The classifiers' weights and offsets."""
    for module in learner.modules():
        if isinstance(module, Head):
            yield from module.parameters()


def set_apart(groups: Iterable[Group], chosen: Iterable[nn.Parameter], own: Callable[[Group], Group]) -> list[Group]:
    """The same groups, but what is chosen from one makes another, with settings of its `own` beside the group's."""
    ids = {id(parameter) for parameter in chosen}
    split = []
    for group in groups:
        apart = [parameter for parameter in group["params"] if id(parameter) in ids]
        rest = [parameter for parameter in group["params"] if id(parameter) not in ids]
        split += [group | {"params": rest}] if rest else []
        split += [group | own(group) | {"params": apart}] if apart else []
    return split
