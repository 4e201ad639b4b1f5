"""Tensors in a file with a checksum of themselves: a bit that changed on the disk is found when they are read."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from laplacenet.runtime import InputError, read_whole, write_whole
from laplacenet.runtime.run_folder import EXPERIMENT, RUN, require_same_run, run_id

CHECKSUM = "checksum"


def write_sealed_tensors(path: Path, tensors: Mapping[str, Tensor], *, run: Path | None = None) -> str:
    """A safetensors file whose metadata holds the checksum, which is returned; `run` is its run folder, if not beside.

    So a file of another run is noticed.
    """
    ours = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    checksum = checksum_of(ours)
    write_whole(path, save_tensors(ours, metadata={CHECKSUM: checksum, RUN: run_id(run or path.parent) or ""}))
    return checksum


def read_sealed_tensors(
    path: Path, names: tuple[str, ...], *, run: Path | None = None
) -> tuple[dict[str, Tensor], str]:
    """The tensors of exactly these names, and their checksum; refused if anything changed since they were written."""
    content = read_whole(path)
    try:
        tensors, about = load_tensors(content), metadata_of(content)
        checksum = about[CHECKSUM]
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: damaged, or not from this version ({error})") from error
    if checksum_of(tensors) != checksum:
        raise InputError(f"{path}: damaged (its checksum differs from its content's)")
    require_same_run(path, about.get(RUN), (run or path.parent) / EXPERIMENT)
    if set(tensors) != set(names):
        raise InputError(f"{path}: holds {', '.join(sorted(tensors))}; expected {', '.join(sorted(names))}")
    return tensors, checksum


def checksum_of(tensors: dict[str, Tensor]) -> str:
    return hashlib.sha256(save_tensors(tensors)).hexdigest()


def metadata_of(content: bytes) -> dict[str, str]:
    """A safetensors file begins with the length of its header, which is JSON."""
    length = int.from_bytes(content[:8], "little")
    found: dict[str, str] = json.loads(content[8 : 8 + length])["__metadata__"]
    return found
