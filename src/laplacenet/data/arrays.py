"""Images or embeddings in one `.npz` or `.npy` file, with their labels and file names.

The array is called images, x_train, embeddings, features, vectors, x or data, or is the only one; labels are called
labels, label, y_train, y, targets or target; `class_names` may name the classes and `paths` the files that the rows
came from; names may be in any case. A test set is called test_images, x_test or the like, with test_labels or y_test.

Images are (n, h, w), (n, h, w, c) or (n, c, h, w) with 1 or 3 channels; where both of the last two would fit, the
channels are taken to be last. They are uint8, or numbers from 0 to 255, or fractions from 0 to 1. Rows of two
dimensions are embeddings. Labels are whole numbers from 0 or texts; −1, NaN, `None` and nothing mean unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, Int64, Shaped, UInt8
from torch import Tensor

from laplacenet.data.classes import in_order, without_fractions
from laplacenet.data.images import ImageSet, VectorSet
from laplacenet.data.label_files import RowLabels, numbered_labels
from laplacenet.data.label_vectors import LABEL_KEYS, named_key, read_row_labels, vector_labels
from laplacenet.data.names import quoted, writable
from laplacenet.data.npz import open_npz, read_npy
from laplacenet.runtime import InputError
from laplacenet.runtime.memory import free_memory

BLOCK = 1024
ARRAY_SUFFIXES = (".npz", ".npy")
DATA_KEYS = ("images", "x_train", "embeddings", "features", "vectors", "x", "data")
TEST_DATA_KEYS = ("test_images", "x_test", "test_embeddings", "test_features", "test_vectors", "test_x")
TEST_LABEL_KEYS = ("test_labels", "y_test", "test_y")
CLASS_NAMES_KEY, PATHS_KEY = "class_names", "paths"
BYTES_PER_ROW = 1024
"""The least memory that a row takes in addition to its own numbers, for its label, neighbors and scores."""


@dataclass(frozen=True)
class ArrayKeys:
    """Accepted names of a set's arrays, in order of preference."""

    data: tuple[str, ...] = DATA_KEYS
    labels: tuple[str, ...] = LABEL_KEYS
    may_be_only: bool = True


TRAIN_KEYS = ArrayKeys()
TEST_KEYS = ArrayKeys(TEST_DATA_KEYS, TEST_LABEL_KEYS, may_be_only=False)
ANY_TEST_KEYS = ArrayKeys((*TEST_DATA_KEYS, *DATA_KEYS), (*TEST_LABEL_KEYS, *LABEL_KEYS))
"""For a file given as a test set: its arrays may have the names of a test set or of any other."""


@dataclass(frozen=True, eq=False)
class ArrayFile:
    """The arrays that belong together in one file."""

    path: Path
    data: Shaped[np.ndarray, "..."]
    labels: Shaped[np.ndarray, "..."] | None
    class_names: tuple[str, ...]
    paths: tuple[str, ...] | None

    def given_labels(self, label_files: Sequence[Path] = ()) -> list[RowLabels]:
        """Labels from the file itself and from label files."""
        n = len(self.data)
        inside = [] if self.labels is None else [vector_labels(self.labels, n, where=self.path)]
        given = [*inside, *(read_row_labels(path, n, self.paths) for path in label_files)]
        return [self._named(labels) for labels in given]

    def _named(self, labels: RowLabels) -> RowLabels:
        """If the file names its classes, numeric labels are indices into those names."""
        names, entries = self.class_names, labels.entries
        found = set(entries.labels)
        if not names or found <= set(names):
            return labels
        outside = sorted(text for text in found if not text.isdecimal() or int(text) >= len(names))
        if outside:
            raise InputError(f"{entries.path}: label {quoted(outside[0])} is none of the {len(names)} class_names")
        entries.labels[:] = [names[int(text)] for text in entries.labels]
        return labels

    def rows(self, labels: Int64[Tensor, " n"], class_names: tuple[str, ...]) -> ImageSet | VectorSet:
        if self.data.ndim == 2:
            return VectorSet(finite_vectors(self.data, where=self.path), labels, class_names)
        return ImageSet(channels_first(self.data, where=f"{self.path}: images"), labels, class_names, self.paths)


def read_array_file(path: Path, keys: ArrayKeys = TRAIN_KEYS) -> ArrayFile:
    """The array under the first of the keys that the file has, with what belongs to it."""
    found = find_array_file(path, keys)
    if found is None:
        raise InputError(f"{path}: no images or embeddings; expected an array called {', '.join(keys.data)}")
    return found


def find_array_file(path: Path, keys: ArrayKeys) -> ArrayFile | None:
    """As `read_array_file`; None where there is no such array."""
    if path.suffix.lower() == ".npy":
        return _checked(ArrayFile(path, read_npy(path), None, (), None))
    with open_npz(path) as arrays:
        label_key, paths_key = named_key(list(arrays), keys.labels), named_key(list(arrays), (PATHS_KEY,))
        others = [key for key in arrays if key not in (label_key, paths_key, CLASS_NAMES_KEY)]
        key = named_key(others, keys.data) or (others[0] if keys.may_be_only and len(others) == 1 else None)
        if key is None:
            return None
        names = arrays.get(CLASS_NAMES_KEY)
        class_names = () if names is None else _texts(names, where=f"{path}: {CLASS_NAMES_KEY}")
        data, labels = arrays[key], None if label_key is None else arrays[label_key]
        paths = None
        # paths name the rows of the train set, not of the test set
        if paths_key is not None and data.ndim and len(arrays[paths_key]) == len(data):
            paths = _texts(arrays[paths_key], where=f"{path}: {paths_key}")
    return _checked(ArrayFile(path, data, labels, class_names, paths))


def _checked(file: ArrayFile) -> ArrayFile:
    path, data = file.path, file.data
    if data.ndim == 0 or len(data) == 0:
        raise InputError(f"{path}: holds no rows; its array is {data.dtype} {data.shape}")
    if data.ndim == 1:
        raise InputError(
            f"{path}: one number a row; embeddings are (n, d), images (n, h, w), (n, h, w, c) or (n, c, h, w),"
            f" but its array is {data.dtype} {data.shape}"
        )
    needed = len(data) * BYTES_PER_ROW
    if needed > free_memory():
        gibibytes = 2**30
        raise InputError(
            f"{path}: {len(data)} rows need at least {needed / gibibytes:.1f} GiB of memory,"
            f" {free_memory() / gibibytes:.1f} are free; give fewer rows"
        )
    if file.paths is not None and len(set(file.paths)) < len(file.paths):
        raise InputError(f"{path}: its paths must differ from one another")
    if len(set(file.class_names)) < len(file.class_names):
        raise InputError(f"{path}: its class_names must differ from one another")
    return file


def read_arrays(path: Path) -> tuple[ImageSet | VectorSet, ImageSet | VectorSet | None]:
    """The train set in the file and the test set, if there is one; both have all classes that either has labels of."""
    train = read_array_file(path)
    test = None if path.suffix.lower() == ".npy" else find_array_file(path, TEST_KEYS)
    parts = [train] if test is None else [train, test]
    given = [part.given_labels() for part in parts]
    labels = without_fractions(
        {text for labels in given for one in labels for text in one.entries.labels}, where=str(path)
    )
    known = {text for text in labels.values() if text is not None}
    class_names = train.class_names if known <= set(train.class_names) else in_order(known)
    sets = [
        part.rows(numbered_labels(labels, len(part.data), class_names, where=str(path))[0], class_names)
        for part, labels in zip(parts, given, strict=True)
    ]
    return sets[0], sets[1] if test is not None else None


def channels_first(images: Shaped[np.ndarray, "..."], *, where: str) -> UInt8[Tensor, "n c h w"]:
    images = _as_bytes(images, where=where)
    if images.ndim == 3:
        return torch.from_numpy(images[:, None])
    if images.ndim == 4 and images.shape[3] in (1, 3):
        return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
    if images.ndim == 4 and images.shape[1] in (1, 3):
        return torch.from_numpy(images)
    raise InputError(
        f"{where} must be (n, h, w), (n, h, w, c) or (n, c, h, w) with 1 or 3 channels; got {images.shape}"
    )


def _as_bytes(images: Shaped[np.ndarray, "..."], *, where: str) -> Shaped[np.ndarray, "..."]:
    """Pixels from 0 to 255; floats of at most 1 are taken as fractions of white."""
    if images.dtype.kind not in "uif":
        raise InputError(f"{where} must be numbers, best uint8; got {images.dtype}")
    if images.size == 0:
        raise InputError(f"{where} holds no images: its shape is {images.shape}")
    if images.dtype == np.uint8:
        return images
    smallest, largest = float(images.min()), float(images.max())
    if not 0 <= smallest <= largest <= 255:  # nor is NaN
        raise InputError(f"{where} must lie between 0 and 255, or 0 and 1; got {smallest:g} to {largest:g}")
    white = 255 if images.dtype.kind == "f" and largest <= 1 else 1
    pixels = np.empty(images.shape, np.uint8)
    for start in range(0, len(images), BLOCK):
        pixels[start : start + BLOCK] = np.rint(images[start : start + BLOCK].astype(np.float32) * white)
    return pixels


def _texts(texts: Shaped[np.ndarray, "..."], *, where: str) -> tuple[str, ...]:
    if texts.ndim != 1 or texts.dtype.kind != "U":
        raise InputError(f"{where} must be a list of texts; got {texts.dtype} {texts.shape}")
    return tuple(writable(text) for text in texts.tolist())


def finite_vectors(array: Shaped[np.ndarray, "n d"], *, where: Path) -> Float32[Tensor, "n d"]:
    if array.dtype.kind not in "uif" or array.size == 0:
        raise InputError(f"{where}: embeddings are numbers, a row for each point; got {array.dtype} {array.shape}")
    with np.errstate(over="ignore"):  # values that overflow become infinite and are refused below
        vectors = torch.from_numpy(array.astype(np.float32))
    is_finite = vectors.isfinite().all(dim=1)
    if not bool(is_finite.all()):
        row = int(torch.nonzero(~is_finite)[0])
        raise InputError(f"{where}: row {row} of the embeddings holds NaN or infinity; {int((~is_finite).sum())} do")
    return vectors
