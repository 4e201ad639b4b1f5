"""Folders of pictures: a sub-folder is a class, and a picture outside any sub-folder has no known label.

`train/` and `test/` sub-folders, each holding class folders, make a train and a test set; otherwise all is train.
Pictures in a folder called unlabeled, unlabelled, unknown, unsorted or the like, at any depth, have no known label. All
pictures come out square and of one size: the shorter side is scaled, the middle is kept. Unless a size is given,
pictures that all have one square size of at most 96 keep it; otherwise the size is the median shorter side, cut down to
a multiple of 8 and to 96 at most. A folder with only grey pictures has one channel.
"""

from collections.abc import Sequence
from pathlib import Path

from jaxtyping import Int64
from torch import Tensor

from laplacenet.data.classes import numbered
from laplacenet.data.dataset import Dataset, Skipped
from laplacenet.data.decoding import SUFFIXES
from laplacenet.data.images import ImageSet
from laplacenet.data.names import in_one_line
from laplacenet.data.pictures import SILENCE, decode_all, default_size, is_grey, require_size
from laplacenet.data.walking import PictureFile, find_pictures
from laplacenet.runtime import InputError, Monitor

MINI_IMAGENET_SIZE = 84
TRAIN, TEST = "train", "test"
UNLABELED_FOLDERS = (
    *("unlabeled", "unlabelled", "unknown", "unsorted", "unclassified", "unannotated"),
    *("nolabel", "nolabels", "tolabel", "todo"),
)
"""Names of folders that are no class, in any case, with or without `_`, `-` and spaces in and around them."""


def read_mini_imagenet(folder: Path, *, monitor: Monitor = SILENCE) -> Dataset:
    """Mini-ImageNet: `train/<class>/` and `test/<class>/` folders of images, 84 pixels a side."""
    for part in (TRAIN, TEST):
        if not (folder / part).is_dir():
            raise InputError(
                f"mini-imagenet not found: no folder {folder / part}; it cannot be downloaded, put its images into"
                f" train/<class>/ and test/<class>/ below {folder} or set LAPLACENET_DATA to the folder that holds it"
            )
    return read_image_folder(folder, size=MINI_IMAGENET_SIZE, name="mini-imagenet", monitor=monitor)


def read_image_folder(
    folder: Path, *, size: int | None = None, name: str | None = None, monitor: Monitor = SILENCE
) -> Dataset:
    """The pictures below `folder`; those that cannot be read are in the data set's `skipped`."""
    require_folder(folder)
    require_size(size)
    files, skipped = find_pictures(folder)
    is_parted = (folder / TRAIN).is_dir()
    train = [file for file in files if not is_parted or file.parts[0] == TRAIN]
    test = [file for file in files if is_parted and file.parts[0] == TEST]
    n_above = int(is_parted)
    train_labels, class_names = folder_labels(train, n_above=n_above, where=folder)
    test_labels, _ = folder_labels(test, n_above=n_above, where=folder, class_names=class_names)
    side = size or default_size(train + test)
    train_images, train_kept, train_skipped = decode_all(train, size=side, monitor=monitor)
    test_images, test_kept, test_skipped = decode_all(test, size=side, monitor=monitor)
    skipped += train_skipped + test_skipped
    if not train_kept:
        raise InputError(nothing_found(folder, skipped))
    if is_grey(train_images) and is_grey(test_images):
        train_images, test_images = train_images[:, :1].contiguous(), test_images[:, :1].contiguous()
    train_set = ImageSet(train_images, train_labels[train_kept], class_names, names_of(train, train_kept))
    test_set = None
    if test_kept:
        test_set = ImageSet(test_images, test_labels[test_kept], class_names, names_of(test, test_kept))
    return Dataset(train_set, test_set, name or folder.resolve().name, tuple(skipped))


def names_of(pictures: Sequence[PictureFile], kept: Sequence[int]) -> tuple[str, ...]:
    return tuple(pictures[row].name for row in kept)


def require_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")


def class_of(picture: PictureFile, *, n_above: int = 0) -> str | None:
    """The sub-folder's name; None outside any, and below one whose name says that its pictures have no label."""
    folders = picture.parts[n_above:-1]
    return None if not folders or any(map(_is_unlabeled, folders)) else folders[0]


def _is_unlabeled(folder: str) -> bool:
    return "".join(sign for sign in folder.casefold() if sign not in "_- ") in UNLABELED_FOLDERS


def folder_labels(
    pictures: Sequence[PictureFile], *, n_above: int, where: Path, class_names: tuple[str, ...] | None = None
) -> tuple[Int64[Tensor, " n"], tuple[str, ...]]:
    """Each picture's class by its sub-folder, −1 for none, and the classes; of those given, none may be missing."""
    classes = [class_of(picture, n_above=n_above) for picture in pictures]
    labels, found = numbered(classes, class_names or (), where=str(where))
    if class_names is not None and found != class_names:
        name = next(name for name in found if name not in class_names)
        raise InputError(f"{where / TEST}/{in_one_line(name)}: a class without pictures in {where / TRAIN}")
    return labels, found


def nothing_found(folder: Path, skipped: list[Skipped]) -> str:
    if skipped:
        first = f"{in_one_line(skipped[0].path)}: {skipped[0].reason}"
        return f"{folder}: none of {len(skipped)} files could be read; the first, {first}"
    return f"{folder}: no pictures; expected {' '.join(SUFFIXES)} files, in one sub-folder for each class if known"
