"""What a data set holds, for people and for the record."""

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from laplacenet.data.dataset import Dataset, Skipped, row_shape
from laplacenet.data.images import ChannelStatistics, ImageSet
from laplacenet.data.names import in_one_line
from laplacenet.data.vectors import VectorSet

BLOCK = 4096
N_CLASSES_LISTED = 20
N_SKIPPED_LISTED = 5


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
