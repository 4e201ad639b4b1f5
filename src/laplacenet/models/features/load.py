"""Pretrained networks by name: `lite0`, `lite1`, `lite2`, `timm:NAME` or an ONNX file."""

from pathlib import Path

import torch

from laplacenet.models.features.lite import VARIANTS
from laplacenet.models.features.lite_weights import load_lite
from laplacenet.models.features.network import FeatureNetwork
from laplacenet.models.features.onnx_file import load_onnx
from laplacenet.models.features.timm_model import TIMM, load_timm
from laplacenet.runtime import InputError


def unknown_features(name: str, *others: str) -> InputError:
    """`others` are accepted where this is said, too."""
    accepted = ", ".join([*others, *VARIANTS, f"{TIMM}NAME"])
    return InputError(f"unknown features {name!r}; choose {accepted} or a file that ends in .onnx")


def is_features_name(name: str) -> bool:
    return name in VARIANTS or name.startswith(TIMM) or name.lower().endswith(".onnx")


def located_features(name: str) -> str:
    """The name; of an ONNX file the whole path, for a run folder. A missing one is refused as it was given."""
    if not name.lower().endswith(".onnx"):
        return name
    path = Path(name).expanduser()
    if not path.is_file():
        raise InputError(f"--features {name}: no such file")
    return str(path.resolve())


def load_features(
    name: str, *, weights: Path | None = None, device: torch.device | str | None = None
) -> FeatureNetwork:
    """The network of this name, ready to embed; `weights` names a file to read in place of the network's usual one.

    Raises InputError, in one line, where the name is unknown or its weights or packages are missing.
    """
    place = torch.device("cpu") if device is None else torch.device(device)
    if weights is not None and not weights.is_file():
        raise InputError(f"--weights {weights}: no such file")
    if name in VARIANTS:
        return load_lite(name, weights=weights, device=place)
    if name.startswith(TIMM):
        return load_timm(name, weights=weights, device=place)
    if name.lower().endswith(".onnx"):
        if weights is not None:
            raise InputError(f"--weights {weights}: an ONNX file holds its own weights; leave --weights out")
        return load_onnx(Path(name), device=place)
    raise unknown_features(name)
