"""The methods by name."""

from typing import get_type_hints

from laplacenet.runtime import InputError
from laplacenet.training.methods.base import BaseMethod, MethodConfig, Problem
from laplacenet.training.methods.fixmatch import FixMatch
from laplacenet.training.methods.freematch import FreeMatch
from laplacenet.training.methods.laplacenet import LabelReport, LaplaceNet, LaplaceNetConfig
from laplacenet.training.methods.mean_teacher import MeanTeacher
from laplacenet.training.methods.mixmatch import MixMatch
from laplacenet.training.methods.network_labels import NetworkLabels
from laplacenet.training.methods.supervised import Supervised
from laplacenet.training.methods.uda import UDA

METHODS: dict[str, type[BaseMethod]] = {
    "laplacenet": LaplaceNet,
    "supervised": Supervised,
    "network-labels": NetworkLabels,
    "mean-teacher": MeanTeacher,
    "mixmatch": MixMatch,
    "uda": UDA,
    "fixmatch": FixMatch,
    "freematch": FreeMatch,
}


def method_class(name: str) -> type[BaseMethod]:
    if name not in METHODS:
        raise InputError(f"unknown method {name!r}; choose one of {', '.join(METHODS)}")
    return METHODS[name]


def config_class(name: str) -> type[MethodConfig]:
    """The settings of the method with this name: the type of its field `config`."""
    kind: type[MethodConfig] = get_type_hints(method_class(name))["config"]
    return kind


__all__ = [
    "METHODS",
    "BaseMethod",
    "LabelReport",
    "LaplaceNet",
    "LaplaceNetConfig",
    "MethodConfig",
    "Problem",
    "config_class",
    "method_class",
]
