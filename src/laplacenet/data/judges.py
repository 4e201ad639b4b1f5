"""Test rows for a collection: true labels of its own rows, or other rows of the same shape and classes."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from laplacenet.data.label_files import LabelFiles, label_paths, labels_by_name, numbered_labels
from laplacenet.data.label_vectors import read_row_labels
from laplacenet.data.names import in_one_line, quoted
from laplacenet.data.npz import read_npy
from laplacenet.data.pictures import NO_MONITOR, decode_all, one_channel
from laplacenet.data.walking import FolderParts, PictureFile, find_pictures, nothing_found, parted
from laplacenet.runtime import InputError, Monitor

N_CLASSES_SHOWN = 5


def read_judges(
    test: str | Path, collection: Collection, *, labels: LabelFiles = None, monitor: Monitor = NO_MONITOR
) -> Collection:
    """The rows that `test` gives a label, numbered as the collection's classes are.

    `test` is a folder with class sub-folders (or with the label file `labels`), an `.npz` or `.npy` file with labels in
    it or in `labels`, or, for the collection's own rows, a label file or a `.npy` vector of labels. Rows whose label
    was given to the collection, and rows without a label, are left out; classes that the collection does not have are
    refused.
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
        collection.class_names,
        names,
        collection.rows.statistics,
    )
    return Collection(rows, names, folder, skipped, found.notes)


@dataclass(frozen=True, eq=False)
class JudgingPictures:
    """Pictures to test with, not yet read, and their labels; `notes` say how many others are left out and why."""

    files: list[PictureFile]
    labels: Int64[Tensor, " n"]
    skipped: list[Skipped]
    notes: tuple[str, ...]


def find_judging_pictures(folder: Path, collection: Collection, label_files: Sequence[Path] = ()) -> JudgingPictures:
    """The folder's pictures that have a label, without those whose label was given to the collection."""
    files, skipped = find_pictures(folder)
    if not files:
        raise InputError(nothing_found(folder, skipped))
    parts = FolderParts(tuple(files), (), 0, 0) if label_files else parted(folder, files)
    labels, class_names = collected_labels(parts, folder, label_files, skipped=skipped)
    labels = renumbered(labels, class_names, collection, where=label_files[0] if label_files else folder)
    judges, notes = _fair(labels, _is_given(parts.train, collection), where=folder)
    return JudgingPictures([parts.train[row] for row in judges], labels[judges], skipped, notes)


def _judging_arrays(path: Path, collection: Collection, label_files: list[Path]) -> Collection:
    found = read_array_collection(path, label_files, ANY_TEST_KEYS)
    labels = renumbered(found.labels, found.class_names, collection, where=label_files[0] if label_files else path)
    judges, notes = _fair(labels, torch.zeros(len(labels), dtype=torch.bool), where=path)
    names, labels = tuple(found.names[row] for row in judges), labels[judges]
    shape, wanted = row_shape(found.rows), row_shape(collection.rows)
    if isinstance(found.rows, ImageSet) and isinstance(collection.rows, ImageSet):
        images = _reshaped(found.rows.images[judges], wanted)
        rows = ImageSet(images, labels, collection.class_names, None, collection.rows.statistics)
        return Collection(rows, names, path, (), notes)
    if isinstance(found.rows, VectorSet) and shape == wanted:
        return Collection(VectorSet(found.rows.vectors[judges], labels, collection.class_names), names, path, (), notes)
    raise InputError(f"{path}: its rows have shape {shape}; those to be judged have {wanted}")


def _judging_rows(path: Path, collection: Collection) -> Collection:
    n, skipped = len(collection), [file.path for file in collection.skipped]
    if collection.root.is_dir() and collection.file_names is not None:
        given = labels_by_name([path], collection.file_names, root=collection.root, skipped=skipped)
    else:
        given = [read_row_labels(path, n, collection.file_names)]
    labels, class_names = numbered_labels(given, n, where=str(path))
    labels = renumbered(labels, class_names, collection, where=path)
    judges, notes = _fair(labels, collection.labels >= 0, where=path)
    names, labels, rows = tuple(collection.names[row] for row in judges), labels[judges], collection.rows
    if isinstance(rows, ImageSet):
        file_names = None if rows.names is None else names
        return Collection(
            replace(rows, images=rows.images[judges], labels=labels, names=file_names), names, path, (), notes
        )
    return Collection(replace(rows, vectors=rows.vectors[judges], labels=labels), names, path, (), notes)


def renumbered(
    labels: Int64[Tensor, " n"], class_names: tuple[str, ...], collection: Collection, *, where: Path
) -> Int64[Tensor, " n"]:
    """The labels as numbers of the collection's classes."""
    number_of = {name: number for number, name in enumerate(collection.class_names)}
    if collection.merges_similar_classes:
        similar = {plain_name(name): number for name, number in number_of.items()}
        number_of |= {name: similar[plain_name(name)] for name in class_names if plain_name(name) in similar}
    for name in class_names:
        if name not in number_of:
            listed = ", ".join(in_one_line(known) for known in collection.class_names[:N_CLASSES_SHOWN])
            more = ", …" if len(collection.class_names) > N_CLASSES_SHOWN else ""
            raise InputError(f"{where}: class {quoted(name)} is not among those that have labels ({listed}{more})")
    return torch.tensor([*(number_of[name] for name in class_names), UNKNOWN])[labels]


def _fair(labels: Int64[Tensor, " n"], is_given: Tensor, *, where: Path) -> tuple[list[int], tuple[str, ...]]:
    """The rows to test with, and how many are left out."""
    is_known = labels >= 0
    judges = torch.nonzero(is_known & ~is_given).flatten().tolist()
    if not judges:
        raise InputError(f"{where}: nothing to test with; no row has a label that was not given already")
    notes = []
    if n_without := int((~is_known).sum()):
        notes.append(f"{n_without} of {len(labels)} rows to test with have no label and are left out")
    if n_given := int((is_known & is_given).sum()):
        notes.append(f"{n_given} rows to test with are left out: their labels were given")
    return judges, tuple(notes)


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
