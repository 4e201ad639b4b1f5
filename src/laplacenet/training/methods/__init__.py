"""The methods by name."""

from typing import get_type_hints

from laplacenet.runtime import InputError
from laplacenet.training.methods.base import BaseMethod, MethodConfig, Problem
from laplacenet.training.methods.dag import DAG
from laplacenet.training.methods.dual_student import DualStudent
from laplacenet.training.methods.fast_swa import FastSWA
from laplacenet.training.methods.fixmatch import FixMatch
from laplacenet.training.methods.freematch import FreeMatch
from laplacenet.training.methods.ict import ICT
from laplacenet.training.methods.laplacenet import LabelReport, LaplaceNet, LaplaceNetConfig
from laplacenet.training.methods.lp import LP
from laplacenet.training.methods.mean_teacher import MeanTeacher
from laplacenet.training.methods.mixmatch import MixMatch
from laplacenet.training.methods.mt_lp import MTLP
from laplacenet.training.methods.network_labels import NetworkLabels
from laplacenet.training.methods.pi_model import PiModel
from laplacenet.training.methods.sntg import SNTG
from laplacenet.training.methods.supervised import Supervised
from laplacenet.training.methods.temporal_ensembling import TemporalEnsembling
from laplacenet.training.methods.tssdl import TSSDL
from laplacenet.training.methods.uda import UDA
from laplacenet.training.methods.vat import VAT

METHODS: dict[str, type[BaseMethod]] = {
    "laplacenet": LaplaceNet,
    "supervised": Supervised,
    "network-labels": NetworkLabels,
    "pi-model": PiModel,
    "temporal-ensembling": TemporalEnsembling,
    "mean-teacher": MeanTeacher,
    "vat": VAT,
    "lp": LP,
    "mt-lp": MTLP,
    "sntg": SNTG,
    "fast-swa": FastSWA,
    "ict": ICT,
    "dual-student": DualStudent,
    "tssdl": TSSDL,
    "dag": DAG,
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
