"""A benchmark's record: what was measured, what could not be and why, on what and by which commit."""

import dataclasses
import importlib.metadata
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from laplacenet.experiments.benchmark.graph_scale import with_growth
from laplacenet.experiments.benchmark.rows import SECTIONS, GraphRow, Row
from laplacenet.experiments.benchmark.settings import BenchSettings
from laplacenet.runtime import InputError, provenance, read_json, write_json
from laplacenet.runtime.decoding import decode

FORMAT = 1
COMPARED = ("faiss-cpu", "torchvision", "triton")


@dataclass(frozen=True)
class Missing:
    """Something that could not be measured here."""

    section: str
    name: str
    reason: str


@dataclass(frozen=True)
class BenchRecord:
    """`provenance` and `settings` as JSON holds them; `rows` by section, in the order they were measured."""

    provenance: dict[str, Any]
    settings: dict[str, Any]
    rows: dict[str, tuple[Row, ...]]
    missing: tuple[Missing, ...]
    elapsed_s: float
    is_complete: bool

    @property
    def file_name(self) -> str:
        """Device, hardware and moment, to the second: a record never takes the place of another."""
        hardware = self.provenance["hardware"]
        machine = hardware.get("gpu") or f"{hardware['threads']}-threads"
        moment = self.provenance["date"][:19].replace(":", "")
        return "-".join([hardware["device"], re.sub(r"[^a-z0-9]+", "-", machine.lower()).strip("-"), moment]) + ".json"


@dataclass(frozen=True)
class StoredBenchRecord:
    """A record as its file holds it: which kind of row a section has is known by the section's name."""

    provenance: dict[str, Any]
    settings: dict[str, Any]
    rows: dict[str, list[Any]]
    missing: tuple[Missing, ...]
    elapsed_s: float
    is_complete: bool


def empty_record(settings: BenchSettings, device: torch.device) -> BenchRecord:
    """The beginning of a run; the machine's load is noted, for on a busy one every number is another."""
    origin = provenance(device) | {"load": round(os.getloadavg()[0], 2)}
    origin["libraries"] |= {name: version for name in COMPARED if (version := _version(name))}
    content: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(settings)))
    return BenchRecord(origin, content, rows={}, missing=(), elapsed_s=0.0, is_complete=False)


def with_result(record: BenchRecord, section: str, result: Row | Missing, *, elapsed_s: float) -> BenchRecord:
    """The record and one more result."""
    if isinstance(result, Missing):
        return dataclasses.replace(record, missing=(*record.missing, result), elapsed_s=elapsed_s)
    rows = (*record.rows.get(section, ()), result)
    graph_rows = [row for row in rows if isinstance(row, GraphRow)]
    return dataclasses.replace(
        record, rows=record.rows | {section: with_growth(graph_rows) if graph_rows else rows}, elapsed_s=elapsed_s
    )


def write_bench_record(record: BenchRecord, folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror}); choose another --out") from error
    path = folder / record.file_name
    write_json(path, {"format": FORMAT} | dataclasses.asdict(record))
    return path


def read_bench_record(path: Path) -> BenchRecord:
    content = read_json(path)
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise InputError(f"{path}: not a record of `laplacenet bench`")
    try:
        stored = decode(StoredBenchRecord, content, source="")
        rows: dict[str, tuple[Row, ...]] = {
            name: tuple(decode(SECTIONS[name], row, source=f"{name}[{i}]") for i, row in enumerate(some))
            for name, some in stored.rows.items()
        }
    except KeyError as error:
        raise InputError(f"{path}: not a record of `laplacenet bench` (it has an unknown section {error})") from error
    except InputError as error:
        raise InputError(f"{path}: not a record of `laplacenet bench` ({error})") from error
    values = {field.name: getattr(stored, field.name) for field in dataclasses.fields(stored)}
    return BenchRecord(**(values | {"rows": rows}))


def read_bench_records(folder: Path) -> list[BenchRecord]:
    """All records of a folder, in the order of their names; at least one."""
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise InputError(f"{folder}: no records there; make one with `laplacenet bench --out {folder}`")
    return [read_bench_record(path) for path in paths]


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
