"""Predictions of a trained network for new pictures: files, folders and arrays, resized to its input."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import overload

from jaxtyping import Float, UInt8
from torch import Tensor

from laplacenet.augment import normalized
from laplacenet.data import Collection, ImageSet, Skipped, VectorSet
from laplacenet.data.arrays import ARRAY_SUFFIXES
from laplacenet.data.collection import read_array_collection
from laplacenet.data.decoding import SUFFIXES
from laplacenet.data.names import writable
from laplacenet.data.pictures import decode_all, one_channel
from laplacenet.data.walking import PictureFile, find_pictures
from laplacenet.models.inference import Inference
from laplacenet.models.network import Network
from laplacenet.models.saved import ModelDescription
from laplacenet.runtime import InputError, Monitor, NullMonitor

BLOCK = 500  # pictures decoded and judged at once
ROWS_AT_ONCE = 5_000  # of embeddings

Named = tuple[list[str], UInt8[Tensor, "n c h w"]]


@dataclass(frozen=True)
class Prediction:
    """The most likely class, its probability, and the margin over the second."""

    name: str
    label: str
    confidence: float
    margin: float


@dataclass(frozen=True, eq=False)
class Source:
    """The content of one path: picture files, or the rows of an array. `is_named`: the user named this file itself.

    `row_prefix` precedes the numbers of rows that have no other name.
    """

    path: Path
    files: tuple[PictureFile, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    rows: Collection | None = None
    row_prefix: str = ""
    is_named: bool = False

    def __len__(self) -> int:
        return len(self.files) if self.rows is None else len(self.rows)

    @property
    def row_names(self) -> Sequence[str]:
        """What the array file calls its rows, or their numbers."""
        if self.rows is not None and self.rows.file_names is not None:
            return self.rows.file_names
        return RowNames(self.row_prefix, len(self))


def sources_of(paths: Iterable[Path]) -> list[Source]:
    """The contents of these paths, all checked before anything is predicted.

    The pictures of one folder, or the rows of one array, are called what `labels.csv` would call them: `cat/a.jpg`,
    `row 17`. Of several paths each name begins with its own, so that no two are alike.
    """
    found = list(paths)
    return [_source(path, is_only=len(found) == 1) for path in found]


def predictions(
    network: Network, description: ModelDescription, sources: Sequence[Source], *, monitor: Monitor | None = None
) -> Iterator[Prediction | Skipped]:
    """One for each picture, in order; a file in a folder that cannot be read is skipped and named."""
    if len(description.input_shape) != 3 or description.statistics is None:
        raise InputError("this network reads vectors, not pictures")
    inference = Inference(network, partial(normalized, statistics=description.statistics))
    for source in sources:
        for found in _pictures(source, description.input_shape, monitor or NullMonitor()):
            if isinstance(found, Skipped):
                yield found
            else:
                names, images = found
                scores = (inference.logits(images) / description.temperature).softmax(dim=1)
                yield from named_predictions(names, scores, description.class_names)


def vector_predictions(
    judge: Callable[[Float[Tensor, "m d"]], Float[Tensor, "m C"]],
    class_names: Sequence[str],
    sources: Sequence[Source],
    *,
    monitor: Monitor | None = None,
) -> Iterator[Prediction]:
    """One for each row of the array files, in order; `judge` makes probabilities of some rows."""
    for source, rows in [(source, _vectors(source)) for source in sources]:
        names = source.row_names
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = names[start : start + ROWS_AT_ONCE]
            probabilities = judge(rows.vectors[start : start + ROWS_AT_ONCE])
            (monitor or NullMonitor()).advance(len(some))
            yield from named_predictions(some, probabilities, class_names)


def _vectors(source: Source) -> VectorSet:
    rows = None if source.rows is None else source.rows.rows
    if not isinstance(rows, VectorSet):
        raise InputError(f"{source.path}: holds no embeddings; this run labeled some, give .npy or .npz files of more")
    return rows


def named_predictions(
    names: Sequence[str], scores: Float[Tensor, "n C"], class_names: Sequence[str]
) -> Iterator[Prediction]:
    """Probabilities as predictions with names."""
    best, labels = scores.topk(min(2, len(class_names)), dim=1)
    margins = best[:, 0] - best[:, 1] if len(class_names) > 1 else best[:, 0]
    columns = (labels[:, 0].tolist(), best[:, 0].tolist(), margins.tolist())
    for name, label, confidence, margin in zip(names, *columns, strict=True):
        yield Prediction(name, class_names[label], confidence, margin)


class RowNames(Sequence[str]):
    """`row 17` or `file.npz#17`: made when asked for, since there may be millions."""

    def __init__(self, prefix: str, n: int) -> None:
        self._prefix, self._rows = prefix, range(n)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, position: int) -> str: ...
    @overload
    def __getitem__(self, position: slice) -> list[str]: ...
    def __getitem__(self, position: int | slice) -> str | list[str]:
        if isinstance(position, slice):
            return [f"{self._prefix}{row}" for row in self._rows[position]]
        return f"{self._prefix}{self._rows[position]}"


def _source(path: Path, *, is_only: bool) -> Source:
    if not path.exists():
        raise InputError(f"{path}: no such file or folder; give pictures, folders of them, .npy or .npz files")
    if path.is_dir():
        files, skipped = find_pictures(path)
        if not files:
            raise InputError(f"{path}: no pictures; expected {' '.join(SUFFIXES)} files")
        before = "" if is_only else f"{writable(str(path))}/"
        found = tuple(PictureFile(file.path, before + file.name) for file in files)
        return Source(path, found, tuple(replace(file, path=before + file.path) for file in skipped))
    if path.suffix.lower() in ARRAY_SUFFIXES:
        before = "row " if is_only else f"{writable(str(path))}#"
        return Source(path, rows=read_array_collection(path), row_prefix=before)
    return Source(path, (PictureFile(path, writable(str(path))),), is_named=True)


def _pictures(source: Source, shape: tuple[int, ...], monitor: Monitor) -> Iterator[Named | Skipped]:
    """In blocks; a block without a readable picture is left out."""
    if source.rows is not None:
        yield from _array_pictures(source, source.rows, shape, monitor)
        return
    channels, height, width = shape
    yield from source.skipped
    for start in range(0, len(source.files), BLOCK):
        some = source.files[start : start + BLOCK]
        images, kept, unreadable = decode_all(some, size=(width, height), monitor=monitor)
        if unreadable and source.is_named:
            raise InputError(f"{source.path}: not a picture that can be read ({unreadable[0].reason})")
        yield from unreadable
        if kept:
            yield [some[row].name for row in kept], images if channels == 3 else one_channel(images)


def _array_pictures(source: Source, rows: Collection, shape: tuple[int, ...], monitor: Monitor) -> Iterator[Named]:
    if not isinstance(rows.rows, ImageSet):
        raise InputError(f"{source.path}: holds vectors; this network reads pictures")
    images = rows.rows.images
    if tuple(images.shape[1:]) != shape:
        found, wanted = ("×".join(map(str, sides)) for sides in (images.shape[1:], shape))
        raise InputError(f"{source.path}: its images are {found}; this network reads {wanted} (channels×height×width)")
    names = source.row_names
    for start in range(0, len(images), BLOCK):
        some = list(names[start : start + BLOCK])
        monitor.advance(len(some))
        yield some, images[start : start + BLOCK]
