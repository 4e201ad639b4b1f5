"""A train set, the test set that belongs to it, what could not be read of them, and a summary in numbers."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from laplacenet.data.images import ChannelStatistics, ImageSet, VectorSet
from laplacenet.data.names import in_one_line, writable
from laplacenet.runtime import InputError
from laplacenet.runtime.csv_files import write_csv

BLOCK = 4096
N_CLASSES_LISTED = 20
N_SKIPPED_LISTED = 5
SKIPPED = "skipped.csv"


@dataclass(frozen=True)
class Skipped:
    """A file that was left out, and why."""

    path: str
    reason: str


@dataclass(frozen=True, eq=False)
class Dataset:
    """Train and test set under one name.

    Both have the same classes and row shape; the test set takes the train set's channel statistics, because a network
    must see test images on the scale that it was trained on.
    """

    train: ImageSet | VectorSet
    test: ImageSet | VectorSet | None
    name: str
    skipped: tuple[Skipped, ...] = ()

    def __post_init__(self) -> None:
        if self.test is None:
            return
        if row_shape(self.train) != row_shape(self.test):
            raise InputError(
                f"{self.name}: train rows have shape {row_shape(self.train)}, test rows {row_shape(self.test)}"
            )
        if self.train.class_names != self.test.class_names:
            raise InputError(f"{self.name}: the train and test sets must name the same classes in the same order")
        if isinstance(self.train, ImageSet) and isinstance(self.test, ImageSet):
            object.__setattr__(self, "test", replace(self.test, statistics=self.train.statistics))


def row_shape(rows: ImageSet | VectorSet) -> tuple[int, ...]:
    """(c, h, w) of an image set, (d,) of a vector set."""
    return tuple((rows.images if isinstance(rows, ImageSet) else rows.vectors).shape[1:])


def require_images(dataset: Dataset) -> tuple[ImageSet, ImageSet | None]:
    """The train and test images, where only images will do."""
    train, test = dataset.train, dataset.test
    if not isinstance(train, ImageSet) or isinstance(test, VectorSet):
        raise InputError(f"{dataset.name} holds vectors; a data set of images is needed here")
    return train, test


def write_skipped(path: Path, skipped: Sequence[Skipped]) -> None:
    """A CSV file with the path of each file and the reason why it was left out."""
    write_csv(path, ("path", "reason"), ((writable(file.path), writable(file.reason)) for file in skipped))


def refuse_skipped(skipped: Sequence[Skipped]) -> None:
    """Where every file must be readable: stop, and name the first that is not and how many there are."""
    if skipped:
        first = f"{in_one_line(skipped[0].path)}: {in_one_line(skipped[0].reason)}"
        raise InputError(f"{len(skipped)} files cannot be read, and every file must be; the first, {first}")


def data_hash(rows: ImageSet | VectorSet) -> str:
    """SHA-256 over the shape and values of the rows and over their labels."""
    values = rows.images if isinstance(rows, ImageSet) else rows.vectors
    digest = hashlib.sha256(f"{values.dtype} {tuple(values.shape)}".encode())
    for start in range(0, len(values), BLOCK):
        digest.update(values[start : start + BLOCK].cpu().contiguous().numpy().data)
    digest.update(rows.labels.cpu().contiguous().numpy().data)
    return digest.hexdigest()


@dataclass(frozen=True)
class PartSummary:
    """One set: how many rows there are, of each class and of none."""

    n: int
    n_unknown: int
    n_per_class: tuple[int, ...]
    hash: str


@dataclass(frozen=True)
class Summary:
    """A data set in numbers; as text, a few lines."""

    name: str
    shape: tuple[int, ...]
    class_names: tuple[str, ...]
    statistics: ChannelStatistics | None
    train: PartSummary
    test: PartSummary | None
    skipped: tuple[Skipped, ...]

    def __str__(self) -> str:
        lines = [f"{self.name}: {self._rows()}, {len(self.class_names)} classes"]
        for part_name, part in (("train", self.train), ("test", self.test)):
            if part is not None:
                lines.append(f"{part_name}: {part.n} ({_share(part)}), sha256 {part.hash[:16]}")
        if self.statistics is not None:
            lines.append(f"channel means {_numbers(self.statistics.mean)}, deviations {_numbers(self.statistics.std)}")
        return "\n".join(lines + self._classes() + self._skipped())

    def _rows(self) -> str:
        if len(self.shape) == 1:
            return f"vectors of {self.shape[0]} numbers"
        channels, height, width = self.shape
        return f"{'grey' if channels == 1 else 'color'} images {width}×{height}"

    def _classes(self) -> list[str]:
        names = [in_one_line(name) for name in self.class_names]
        if len(names) > N_CLASSES_LISTED:
            return [f"classes: {', '.join(names[:N_CLASSES_LISTED])}, …"]
        width = max((len(name) for name in names), default=0)
        parts = [part for part in (self.train, self.test) if part is not None]
        return [
            f"  {name:{width}}" + "".join(f" {part.n_per_class[number]:>7}" for part in parts)
            for number, name in enumerate(names)
        ]

    def _skipped(self) -> list[str]:
        if not self.skipped:
            return []
        listed = [f"  {in_one_line(file.path)}: {file.reason}" for file in self.skipped[:N_SKIPPED_LISTED]]
        more = len(self.skipped) - len(listed)
        return [f"skipped: {len(self.skipped)} files", *listed] + ([f"  and {more} more"] if more else [])


def describe(dataset: Dataset) -> Summary:
    """The data set in numbers; `str` of it is for people."""
    return Summary(
        name=dataset.name,
        shape=row_shape(dataset.train),
        class_names=dataset.train.class_names,
        statistics=dataset.train.statistics if isinstance(dataset.train, ImageSet) else None,
        train=_part(dataset.train),
        test=None if dataset.test is None else _part(dataset.test),
        skipped=dataset.skipped,
    )


def _part(rows: ImageSet | VectorSet) -> PartSummary:
    labels: Tensor = rows.labels
    counts = torch.bincount(labels[labels >= 0], minlength=rows.n_classes).tolist()
    return PartSummary(len(rows), int((labels < 0).sum()), tuple(counts), data_hash(rows))


def _share(part: PartSummary) -> str:
    if part.n_unknown == part.n:
        return "no labels"
    smallest, largest = min(part.n_per_class), max(part.n_per_class)
    per_class = f"{smallest} per class" if smallest == largest else f"{smallest} to {largest} per class"
    return per_class + (f", {part.n_unknown} without label" if part.n_unknown else "")


def _numbers(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:.4f}" for value in values)
