"""Test rows for a collection: true labels of its own rows, or other rows of the same shape and classes."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from PIL import Image
from torch import Tensor

from laplacenet.data.arrays import ANY_TEST_KEYS, ARRAY_SUFFIXES
from laplacenet.data.classes import plain_name
from laplacenet.data.collection import Collection, collected_labels, names_of, read_array_collection
from laplacenet.data.dataset import Skipped, row_shape
from laplacenet.data.decoding import fitted
from laplacenet.data.images import UNKNOWN, ImageSet, VectorSet
from laplacenet.data.label_entries import LIST_SUFFIXES
from laplacenet.data.label_files import LabelFiles, label_paths, labels_by_name, numbered_labels, predicted_notes
from laplacenet.data.label_vectors import read_row_labels
from laplacenet.data.names import in_one_line, quoted
from laplacenet.data.npz import read_npy
from laplacenet.data.pictures import NO_MONITOR, decode_all, one_channel
from laplacenet.data.walking import FolderParts, PictureFile, find_pictures, nothing_found, parted
from laplacenet.runtime import InputError, Monitor
from laplacenet.runtime.wording import counted

N_CLASSES_SHOWN = 5


def read_judges(
    test: str | Path, collection: Collection, *, labels: LabelFiles = None, monitor: Monitor = NO_MONITOR
) -> Collection:
    """The rows that `test` gives a label, numbered as the collection's classes are.

    `test` is a folder with class sub-folders (or with the label file `labels`), an `.npz` or `.npy` file with labels in
    it or in `labels`, or, for the collection's own rows, a label file or a `.npy` vector of labels. Rows whose label
    was given to the collection, and rows without a label, are left out. Classes that the collection does not have come
    after its own: no guess can be right there.
    """
    path = Path(test).expanduser()
    label_files = label_paths(labels)
    if path.is_dir():
        return _judging_pictures(path, collection, label_files, monitor=monitor)
    if not label_files and labels_own_rows(path):
        return _judging_rows(path, collection)
    if path.suffix.lower() in ARRAY_SUFFIXES:
        return _judging_arrays(path, collection, label_files)
    what = "not something to test with" if path.exists() else "no such folder or file"
    raise InputError(f"{path}: {what}; give a folder of pictures, an .npz or .npy file, or a label file")


def labels_own_rows(test: Path) -> bool:
    """Whether the file holds labels alone, which can only be those of the collection's own rows."""
    suffix = test.suffix.lower()
    return suffix in LIST_SUFFIXES or (suffix == ".npy" and read_npy(test).ndim == 1)


def _judging_pictures(folder: Path, collection: Collection, label_files: list[Path], *, monitor: Monitor) -> Collection:
    if not isinstance(collection.rows, ImageSet):
        raise InputError(f"{folder}: pictures cannot judge embeddings; give an .npz or .npy file of embeddings")
    found = find_judging_pictures(folder, collection, label_files)
    n_channels, height, width = row_shape(collection.rows)
    images, kept, unreadable = decode_all(found.files, size=(width, height), monitor=monitor)
    skipped = (*found.skipped, *unreadable)
    if not kept:
        raise InputError(nothing_found(folder, skipped))
    names = names_of(found.files, kept)
    rows = ImageSet(
        one_channel(images) if n_channels == 1 else images,
        found.labels[kept],
        found.class_names,
        names,
        collection.rows.statistics,
    )
    return Collection(rows, names, folder, skipped, found.notes)


@dataclass(frozen=True, eq=False)
class JudgingPictures:
    """Pictures to test with, not yet read, and their labels; `notes` say how many others are left out and why."""

    files: list[PictureFile]
    labels: Int64[Tensor, " n"]
    class_names: tuple[str, ...]
    skipped: list[Skipped]
    notes: tuple[str, ...]


def find_judging_pictures(folder: Path, collection: Collection, label_files: Sequence[Path] = ()) -> JudgingPictures:
    """The folder's pictures that have a label, without those whose label was given to the collection."""
    files, skipped = find_pictures(folder)
    if not files:
        raise InputError(nothing_found(folder, skipped))
    parts = FolderParts(tuple(files), (), 0, 0) if label_files else parted(folder, files)
    labels, class_names, warnings = collected_labels(parts, folder, label_files, skipped=skipped)
    truth = Truth.of(labels, class_names, collection, where=label_files[0] if label_files else folder)
    judges, notes = _fair(truth, _is_given(parts.train, collection), noun="picture", where=folder)
    files = [parts.train[row] for row in judges]
    return JudgingPictures(files, truth.labels[judges], truth.class_names, skipped, (*warnings, *notes))


def _judging_arrays(path: Path, collection: Collection, label_files: list[Path]) -> Collection:
    found = read_array_collection(path, label_files, ANY_TEST_KEYS)
    where = label_files[0] if label_files else path
    truth = Truth.of(found.labels, found.class_names, collection, where=where)
    judges, notes = _fair(truth, torch.zeros(len(found), dtype=torch.bool), noun="row", where=path)
    names, labels, classes = tuple(found.names[row] for row in judges), truth.labels[judges], truth.class_names
    shape, wanted = row_shape(found.rows), row_shape(collection.rows)
    if isinstance(found.rows, ImageSet) and isinstance(collection.rows, ImageSet):
        images = _reshaped(found.rows.images[judges], wanted)
        rows = ImageSet(images, labels, classes, None, collection.rows.statistics)
        return Collection(rows, names, path, (), notes)
    if isinstance(found.rows, VectorSet) and shape == wanted:
        return Collection(VectorSet(found.rows.vectors[judges], labels, classes), names, path, (), notes)
    raise InputError(f"{path}: its rows have shape {shape}; those to be judged have {wanted}")


def _judging_rows(path: Path, collection: Collection) -> Collection:
    n, skipped = len(collection), [file.path for file in collection.skipped]
    if collection.root.is_dir() and collection.file_names is not None:
        given = labels_by_name([path], collection.file_names, root=collection.root, skipped=skipped)
    else:
        given = [read_row_labels(path, n, collection.file_names)]
    labels, class_names = numbered_labels(given, n, where=str(path))
    truth = Truth.of(labels, class_names, collection, where=path)
    noun = "picture" if collection.root.is_dir() else "row"
    judges, notes = _fair(truth, collection.labels >= 0, noun=noun, where=path)
    notes = (*predicted_notes(given, count_as="true"), *notes)
    names, labels, rows = tuple(collection.names[row] for row in judges), truth.labels[judges], collection.rows
    if isinstance(rows, ImageSet):
        file_names = None if rows.names is None else names
        judging: ImageSet | VectorSet = ImageSet(
            rows.images[judges], labels, truth.class_names, file_names, rows.statistics
        )
    else:
        judging = VectorSet(rows.vectors[judges], labels, truth.class_names)
    return Collection(judging, names, path, (), notes)


@dataclass(frozen=True, eq=False)
class Truth:
    """True labels as numbers of the classes: the collection's, then, from number `n_labeled` on, those that none of its
    labels names."""

    labels: Int64[Tensor, " n"]
    class_names: tuple[str, ...]
    n_labeled: int

    @classmethod
    def of(
        cls, labels: Int64[Tensor, " n"], class_names: tuple[str, ...], collection: Collection, *, where: Path
    ) -> "Truth":
        """A file of which no class has labels names them in another way, and is refused."""
        used = [class_names[number] for number in torch.unique(labels[labels >= 0]).tolist()]
        number_of = {name: number for number, name in enumerate(collection.class_names)}
        if collection.merges_similar_classes:
            similar = {plain_name(name): number for name, number in number_of.items()}
            number_of |= {name: similar[plain_name(name)] for name in used if plain_name(name) in similar}
        others = [name for name in used if name not in number_of]
        if others and len(others) == len(used):
            known = _listed(collection.class_names)
            raise InputError(
                f"{where}: none of its classes ({_listed(others)}) is among those that have labels ({known})"
            )
        n_labeled = len(collection.class_names)
        number_of |= {name: n_labeled + place for place, name in enumerate(others)}
        numbers = torch.tensor([*(number_of.get(name, UNKNOWN) for name in class_names), UNKNOWN])
        return cls(numbers[labels], (*collection.class_names, *others), n_labeled)

    def notes(self, judges: list[int], *, noun: str) -> list[str]:
        """A line on the rows whose class no label names: the user forgot it, or wrote it in two ways."""
        counts = torch.bincount(self.labels[judges], minlength=len(self.class_names))[self.n_labeled :].tolist()
        found = [(name, n) for name, n in zip(self.class_names[self.n_labeled :], counts, strict=True) if n]
        if not found:
            return []
        n, listed = sum(n for _, n in found), _listed([f"{quoted(name)}: {n}" for name, n in found])
        are, count = ("is", "counts") if n == 1 else ("are", "count")
        return [
            f"{counted(n, noun)} to test with {are} of a class that no label names, and {count} as wrong ({listed})"
        ]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(in_one_line, names[:N_CLASSES_SHOWN])) + (", …" if len(names) > N_CLASSES_SHOWN else "")


def _fair(truth: Truth, is_given: Tensor, *, noun: str, where: Path) -> tuple[list[int], tuple[str, ...]]:
    """The rows to test with, and notes on them and on those that are left out."""
    is_known = truth.labels >= 0
    judges = torch.nonzero(is_known & ~is_given).flatten().tolist()
    if not judges:
        raise InputError(f"{where}: nothing to test with; no {noun} has a label that was not given already")
    notes = []
    if n_without := int((~is_known).sum()):
        are = "has no label and is" if n_without == 1 else "have no label and are"
        notes.append(f"{n_without} of {counted(len(is_known), noun)} to test with {are} left out")
    if n_given := int((is_known & is_given).sum()):
        why = "is left out: its label was" if n_given == 1 else "are left out: their labels were"
        notes.append(f"{counted(n_given, noun)} to test with {why} given")
    return judges, (*notes, *truth.notes(judges, noun=noun))


def _is_given(files: Sequence[PictureFile], collection: Collection) -> Tensor:
    """Which files are pictures whose label the collection was given, under whatever name."""
    given = [name for name, label in zip(collection.names, collection.labels.tolist(), strict=True) if label >= 0]
    known = {os.path.realpath(collection.root / name) for name in given if collection.root.is_dir()}
    return torch.tensor([os.path.realpath(file.path) in known for file in files])


def _reshaped(images: UInt8[Tensor, "n c h w"], shape: tuple[int, ...]) -> UInt8[Tensor, "n c2 h2 w2"]:
    n_channels, height, width = shape
    if tuple(images.shape[2:]) != (height, width):
        scaled = [fitted(Image.fromarray(_last(image)), width, height) for image in images]
        pixels = np.stack([np.array(image).reshape(height, width, -1) for image in scaled])
        images = torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous()
    if images.shape[1] == n_channels:
        return images
    return one_channel(images) if n_channels == 1 else images.expand(-1, 3, -1, -1).contiguous()


def _last(image: UInt8[Tensor, "c h w"]) -> UInt8[np.ndarray, "..."]:
    """As Pillow holds it: channels last, or none."""
    return image[0].numpy() if len(image) == 1 else image.permute(1, 2, 0).contiguous().numpy()
