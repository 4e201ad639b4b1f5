"""Folders of pictures: a sub-folder is a class, and a picture outside any sub-folder has no known label.

`train/` and `test/` sub-folders, each holding class folders, make a train and a test set; otherwise all is train. All
pictures come out square and of one size: the shorter side is scaled, the middle is kept. Unless a size is given,
pictures that all have one square size of at most 96 keep it; otherwise the size is the median shorter side, cut down to
a multiple of 8 and to 96 at most. A folder with only grey pictures has one channel.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from laplacenet.data.dataset import Dataset, Skipped
from laplacenet.data.decoding import SUFFIXES, decode, image_size
from laplacenet.data.images import UNKNOWN, ImageSet
from laplacenet.runtime import InputError

LARGEST_DEFAULT_SIZE = 96
SIZE_STEP = 8
MINI_IMAGENET_SIZE = 84
# files that people and systems keep beside pictures; anything else that is no picture is reported as skipped
COMPANION_SUFFIXES = (".csv", ".db", ".ini", ".json", ".md", ".txt")
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class _Picture:
    """A file that should hold a picture; `name` is its path below the folder that was asked for."""

    path: Path
    name: str
    class_name: str | None


def read_mini_imagenet(folder: Path) -> Dataset:
    """Mini-ImageNet: `train/<class>/` and `test/<class>/` folders of images, 84 pixels a side."""
    for part in ("train", "test"):
        if not (folder / part).is_dir():
            raise InputError(
                f"mini-imagenet not found: no folder {folder / part}; it cannot be downloaded, put its images into"
                f" train/<class>/ and test/<class>/ below {folder} or set LAPLACENET_DATA to the folder that holds it"
            )
    return read_image_folder(folder, size=MINI_IMAGENET_SIZE, name="mini-imagenet")


def read_image_folder(folder: Path, *, size: int | None = None, name: str | None = None) -> Dataset:
    """The pictures below `folder`; those that cannot be read are in the data set's `skipped`."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    if size is not None and size < 1:
        raise InputError(f"size must be a positive number of pixels; got {size}")
    files, skipped = _find_pictures(folder)
    is_parted = (folder / "train").is_dir()
    train = [file for file in files if not is_parted or file.name.startswith("train/")]
    test = [file for file in files if is_parted and file.name.startswith("test/")]
    class_names = _class_names(train, test, folder)
    side = size or _default_size(train + test)
    train_images, train, train_skipped = _decode_all(train, size=side)
    test_images, test, test_skipped = _decode_all(test, size=side)
    skipped += train_skipped + test_skipped
    if not train:
        raise InputError(_nothing_found(folder, skipped))
    if _is_grey(train_images) and _is_grey(test_images):
        train_images, test_images = train_images[:, :1].contiguous(), test_images[:, :1].contiguous()
    train_set = _image_set(train_images, train, class_names)
    test_set = _image_set(test_images, test, class_names) if test else None
    return Dataset(train_set, test_set, name or folder.resolve().name, tuple(skipped))


def _find_pictures(folder: Path) -> tuple[list[_Picture], list[Skipped]]:
    """All picture files in the order of their names, and the files that are something else."""
    pictures, skipped = [], []
    n_above_class = 1 if (folder / "train").is_dir() else 0
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder)
        if any(part.startswith((".", "__MACOSX")) for part in inner.parts) or not path.is_file():
            continue
        if path.suffix.lower() in SUFFIXES:
            class_name = inner.parts[n_above_class] if len(inner.parts) > n_above_class + 1 else None
            pictures.append(_Picture(path, inner.as_posix(), class_name))
        elif path.suffix.lower() not in COMPANION_SUFFIXES:
            skipped.append(Skipped(inner.as_posix(), f"not one of {' '.join(SUFFIXES)}"))
    return pictures, skipped


def _class_names(train: list[_Picture], test: list[_Picture], folder: Path) -> tuple[str, ...]:
    class_names = sorted({picture.class_name for picture in train if picture.class_name is not None})
    for picture in test:
        if picture.class_name is not None and picture.class_name not in class_names:
            raise InputError(f"{folder / 'test' / picture.class_name}: a class without pictures in {folder / 'train'}")
    return tuple(class_names)


def _default_size(pictures: list[_Picture]) -> int:
    """One size for all, small enough to train on."""
    sizes = [size for size in _in_threads(_size_or_none, pictures) if size is not None]
    if not sizes:
        return SIZE_STEP
    shorter = [min(size) for size in sizes]
    if len(set(sizes)) == 1 and max(sizes[0]) == shorter[0] <= LARGEST_DEFAULT_SIZE:
        return shorter[0]
    median = int(np.median(shorter))
    return max(SIZE_STEP, min(LARGEST_DEFAULT_SIZE, median // SIZE_STEP * SIZE_STEP))


def _size_or_none(picture: _Picture) -> tuple[int, int] | None:
    try:
        return image_size(picture.path)
    except Exception:  # `decode` will fail on the same file and say why
        return None


def _decode_all(
    pictures: list[_Picture], *, size: int
) -> tuple[UInt8[Tensor, "n 3 size size"], list[_Picture], list[Skipped]]:
    """The pictures that can be read, the files they came from, and the others with the reason."""
    images = torch.empty(len(pictures), 3, size, size, dtype=torch.uint8)

    def fill(row: int) -> Skipped | None:
        try:
            images[row] = torch.from_numpy(decode(pictures[row].path, size=size)).permute(2, 0, 1)
        except Exception as error:  # decoders of damaged files fail in many ways; each is the file's fault
            return Skipped(pictures[row].name, _one_line(error))
        return None

    outcomes = _in_threads(fill, range(len(pictures)))
    skipped = [outcome for outcome in outcomes if outcome is not None]
    if skipped:
        images = images[torch.tensor([outcome is None for outcome in outcomes])]
    kept = [picture for picture, outcome in zip(pictures, outcomes, strict=True) if outcome is None]
    return images, kept, skipped


def _in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Pillow decodes outside the interpreter's lock; its warnings about odd metadata are of no use to the reader."""
    with warnings.catch_warnings(), ThreadPoolExecutor(os.cpu_count()) as pool:
        warnings.simplefilter("ignore")
        return list(pool.map(function, items))


def _is_grey(images: UInt8[Tensor, "n 3 h w"]) -> bool:
    return all(bool((image[0] == image[1]).all() and (image[0] == image[2]).all()) for image in images)


def _image_set(images: UInt8[Tensor, "n c h w"], pictures: list[_Picture], class_names: tuple[str, ...]) -> ImageSet:
    number = {class_name: index for index, class_name in enumerate(class_names)}
    labels = [UNKNOWN if picture.class_name is None else number[picture.class_name] for picture in pictures]
    return ImageSet(images, torch.tensor(labels), class_names, tuple(picture.name for picture in pictures))


def _nothing_found(folder: Path, skipped: list[Skipped]) -> str:
    if skipped:
        return (
            f"{folder}: none of {len(skipped)} files could be read; the first, {skipped[0].path}: {skipped[0].reason}"
        )
    return f"{folder}: no pictures; expected {' '.join(SUFFIXES)} files, in one sub-folder for each class if known"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
