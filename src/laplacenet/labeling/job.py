"""The inputs of a labeling: its settings, the rows with their few labels, and test rows, if any.

The run folder keeps a record of them, so that a resumed run can check that they have not changed.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from laplacenet.data import (
    SKIPPED,
    Collection,
    ImageSet,
    data_hash,
    read_collection,
    read_judges,
    refuse_skipped,
    write_skipped,
)
from laplacenet.data.judges import labels_own_rows
from laplacenet.data.names import in_one_line
from laplacenet.labeling.estimate import accuracy_on
from laplacenet.labeling.result import Estimate
from laplacenet.labeling.settings import LabelingSettings
from laplacenet.runtime import InputError, Monitor, NullMonitor, RunFolder, current_group, provenance
from laplacenet.runtime.decoding import decode
from laplacenet.runtime.group import require_same_in_all
from laplacenet.runtime.run_folder import PROVENANCE
from laplacenet.runtime.settings import to_json
from laplacenet.training import Execution


@dataclass(frozen=True, eq=False)
class Job:
    settings: LabelingSettings
    collection: Collection
    judges: Collection | None
    setting_notes: tuple[str, ...] = ()

    @property
    def given(self) -> Int64[Tensor, " n"]:
        return self.collection.labels

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.collection.class_names

    @property
    def are_pictures(self) -> bool:
        return isinstance(self.collection.rows, ImageSet)

    @property
    def notes(self) -> list[str]:
        return [*self.setting_notes, *self.collection.notes, *(self.judges.notes if self.judges is not None else ())]

    @property
    def are_judges_inside(self) -> bool:
        """Whether the test set is a list of true labels for rows of the collection itself."""
        test = self.settings.collection.test
        return test is not None and not Path(test).is_dir() and labels_own_rows(Path(test))

    def tested(
        self, estimate: Estimate, labels: Int64[Tensor, " n"], predicted: Int64[Tensor, " m"] | None
    ) -> Estimate:
        """The estimate with the accuracy on the test set: of the rows' own labels, or of the model's for other rows."""
        if self.judges is None:
            return estimate
        if self.are_judges_inside:
            row_of = {name: row for row, name in enumerate(self.collection.names)}
            predicted = labels[torch.tensor([row_of[name] for name in self.judges.names])]
        assert predicted is not None, "other rows were put before the model"
        n, accuracy = accuracy_on(predicted, self.judges.labels)
        return replace(estimate, n_test=n, test_accuracy=accuracy)


def read_job(settings: LabelingSettings, monitor: Monitor | None = None) -> Job:
    """Read what the settings name."""
    monitor = monitor or NullMonitor()
    config = settings.collection
    test = None if config.test is None else Path(config.test)
    files = [Path(file) for file in config.labels]
    labels = files if len(files) > 1 else (files[0] if files else None)
    collection = read_collection(
        config.pictures,
        labels=labels,
        size=config.size,
        leave_out=test,
        merge_similar_classes=config.merge_classes,
        monitor=monitor,
    )
    if config.strict:
        refuse_skipped(collection.skipped)
    judges = None if test is None else read_judges(test, collection, monitor=monitor)
    return Job(settings, collection, judges)


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
    """How the inputs differ from the recorded ones, in words; None if they do not."""
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
    said = [f"{len(names)} {how}: {some_of(names)}" for how, names in changes.items() if names]
    return "; ".join(said) or "classes in another order"


def names_of(record: InputRecord) -> list[str]:
    return [file.name for file in record.files]


def some_of(names: list[str]) -> str:
    return ", ".join(map(in_one_line, names[:N_SHOWN])) + (", …" if len(names) > N_SHOWN else "")


def begin(job: Job, folder: RunFolder, execution: Execution) -> None:
    """Write settings and provenance; `experiment.json` last, since it marks the folder as a run."""
    if job.collection.skipped:
        write_skipped(folder.path / SKIPPED, job.collection.skipped)
    record_inputs(job, folder, execution)
    folder.write_experiment(to_json(job.settings))


def record_inputs(job: Job, folder: RunFolder, execution: Execution) -> None:
    """Where the labels come from: the pictures and given labels, each by its checksum."""
    origin = {"seed": job.settings.seed, "data": to_json(InputRecord.of(job))}
    folder.write_sealed(PROVENANCE, provenance(execution.device) | origin)


def require_same_inputs(job: Job, folder: RunFolder) -> None:
    """Refuse to resume with other pictures or labels than the run began with."""
    if changes := input_changes_of(job, folder):
        raise InputError(
            f"{folder.path}: not the inputs that this run began with ({changes});"
            " restore them, or label them as they are now into another --out"
        )


def require_same_inputs_in_all(job: Job) -> None:
    """Refuse processes on several machines that have read other pictures or labels."""
    if current_group().reduces:
        rows, classes = job.collection.rows, list(job.class_names)
        require_same_in_all(
            {"number of rows": len(rows), "classes": classes, "hash of rows and labels": data_hash(rows)}
        )


def input_changes_of(job: Job, folder: RunFolder) -> str | None:
    """How the inputs differ from those that the run began with, in words."""
    return input_changes(folder.read_sealed(PROVENANCE).get("data"), job, source=str(folder.path / PROVENANCE))
