"""Networks of the package timm, with the input size and normalization that each was trained with."""

import hashlib
from pathlib import Path
from typing import Any

import torch
from torch import nn

from laplacenet.models.features.lite_weights import read_tensors
from laplacenet.models.features.network import FeatureNetwork, on_device
from laplacenet.runtime import InputError

TIMM = "timm:"
BYTE = 255.0


def load_timm(name: str, *, weights: Path | None, device: torch.device) -> FeatureNetwork:
    """`weights` is a file of the model's state_dict; without it timm looks in its cache and then on the hub."""
    timm, model_name = import_timm(), name.removeprefix(TIMM)
    if not timm.is_model(model_name):
        raise InputError(f"{name}: timm {timm.__version__} has no such model; `timm.list_models()` names them")
    model = create(timm, name, weights)
    config = timm.data.resolve_model_data_config(model)
    pixels = int(config["input_size"][-1])
    mean, std = (tuple(BYTE * value for value in config[key]) for key in ("mean", "std"))
    module = on_device(model.eval().requires_grad_(False), device)
    network = FeatureNetwork(
        name=name,
        n_features=int(model.num_features),
        pixels=pixels,
        fingerprint=state_hash(model),
        mean=mean,
        std=std,
        trunk=module,
        device=device,
        module=module,
    )
    found = network.embed(torch.zeros(1, 3, pixels, pixels, dtype=torch.uint8))
    if found.shape != (1, network.n_features):
        raise InputError(f"{name}: gives {tuple(found.shape[1:])} numbers for a picture; one vector is needed")
    return network


def import_timm() -> Any:
    try:
        import timm  # noqa: PLC0415 - an extra
        import timm.data  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name == "timm":
            raise InputError("timm:NAME needs the package timm; install it with: pip install timm") from error
        raise InputError(f"timm is installed but cannot be imported ({first_line(error)})") from error
    except Exception as error:  # beside a torch of another build torchvision, which timm imports, raises what it likes
        raise InputError(f"timm is installed but cannot be imported ({first_line(error)})") from error
    return timm


def create(timm: Any, name: str, weights: Path | None) -> Any:
    model_name = name.removeprefix(TIMM)
    try:
        model: nn.Module = timm.create_model(model_name, pretrained=weights is None, num_classes=0)
    except Exception as error:  # the hub's client fails in many ways without a network
        raise InputError(
            f"{name}: its weights are not here and could not be downloaded ({first_line(error)});"
            " give a file of them with --weights FILE"
        ) from error
    if weights is None:
        return model
    tensors = read_tensors(weights)
    try:  # the file may hold the classifier, which is left out
        missing, _ = model.load_state_dict(tensors, strict=False)
    except RuntimeError as error:  # the same names with other shapes
        raise InputError(f"--weights {weights}: weights of another network than {name}") from error
    if missing:
        raise InputError(
            f"--weights {weights}: no weights of {name}; it lacks {missing[0]} and {len(missing) - 1} more"
        )
    return model


def state_hash(model: nn.Module) -> str:
    found = hashlib.sha256()
    for key, tensor in sorted(model.state_dict().items()):
        found.update(key.encode())
        found.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
