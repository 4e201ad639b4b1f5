"""One's own pictures or embeddings with the few labels that they have: a folder, a folder and a list, or arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, Int64, Shaped
from torch import Tensor

from laplacenet.data.arrays import channels_first, class_names_of
from laplacenet.data.classes import label_notes, numbered
from laplacenet.data.dataset import Skipped
from laplacenet.data.folders import TEST, TRAIN, class_of, names_of, nothing_found
from laplacenet.data.images import ImageSet
from laplacenet.data.label_files import labels_by_name
from laplacenet.data.label_vectors import LABEL_KEYS, named_key, numbered_rows, read_row_labels, vector_labels
from laplacenet.data.npz import open_npz, read_npy
from laplacenet.data.pictures import SILENCE, decode_all, default_size, is_grey, require_size
from laplacenet.data.vectors import VectorSet
from laplacenet.data.walking import PictureFile, find_pictures
from laplacenet.runtime import InputError, Monitor

DATA_KEYS = ("images", "x_train", "embeddings", "features", "vectors", "x", "data")
CLASS_NAMES_KEY = "class_names"
ARRAY_SUFFIXES = (".npz", ".npy")
HELD_OUT = (TEST, "val", "valid", "validation")


@dataclass(frozen=True, eq=False)
class Collection:
    """What is to be labeled, and what is known of it.

    `rows` carry the given labels (−1 = unknown) and the classes; `names` are paths below the folder `root`, or `row 17`
    where `root` is a file of arrays. `skipped` are the files that could not be read, `notes` what should be said.
    """

    rows: ImageSet | VectorSet
    names: tuple[str, ...]
    root: Path
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def labels(self) -> Int64[Tensor, " n"]:
        return self.rows.labels

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.rows.class_names

    def __len__(self) -> int:
        return len(self.rows)


def read_collection(
    pictures: str | Path,
    *,
    labels: str | Path | None = None,
    size: int | None = None,
    leave_out: Path | None = None,
    monitor: Monitor = SILENCE,
) -> Collection:
    """A folder of pictures, or an `.npz` or `.npy` file of images or embeddings, with its labels.

    Without a label file, a folder's sub-folders are the classes; pictures outside any, or in one called unlabeled,
    unlabelled, unknown, unsorted, unclassified, unannotated, nolabel, tolabel or todo (in any case, `_`, `-` and spaces
    aside, at any depth) are unknown. Below a `train/` folder its sub-folders are the classes; `test/`, `val/`, `valid/`
    and `validation/` beside it are then left out. With a label file (see `read_labels`) folders have no meaning.

    Arrays are called images, x_train, embeddings, features, vectors, x or data, or are the only one; labels are called
    labels, label, y_train, y, targets or target, or come in a label file: `.npy`, `.npz`, or a text with one label a
    line or with row numbers (from 0) and labels. −1, NaN, None and nothing mean unknown.

    `size` is the side in pixels to which pictures of a folder are brought; the folder `leave_out` is not read.
    """
    path = Path(pictures).expanduser()
    label_file = None if labels is None else Path(labels).expanduser()
    require_size(size)
    if path.is_dir():
        collection = _read_folder(path, label_file, size=size, leave_out=leave_out, monitor=monitor)
    elif path.suffix.lower() in ARRAY_SUFFIXES:
        if size is not None:
            raise InputError(f"size {size} given for {path}; only the pictures of a folder can be brought to a size")
        collection = read_array_collection(path, label_file, DATA_KEYS, LABEL_KEYS)
    else:
        what = "not something that can be labeled" if path.exists() else "no such folder or file"
        raise InputError(f"{path}: {what}; give a folder of pictures, or an .npz or .npy file of images or embeddings")
    if not bool((collection.labels >= 0).any()):
        raise InputError(
            f"{path}: no label is known; put some pictures of each class into a sub-folder of its name,"
            " or give a label file"
        )
    return collection


def _read_folder(
    folder: Path, label_file: Path | None, *, size: int | None, leave_out: Path | None, monitor: Monitor
) -> Collection:
    files, skipped = find_pictures(folder, leave_out=leave_out)
    notes: list[str] = []
    if label_file is None and (folder / TRAIN).is_dir():
        n_found = len(files)
        files = [file for file in files if file.parts[0].lower() not in HELD_OUT]
        if len(files) < n_found:
            notes.append(f"{n_found - len(files)} pictures in {', '.join(HELD_OUT)} folders are left out")
    if not files:
        raise InputError(nothing_found(folder, skipped))
    # before the pictures, which take their time: a list that cannot be right is refused at once
    labels, class_names = collected_labels(files, folder, label_file, skipped=skipped)
    images, kept, unreadable = decode_all(files, size=size or default_size(files), monitor=monitor)
    skipped += unreadable
    if not kept:
        raise InputError(nothing_found(folder, skipped))
    n_lost = int((labels >= 0).sum() - (labels[kept] >= 0).sum())
    notes += [f"{n_lost} labels are of pictures that could not be read"] if n_lost else []
    images = images[:, :1].contiguous() if is_grey(images) else images
    names = names_of(files, kept)
    rows = ImageSet(images, labels[kept], class_names, names)
    return Collection(rows, names, folder, tuple(skipped), (*notes, *label_notes(rows.labels, class_names)))


def collected_labels(
    files: Sequence[PictureFile], folder: Path, label_file: Path | None, *, skipped: Sequence[Skipped]
) -> tuple[Int64[Tensor, " n"], tuple[str, ...]]:
    """By the list if there is one, else by sub-folder."""
    if label_file is not None:
        if label_file.suffix.lower() in ARRAY_SUFFIXES:
            raise InputError(f"{label_file}: pictures have names, not row numbers; give a .csv, .tsv or .jsonl file")
        names = tuple(file.name for file in files)
        return labels_by_name(label_file, names, (), root=folder, skipped=[file.path for file in skipped])
    if not (folder / TRAIN).is_dir():
        return numbered([class_of(file) for file in files], where=str(folder))
    classes = [class_of(file, n_above=1) if file.parts[0] == TRAIN else None for file in files]
    return numbered(classes, where=str(folder))


def read_array_collection(
    path: Path, label_file: Path | None, data_keys: tuple[str, ...], label_keys: tuple[str, ...]
) -> Collection:
    """The array under the first of `data_keys` that the file has, with its labels."""
    array, vector, class_names = _read_array_file(path, data_keys, label_keys)
    if array.ndim == 0 or len(array) == 0:
        raise InputError(f"{path}: holds no rows; its array is {array.dtype} {array.shape}")
    n, where = len(array), str(label_file or path)
    if label_file is not None:
        labels = read_row_labels(label_file, n)
    else:
        labels = [None] * n if vector is None else vector_labels(vector, n, where=where)
    numbers, class_names = numbered_rows(labels, class_names, where=where)
    names = tuple(f"row {row}" for row in range(n))
    if array.ndim == 2:
        rows: ImageSet | VectorSet = VectorSet(finite_vectors(array, where=path), numbers, class_names)
    else:
        rows = ImageSet(channels_first(array, where=str(path)), numbers, class_names)
    return Collection(rows, names, path, (), tuple(label_notes(numbers, class_names)))


def _read_array_file(
    path: Path, data_keys: tuple[str, ...], label_keys: tuple[str, ...]
) -> tuple[Shaped[np.ndarray, "..."], Shaped[np.ndarray, "..."] | None, tuple[str, ...]]:
    """The data, the labels beside them if there are any, and the names of the classes."""
    if path.suffix.lower() == ".npy":
        return read_npy(path), None, ()
    with open_npz(path) as arrays:
        label_key, class_names = named_key(list(arrays), label_keys), arrays.get(CLASS_NAMES_KEY)
        others = [key for key in arrays if key not in (label_key, CLASS_NAMES_KEY)]
        key = named_key(others, data_keys) or (others[0] if len(others) == 1 else None)
        if key is None:
            raise InputError(f"{path}: no images or embeddings; expected an array called {', '.join(data_keys)}")
        data, labels = arrays[key], None if label_key is None else arrays[label_key]
    return data, labels, () if class_names is None else class_names_of(class_names, 0, where=path)


def finite_vectors(array: Shaped[np.ndarray, "n d"], *, where: Path) -> Float32[Tensor, "n d"]:
    if array.dtype.kind not in "uif" or array.size == 0:
        raise InputError(f"{where}: embeddings are numbers, a row for each point; got {array.dtype} {array.shape}")
    with np.errstate(over="ignore"):  # what is too large becomes infinite and is named below
        vectors = torch.from_numpy(array.astype(np.float32))
    is_finite = vectors.isfinite().all(dim=1)
    if not bool(is_finite.all()):
        row = int(torch.nonzero(~is_finite)[0])
        raise InputError(f"{where}: row {row} of the embeddings holds NaN or infinity; {int((~is_finite).sum())} do")
    return vectors
