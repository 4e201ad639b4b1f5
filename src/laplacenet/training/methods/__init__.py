"""The methods by name."""

import functools
import importlib
import sys
import traceback
from pathlib import Path
from typing import Any, get_type_hints

from laplacenet.runtime import InputError
from laplacenet.training.methods.adamatch import AdaMatch
from laplacenet.training.methods.base import BaseMethod, MethodConfig, Problem
from laplacenet.training.methods.dag import DAG
from laplacenet.training.methods.dual_student import DualStudent
from laplacenet.training.methods.fast_swa import FastSWA
from laplacenet.training.methods.fixmatch import FixMatch
from laplacenet.training.methods.flexmatch import FlexMatch
from laplacenet.training.methods.freematch import FreeMatch
from laplacenet.training.methods.ict import ICT
from laplacenet.training.methods.laplacenet import LabelReport, LaplaceNet, LaplaceNetConfig
from laplacenet.training.methods.lp import LP
from laplacenet.training.methods.mean_teacher import MeanTeacher
from laplacenet.training.methods.mixmatch import MixMatch
from laplacenet.training.methods.mt_lp import MTLP
from laplacenet.training.methods.network_labels import NetworkLabels
from laplacenet.training.methods.pi_model import PiModel
from laplacenet.training.methods.pl_mixup import PLMixup
from laplacenet.training.methods.simmatch import SimMatch
from laplacenet.training.methods.sntg import SNTG
from laplacenet.training.methods.softmatch import SoftMatch
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
    "pl-mixup": PLMixup,
    "mixmatch": MixMatch,
    "uda": UDA,
    "fixmatch": FixMatch,
    "flexmatch": FlexMatch,
    "freematch": FreeMatch,
    "softmatch": SoftMatch,
    "adamatch": AdaMatch,
    "simmatch": SimMatch,
}


def method_class(name: str) -> type[BaseMethod]:
    """By its name here, or as `package.module:Class` for one that stands elsewhere."""
    if ":" in name:
        return imported_method(name)
    if name not in METHODS:
        raise InputError(f"unknown method {name!r}; choose one of {', '.join(METHODS)}")
    return METHODS[name]


def imported_method(name: str) -> type[BaseMethod]:
    """A class of one's own; its module is looked for where Python finds modules, and in the current folder."""
    module, _, kind = name.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), kind]):
        raise InputError(f"method {name!r}: write it as package.module:Class")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), kind, None)
    except ModuleNotFoundError as error:
        raise InputError(f"method {name!r}: {error}; its file must lie here or be installed") from error
    except SyntaxError as error:
        raise InputError(f"method {name!r}: {error.filename}, line {error.lineno}: {error.msg}") from error
    except Exception as error:  # whatever its own code raises
        at = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {error}"
        raise InputError(f"method {name!r}: {at.filename}, line {at.lineno}: {said}") from error
    finally:
        sys.path.remove(here)
    if not (isinstance(found, type) and issubclass(found, BaseMethod)):
        raise InputError(f"method {name!r}: {module} has no method {kind!r}; it must be a subclass of BaseMethod")
    missing = unwritten(found)
    if missing:
        raise InputError(f"{name} has no {' and no '.join(missing)}; docs/add-a-method.md says what a method must have")
    return found


def unwritten(method: type[BaseMethod]) -> list[str]:
    """What a method must have and this one has not, or under another name; who overrides `draw` needs no views."""
    needed = ["draw_views", "loss"] if method.draw is BaseMethod.draw else ["loss"]
    return [name for name in needed if getattr(method, name) is getattr(BaseMethod, name)]


def config_class(name: str) -> type[MethodConfig]:
    """The settings of the method with this name: the type of its field `config`."""
    method: Any = method_class(name)  # mypy does not see that a class is hashable
    return _config_of(method)


@functools.cache
def _config_of(method: Any) -> type[MethodConfig]:
    name = f"{method.__module__}:{method.__qualname__}"
    try:
        kind = get_type_hints(method)["config"]
    except NameError as error:
        raise InputError(f"{name}: the type of one of its fields is not defined ({error})") from error
    if not (isinstance(kind, type) and issubclass(kind, MethodConfig)):
        raise InputError(f"{name} does not name its settings; write config: and their class, derived from MethodConfig")
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
