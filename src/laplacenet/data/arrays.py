"""Image data sets in one `.npz` file.

Either `images` and `labels`, with `test_images` and `test_labels` if there is a test set, or `x_train`, `y_train`,
`x_test` and `y_test`. Images are (n, h, w), (n, h, w, c) or (n, c, h, w) with 1 or 3 channels; where both of the last
two would fit, the channels are taken to be last. They are uint8, or numbers from 0 to 255, or fractions from 0 to 1.
Labels are integers from 0, −1 for unknown; without labels all are unknown. `class_names` may name the classes.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64, Shaped, UInt8
from torch import Tensor

from laplacenet.data.dataset import Dataset
from laplacenet.data.images import UNKNOWN, ImageSet
from laplacenet.data.names import writable
from laplacenet.data.npz import open_npz
from laplacenet.runtime import InputError

BLOCK = 1024
SPELLINGS = (
    ("images", "labels", "test_images", "test_labels"),
    ("x_train", "y_train", "x_test", "y_test"),
)


def read_arrays(path: Path) -> Dataset:
    """The data set in the `.npz` file `path`."""
    with open_npz(path) as arrays:
        content = {key: arrays[key] for spelling in SPELLINGS for key in spelling if key in arrays}
        names = arrays.get("class_names")
    train_images, train_labels, test_images, test_labels = _spelling(content, path)
    images, labels = _read_pair(content, train_images, train_labels, where=path)
    test = _read_pair(content, test_images, test_labels, where=path) if test_images in content else None
    largest = max(int(part.max()) for part in ([labels] if test is None else [labels, test[1]]))
    class_names = class_names_of(names, largest + 1, where=path)
    try:
        train_set = ImageSet(images, labels, class_names)
        test_set = None if test is None else ImageSet(*test, class_names)
        return Dataset(train_set, test_set, path.stem)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _spelling(content: dict[str, Any], path: Path) -> tuple[str, str, str, str]:
    for spelling in SPELLINGS:
        if spelling[0] in content:
            return spelling
    accepted = " or ".join(", ".join(spelling) for spelling in SPELLINGS)
    raise InputError(f"{path}: no images; expected arrays named {accepted}")


def _read_pair(
    content: dict[str, Any], images_key: str, labels_key: str, *, where: Path
) -> tuple[UInt8[Tensor, "n c h w"], Int64[Tensor, " n"]]:
    images = channels_first(content[images_key], where=f"{where}: {images_key}")
    if labels_key not in content:
        return images, torch.full((len(images),), UNKNOWN)
    labels = content[labels_key]
    if not np.issubdtype(labels.dtype, np.integer) or labels.size != len(images) or len(labels) != len(images):
        raise InputError(
            f"{where}: {labels_key} must be {len(images)} integers, one for each image;"
            f" got {labels.dtype} {labels.shape}"
        )
    return images, torch.from_numpy(labels.reshape(-1).astype(np.int64))


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
    """Pixels from 0 to 255; fractions whose largest is 1 or less are taken to be shares of white."""
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


def class_names_of(names: Shaped[np.ndarray, "..."] | None, n_labels: int, *, where: Path) -> tuple[str, ...]:
    if names is None:
        return tuple(str(number) for number in range(n_labels))
    if names.ndim != 1 or names.dtype.kind != "U":
        raise InputError(f"{where}: class_names must be a list of texts; got {names.dtype} {names.shape}")
    return tuple(writable(str(name)) for name in names)
