"""Everything a run needs to go on: weights, momentum, the epoch under way, and of what run they are.

Random streams are functions of the seed and the step, so the step is all of their state. A checkpoint is a folder of
safetensors files (none executes anything when read), each small enough to travel, and a manifest with their checksums.
"""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from laplacenet.models import Network
from laplacenet.runtime import InputError, read_json, write_json, write_whole
from laplacenet.runtime.files import sync_folder
from laplacenet.training.loop import Position
from laplacenet.training.method import EpochPlan

FORMAT = 1
SHARD_BYTES = 15 * 2**20
MANIFEST = "manifest.json"
PLAN_TENSORS = ("targets", "is_candidate", "weights")


def save_checkpoint(folder: Path, network: Network, position: Position, *, identity: dict[str, Any]) -> None:
    """Write `folder` whole: beside the old one first, which goes only when the new one is proven readable."""
    fresh, previous = folder.with_name(folder.name + ".new"), folder.with_name(folder.name + ".old")
    for leftover in (fresh, previous):
        if folder.is_dir() and leftover.is_dir():
            shutil.rmtree(leftover)
    fresh.mkdir(parents=True, exist_ok=True)
    files = {}
    for number, shard in enumerate(_shards(_tensors(network, position))):
        content = save_tensors(shard)
        name = f"state-{number:02d}.safetensors"
        write_whole(fresh / name, content)
        files[name] = hashlib.sha256(content).hexdigest()
    write_json(fresh / MANIFEST, {"format": FORMAT, "identity": identity, **_numbers(position), "files": files})
    _read(fresh)
    if folder.is_dir():
        folder.rename(previous)
    fresh.rename(folder)
    sync_folder(folder.parent)
    shutil.rmtree(previous, ignore_errors=True)


def load_checkpoint(folder: Path, network: Network, *, identity: dict[str, Any]) -> Position:
    """Put the weights into `network` and say where the run stands; another run's checkpoint is refused."""
    manifest, tensors = _last_good(folder)
    _refuse_other(folder, manifest["identity"], identity)
    network.load_state_dict(_part(tensors, "network."), strict=True)
    plan = None
    if manifest["plan"] is not None:
        plan = EpochPlan(
            **manifest["plan"],
            targets=tensors["targets"],
            is_candidate=tensors["is_candidate"],
            weights=tensors.get("weights"),
        )
    momentum = _part(tensors, "momentum.")
    return Position(step=manifest["step"], epoch=manifest["epoch"], plan=plan, momentum=momentum)


def _tensors(network: Network, position: Position) -> dict[str, Tensor]:
    tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
    tensors |= {f"momentum.{name}": tensor for name, tensor in position.momentum.items()}
    for name in PLAN_TENSORS:
        tensor = getattr(position.plan, name, None)
        if tensor is not None:
            tensors[name] = tensor
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _numbers(position: Position) -> dict[str, Any]:
    plan = position.plan
    fields = ("index", "phase", "first_step", "n_steps")
    return {
        "step": position.step,
        "epoch": position.epoch,
        "plan": None if plan is None else {field: getattr(plan, field) for field in fields},
    }


def _shards(tensors: dict[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """The tensors in files of at most 15 MiB (a larger tensor alone), in their order."""
    shard: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if shard and sum(t.nbytes for t in shard.values()) + tensor.nbytes > SHARD_BYTES:
            yield shard
            shard = {}
        shard[name] = tensor
    yield shard


def _last_good(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The checkpoint, or where a crash fell between its renames, the one before or after it."""
    problems = []
    for candidate in (folder, folder.with_name(folder.name + ".new"), folder.with_name(folder.name + ".old")):
        if candidate.is_dir():
            try:
                return _read(candidate)
            except InputError as error:
                problems.append(str(error))
    raise InputError(problems[0] if problems else f"{folder}: no checkpoint there to resume from")


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    manifest = read_json(folder / MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(f"{folder}: not a checkpoint of format {FORMAT}")
    tensors: dict[str, Tensor] = {}
    for name, checksum in manifest["files"].items():
        try:
            content = (folder / name).read_bytes()
            if hashlib.sha256(content).hexdigest() != checksum:
                raise InputError(f"{folder / name}: damaged (its checksum differs from the manifest's)")
            tensors |= load_tensors(content)
        except (OSError, SafetensorError) as error:
            raise InputError(f"{folder / name}: cannot be read ({error})") from error
    return manifest, tensors


def _refuse_other(folder: Path, found: dict[str, Any], expected: dict[str, Any]) -> None:
    differing = [key for key in expected.keys() | found.keys() if found.get(key) != expected.get(key)]
    if differing:
        key = sorted(differing)[0]
        raise InputError(
            f"{folder}: is of another run: its {key} is {found.get(key)!r}, this run's is {expected.get(key)!r}"
        )


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
