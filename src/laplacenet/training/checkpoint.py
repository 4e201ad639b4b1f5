"""Everything a run needs to go on: the learner, the optimizer, the epoch under way, its records, and whose they are.

Random streams are functions of the seed and the step, so the step is all of their state. A checkpoint is a folder of
safetensors files (none executes anything when read), each small enough to travel, and a manifest with their checksums
and its own. The one before it stays beside it, for the day on which a file of the newest is damaged.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

import laplacenet
from laplacenet.runtime import InputError, read_json, read_sealed, read_whole, write_sealed, write_whole
from laplacenet.runtime.errors import differences, first_line
from laplacenet.runtime.files import sync
from laplacenet.runtime.run_folder import clear_checkpoint
from laplacenet.training.guards import require_finite_weights
from laplacenet.training.loop import Position
from laplacenet.training.method import EpochPlan
from laplacenet.training.step import Sums

FORMAT = 3
SHARD_BYTES = 15 * 2**20
MANIFEST, RECORDS = "manifest.json", "epochs.jsonl"
FILE_NAME = re.compile(r"state-\d+\.safetensors|epochs\.jsonl")
PLAN_NUMBERS = {"index": int, "phase": str, "first_step": int, "n_steps": int}
SUMS_NUMBERS = {"n_steps": int, "loss": float, "used_guesses": float}
Upgrade = Callable[[dict[str, Any]], dict[str, Any]]
"""From the identity in a checkpoint to the one that this version would write for the same run."""
LEARNER, OPTIMIZER, TABLE, ORDER = "learner.", "optimizer.", "table.", "order"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Snapshot:
    """A run's state at one moment, copied to the host: steps that follow do not change it."""

    position: Position
    tensors: dict[str, Tensor]

    @classmethod
    def of(cls, learner: nn.Module, position: Position) -> "Snapshot":
        return cls(position, _host_copies(_tensors(learner, position)))


def save_checkpoint(
    folder: Path, learner: nn.Module, position: Position, *, identity: dict[str, Any], records: bytes = b""
) -> None:
    """Write `folder` whole from a run as it stands."""
    write_checkpoint(folder, Snapshot.of(learner, position), identity=identity, records=records)


def write_checkpoint(folder: Path, snapshot: Snapshot, *, identity: dict[str, Any], records: bytes = b"") -> None:
    """Write `folder` whole: beside the old one first, which gives way only when the new one is proven readable.

    `records` are the run's lines so far, to be put back when it goes on from here. Weights that are not finite are
    refused: what was saved before stays. Nothing here needs the device, so it can run in a thread beside the steps.
    """
    position, tensors = snapshot.position, snapshot.tensors
    require_finite_weights(tensors, step=position.step)
    fresh, previous = _beside(folder, ".new"), _beside(folder, ".old")
    clear_checkpoint(fresh)
    try:
        fresh.mkdir(parents=True)
        files = {}
        for name, content in _contents(tensors, records):
            write_whole(fresh / name, content)
            files[name] = hashlib.sha256(content).hexdigest()
        about = {"format": FORMAT, "version": laplacenet.__version__, "identity": identity}
        write_sealed(fresh / MANIFEST, {**about, **_numbers(position), "files": files})
        _read(fresh)
    except BaseException:
        clear_checkpoint(fresh)
        raise
    if folder.is_dir():
        clear_checkpoint(previous)
        folder.rename(previous)
    fresh.rename(folder)
    sync(folder.parent)


def as_it_is(identity: dict[str, Any]) -> dict[str, Any]:
    return identity


def load_checkpoint(
    folder: Path, learner: nn.Module, *, identity: dict[str, Any], upgrade: Upgrade = as_it_is
) -> Position:
    """Put the weights into the learner and say where the run stands; another run's checkpoint is refused.

    Where the newest is damaged, a warning says so, and the one before it takes its place.
    """
    found, (manifest, tensors), problems = _last_good(folder)
    if manifest["version"] != laplacenet.__version__:
        raise InputError(
            f"{folder}: was written by version {manifest['version']}, this is {laplacenet.__version__}; "
            "the version that began a run ends it"
        )
    refuse_other(folder, upgrade(manifest["identity"]), identity)
    try:
        learner.load_state_dict(_part(tensors, LEARNER), strict=True)
    except RuntimeError as error:
        raise InputError(f"{folder}: its weights are not this network's ({first_line(error)})") from error
    if problems:
        log.warning("%s; going on from the checkpoint before it, of step %d", problems[0], manifest["step"])
    _put_in_place(found, folder)
    sums = Sums(**manifest.get("sums", {}))  # older checkpoints have none: their means begin anew
    return Position(manifest["step"], manifest["epoch"], _plan(manifest, tensors), _part(tensors, OPTIMIZER), sums)


def checkpoint_records(folder: Path) -> bytes:
    """The run's lines at the checkpoint that `load_checkpoint` found good."""
    return read_whole(folder / RECORDS) if (folder / RECORDS).exists() else b""


def checkpoint_step(folder: Path) -> int:
    """The step at which the run would go on, 0 where nothing is saved; weights are not looked at."""
    for candidate in _candidates(folder):
        try:
            return int(_manifest(candidate)["step"])
        except InputError:
            continue
    return 0


def require_sound(folder: Path) -> None:
    """Refuse a checkpoint whose manifest is damaged, though one before it may be sound; weights are not looked at."""
    for newest in _candidates(folder)[:1]:
        _manifest(newest)


def checkpoint_identity(folder: Path) -> dict[str, Any] | None:
    """Of which run the checkpoint is; None where there is none."""
    identity: dict[str, Any] | None = _manifest(folder)["identity"] if (folder / MANIFEST).exists() else None
    return identity


def refuse_other(folder: Path, found: dict[str, Any], expected: dict[str, Any]) -> None:
    if found != expected:
        said = differences(found, expected, whose="this run")
        raise InputError(f"{folder}: is of another run: {said}; restore what has changed, or start another run")


def _beside(folder: Path, suffix: str) -> Path:
    return folder.with_name(folder.name + suffix)


def _tensors(learner: nn.Module, position: Position) -> dict[str, Tensor]:
    tensors = {LEARNER + name: tensor for name, tensor in learner.state_dict().items()}
    tensors |= {OPTIMIZER + name: tensor for name, tensor in position.optimizer.items()}
    if position.plan is not None:
        tensors |= {TABLE + name: tensor for name, tensor in position.plan.tables.items()}
        tensors[ORDER] = position.plan.order
    return tensors


def _host_copies(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copies, from a GPU through pinned memory: the device is waited for once and not for each of them."""
    copies = {name: tensor.detach().to("cpu", non_blocking=True, copy=True) for name, tensor in tensors.items()}
    for device in {tensor.device for tensor in tensors.values() if tensor.is_cuda}:
        torch.cuda.synchronize(device)
    return copies


def _numbers(position: Position) -> dict[str, Any]:
    plan = position.plan
    return {
        "step": position.step,
        "epoch": position.epoch,
        "plan": None if plan is None else {field: getattr(plan, field) for field in PLAN_NUMBERS},
        "sums": asdict(position.sums),
    }


def _plan(manifest: dict[str, Any], tensors: dict[str, Tensor]) -> EpochPlan | None:
    if manifest["plan"] is None:
        return None
    return EpochPlan(**manifest["plan"], order=tensors[ORDER], tables=_part(tensors, TABLE))


def _contents(tensors: dict[str, Tensor], records: bytes) -> Iterator[tuple[str, bytes]]:
    """The checkpoint's files by name."""
    if records:
        yield RECORDS, records
    for number, shard in enumerate(_shards(tensors)):
        yield f"state-{number:02d}.safetensors", save_tensors({name: t.contiguous() for name, t in shard.items()})


def _shards(tensors: dict[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """The tensors in files of at most 15 MiB (a larger tensor alone), in their order."""
    shard: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if shard and sum(t.nbytes for t in shard.values()) + tensor.nbytes > SHARD_BYTES:
            yield shard
            shard = {}
        shard[name] = tensor
    yield shard


def _candidates(folder: Path) -> list[Path]:
    """The newest first; a crash between two renames leaves the newest under the name of a new one."""
    return [path for path in (folder, _beside(folder, ".new"), _beside(folder, ".old")) if path.is_dir()]


def _last_good(folder: Path) -> tuple[Path, tuple[dict[str, Any], dict[str, Tensor]], list[str]]:
    """The newest checkpoint that can be read: where it lies, what it holds, and what is wrong with newer ones."""
    problems: list[str] = []
    for candidate in _candidates(folder):
        try:
            return candidate, _read(candidate), problems
        except InputError as error:
            problems.append(str(error))
    raise InputError(problems[0] if problems else f"{folder}: no checkpoint there to resume from")


def _put_in_place(found: Path, folder: Path) -> None:
    """Another than the newest takes its place; what was damaged is kept aside."""
    if found == folder:
        return
    if folder.is_dir():
        clear_checkpoint(_beside(folder, ".damaged"))
        folder.rename(_beside(folder, ".damaged"))
    found.rename(folder)


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    manifest = _manifest(folder)
    tensors: dict[str, Tensor] = {}
    for name, checksum in manifest["files"].items():
        content = read_whole(folder / name)
        if hashlib.sha256(content).hexdigest() != checksum:
            raise InputError(f"{folder / name}: damaged (its checksum differs from the manifest's)")
        if name == RECORDS:
            continue
        try:
            tensors |= load_tensors(content)
        except SafetensorError as error:
            raise InputError(f"{folder / name}: cannot be read ({error})") from error
    if manifest["plan"] is not None and (ORDER not in tensors or tensors[ORDER].dtype != torch.int64):
        raise InputError(f"{folder}: it does not say which rows the epoch under way draws")
    return manifest, tensors


def _manifest(folder: Path) -> dict[str, Any]:
    """The manifest with every entry of its kind."""
    path = folder / MANIFEST
    found = read_json(path)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        written = found.get("format") if isinstance(found, dict) else None
        raise InputError(f"{folder}: not a checkpoint of format {FORMAT}, which this version reads, but of {written!r}")
    manifest = read_sealed(path)
    kinds = {"version": str, "identity": dict, "step": int, "epoch": int, "files": dict}
    plan, sums = manifest.get("plan", "missing"), manifest.get("sums", asdict(Sums()))
    is_sound = (
        all(isinstance(manifest.get(key), kind) for key, kind in kinds.items())
        and (plan is None or _has_kinds(plan, PLAN_NUMBERS))
        and _has_kinds(sums, SUMS_NUMBERS)
    )
    if (
        not is_sound
        or min(manifest["step"], manifest["epoch"]) < 0
        or not all(map(FILE_NAME.fullmatch, manifest["files"]))
    ):
        raise InputError(f"{path}: not the manifest of a checkpoint")
    return manifest


def _has_kinds(found: Any, kinds: dict[str, type]) -> bool:
    return isinstance(found, dict) and {key: type(value) for key, value in found.items()} == kinds


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
