"""What a labeling was made from, so that a resumed run can tell whether it is still the same."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laplacenet.data import ImageSet, data_hash
from laplacenet.data.names import in_one_line
from laplacenet.labeling.job import Job
from laplacenet.runtime.decoding import decode

N_SHOWN = 3


@dataclass(frozen=True)
class FileRecord:
    """A picture: its path below the folder, its size in bytes, a checksum of its pixels (or of the vector that a
    pretrained network made of them), and the label given to it."""

    name: str
    size: int
    pixels: str
    label: str | None


@dataclass(frozen=True)
class InputRecord:
    """The inputs of a labeling; `files` is empty for a file of arrays, of which `rows` is the checksum."""

    name: str
    rows: str
    n_rows: int
    class_names: tuple[str, ...]
    files: tuple[FileRecord, ...] = ()

    @classmethod
    def of(cls, job: Job) -> "InputRecord":
        rows = job.collection.rows
        files = file_records(job) if job.collection.root.is_dir() and job.collection.file_names is not None else ()
        return cls(job.settings.name, data_hash(rows), len(rows), job.class_names, tuple(files))


def file_records(job: Job) -> Iterable[FileRecord]:
    collection, rows = job.collection, job.collection.rows
    values = rows.images if isinstance(rows, ImageSet) else rows.vectors
    for name, value, label in zip(collection.names, values, collection.labels.tolist(), strict=True):
        pixels = hashlib.sha256(value.cpu().contiguous().numpy().tobytes()).hexdigest()[:16]
        yield FileRecord(
            name, size_of(collection.root / name), pixels, collection.class_names[label] if label >= 0 else None
        )


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # gone since it was decoded


def input_changes(recorded: Any, job: Job, *, source: str) -> str | None:
    """What differs from the inputs that were recorded, in words; None where nothing does."""
    before, now = decode(InputRecord, recorded, source=source), InputRecord.of(job)
    if before.rows == now.rows and before.class_names == now.class_names and names_of(before) == names_of(now):
        return None
    if not before.files or not now.files:
        return f"{before.n_rows} rows then, {now.n_rows} now, or other values or labels"
    then, there = ({file.name: file for file in record.files} for record in (before, now))
    both = [name for name in then if name in there]
    changes = {
        "removed": [name for name in then if name not in there],
        "added": [name for name in there if name not in then],
        "changed": [name for name in both if then[name].pixels != there[name].pixels],
        "with another label": [name for name in both if then[name].label != there[name].label],
    }
    said = [f"{len(names)} {how}: {listed(names)}" for how, names in changes.items() if names]
    return "; ".join(said) or "classes in another order"


def names_of(record: InputRecord) -> list[str]:
    return [file.name for file in record.files]


def listed(names: list[str]) -> str:
    return ", ".join(map(in_one_line, names[:N_SHOWN])) + (", …" if len(names) > N_SHOWN else "")
