"""A trained network for use: `model.safetensors` and `model.json`, all that prediction needs; neither executes.

The description holds a checksum of the weights and of itself, so that damage is detected.
"""

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from laplacenet.data import ChannelStatistics
from laplacenet.models.build import ModelConfig, build_network, untrained_network
from laplacenet.models.network import Network
from laplacenet.runtime import InputError, read_json, read_whole, write_whole
from laplacenet.runtime.errors import first_line
from laplacenet.runtime.run_folder import read_run_file, write_run_file

WEIGHTS, DESCRIPTION = "model.safetensors", "model.json"
HASH_OF_WEIGHTS = "hash of " + WEIGHTS
LONGEST_SIDE = 10**6
CHANNELS = (1, 3)
MOST_PIXELS = 4096**2  # of an input
TEMPERATURES = (1e-4, 1e4)  # calibration stays far inside


@dataclass(frozen=True)
class ModelDescription:
    """What is needed besides the weights: architecture, input and classes.

    Its logits are divided by `temperature` before they become probabilities.
    """

    model: ModelConfig
    input_shape: tuple[int, ...]
    class_names: tuple[str, ...]
    statistics: ChannelStatistics | None
    temperature: float = 1.0

    def build(self, *, seed: int = 0) -> Network:
        """A fresh network, with its pretrained weights if it is to have them."""
        return build_network(self.model, n_classes=len(self.class_names), in_channels=self.input_shape[0], seed=seed)

    def build_to_fill(self) -> Network:
        """A network whose weights are about to be replaced: pretrained ones need not be installed."""
        return untrained_network(self.model, n_classes=len(self.class_names), in_channels=self.input_shape[0])


def save_model(folder: Path, network: Network, description: ModelDescription) -> None:
    write_model_files(folder, asdict(description), network.state_dict())


def load_model(folder: Path) -> tuple[Network, ModelDescription]:
    """The network in evaluation mode, on the CPU."""
    found, weights = read_model_files(folder)
    description = read_description(found, source=str(folder / DESCRIPTION))
    network = description.build_to_fill()
    try:
        network.load_state_dict(weights, strict=True)
    except RuntimeError as error:
        raise InputError(
            f"{folder / WEIGHTS}: does not hold the network of {DESCRIPTION} ({first_line(error)})"
        ) from error
    _require_readable(network, description, source=str(folder / DESCRIPTION))
    return network.eval(), description


def write_model_files(folder: Path, description: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """A model's tensors and, with their checksum, its description."""
    content = save_tensors({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    write_whole(folder / WEIGHTS, content)
    write_run_file(folder / DESCRIPTION, {**description, HASH_OF_WEIGHTS: hashlib.sha256(content).hexdigest()})


def read_model_files(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The description and the tensors, which must be those that it was written with."""
    if not (folder / DESCRIPTION).exists():
        raise InputError(f"{folder}: holds no model yet (it has no {DESCRIPTION}); finish the run first, with --resume")
    found, content = read_run_file(folder / DESCRIPTION), read_whole(folder / WEIGHTS)
    if hashlib.sha256(content).hexdigest() != found.get(HASH_OF_WEIGHTS):
        raise InputError(f"{folder / WEIGHTS}: damaged, or of another run than {DESCRIPTION} (its checksum differs)")
    try:
        return found, load_tensors(content)
    except SafetensorError as error:
        raise InputError(f"{folder / WEIGHTS}: cannot be read ({first_line(error)})") from error


def model_kind(folder: Path) -> str | None:
    """The kind of a folder's model if it is not a network; None for a network or if there is no model."""
    path = folder / DESCRIPTION
    found = read_json(path) if path.is_file() else None
    return found.get("kind") if isinstance(found, dict) else None


def _require_readable(network: Network, description: ModelDescription, *, source: str) -> None:
    """Refuse a shape of inputs that the network cannot read; tried without data, which may be large."""
    example = torch.empty((1, *description.input_shape), device="meta")
    try:
        copy.deepcopy(network).to("meta").eval().embed(example)
    except (RuntimeError, ValueError) as error:
        shape = "×".join(map(str, description.input_shape))
        raise InputError(f"{source}: its network {description.model.name} cannot read inputs of {shape}") from error


def read_description(found: Any, *, source: str) -> ModelDescription:
    """From the content of a JSON file."""
    try:
        shape, names, statistics = found["input_shape"], found["class_names"], found["statistics"]
        return ModelDescription(
            model=ModelConfig(**found["model"]),
            input_shape=_shape(shape),
            class_names=_names(names),
            statistics=None if statistics is None else _statistics(statistics, n_channels=shape[0]),
            temperature=usable_temperature(found.get("temperature", 1.0)),
        )
    except (KeyError, TypeError, ValueError, OverflowError, InputError) as error:
        raise InputError(f"{source}: not the description of a model ({first_line(error)})") from error


def _shape(found: Any) -> tuple[int, ...]:
    is_sound = isinstance(found, list) and len(found) in (1, 3)
    if not is_sound or not all(type(side) is int and 1 <= side <= LONGEST_SIDE for side in found):
        raise ValueError(f"invalid input shape {found!r}")
    if len(found) == 3 and (found[0] not in CHANNELS or found[1] * found[2] > MOST_PIXELS):
        raise ValueError(f"invalid input shape {found!r}")
    return tuple(found)


def _names(found: Any) -> tuple[str, ...]:
    if not (isinstance(found, list) and found and all(isinstance(name, str) for name in found)):
        raise ValueError(f"invalid class names {found!r}")
    if len(set(found)) < len(found):
        raise ValueError("two of its classes have the same name")
    return tuple(found)


def _statistics(found: dict[str, Any], *, n_channels: int) -> ChannelStatistics:
    mean, std = ([float(value) for value in found[name]] for name in ("mean", "std"))
    if not len(mean) == len(std) == n_channels:
        raise ValueError("its channel statistics do not fit its channels")
    return ChannelStatistics(mean=tuple(mean), std=tuple(std))


def usable_temperature(found: Any) -> float:
    if not TEMPERATURES[0] <= float(found) <= TEMPERATURES[1]:
        raise ValueError(f"invalid temperature {found!r}")
    return float(found)
