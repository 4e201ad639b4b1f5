"""One's own pictures or embeddings with the few labels that they have: a folder, a folder and lists, or arrays.

This is the one reader of picture folders: `read_picture_folder` gives the pictures to learn from and, where they are
asked for, those to test on. All pictures come out square and of one size: the shorter side is scaled, the middle is
kept. Unless a size is given, pictures that all have one square size of at most 96 keep it; otherwise the size is the
median shorter side, cut down to a multiple of 8 and to 96 at most. A folder with only grey pictures has one channel.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from jaxtyping import Int64, UInt8
from torch import Tensor

from laplacenet.data.arrays import ARRAY_SUFFIXES, TRAIN_KEYS, ArrayKeys, read_array_file
from laplacenet.data.classes import label_notes, numbered
from laplacenet.data.dataset import Skipped
from laplacenet.data.images import MEASURED, ChannelStatistics, ImageSet, VectorSet, channel_statistics
from laplacenet.data.label_files import LabelFiles, label_paths, labels_by_name, numbered_labels, predicted_notes
from laplacenet.data.names import in_one_line
from laplacenet.data.pictures import NO_MONITOR, decode_all, default_size, is_grey, one_channel, require_size
from laplacenet.data.prepared import find_prepared, prepare, prepared_size
from laplacenet.data.walking import (
    TEST,
    TRAIN,
    FolderParts,
    PictureFile,
    class_of,
    find_pictures,
    nothing_found,
    parted,
)
from laplacenet.runtime import InputError, Monitor
from laplacenet.runtime.memory import free_memory
from laplacenet.runtime.monitor import expect
from laplacenet.runtime.wording import counted


@dataclass(frozen=True, eq=False)
class Collection:
    """The rows to be labeled and their known labels.

    `rows` carry the given labels (−1 = unknown) and the classes; `file_names` are paths below the folder `root`, or
    what the array file `root` says that its rows came from. `skipped` are the files that could not be read, `notes` are
    warnings for the user. With `merges_similar_classes`, labels of a test set are matched to similar class names.
    """

    rows: ImageSet | VectorSet
    file_names: tuple[str, ...] | None
    root: Path
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()
    merges_similar_classes: bool = False

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The file names; `row 17` where there are none."""
        return tuple(f"row {row}" for row in range(len(self.rows))) if self.file_names is None else self.file_names

    @property
    def labels(self) -> Int64[Tensor, " n"]:
        return self.rows.labels

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.rows.class_names

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class ReadingOptions:
    """`size` is the side in pixels to which pictures of a folder are resized; the folder `leave_out` is not read.

    With `merge_similar_classes`, class names that differ only in case, spaces or accents are one class, under the most
    frequent name.
    """

    size: int | None = None
    leave_out: Path | None = None
    merge_similar_classes: bool = False


def read_collection(
    pictures: str | Path,
    *,
    labels: LabelFiles = None,
    size: int | None = None,
    leave_out: Path | None = None,
    merge_similar_classes: bool = False,
    monitor: Monitor = NO_MONITOR,
) -> Collection:
    """A folder of pictures, or an `.npz` or `.npy` file of images or embeddings, with its labels.

    Without a label file, a folder's sub-folders are the classes; pictures outside any, or in one called unlabeled,
    unlabelled, unknown, unsorted, unclassified, unannotated, nolabel, tolabel or todo (in any case, `_`, `-` and spaces
    aside, at any depth) are unknown. Below a `train/` folder its sub-folders are the classes; `test/`, `val/`, `valid/`
    and `validation/` beside it are then left out. With label files (see `read_labels`) folders have no meaning.

    `laplacenet.data.arrays` lists the accepted names of arrays. Labels in the file and in label files are combined:
    `.npy`, `.npz`, a text with one label a line, or tables of row numbers (from 0) or file names and labels. −1, NaN,
    None and nothing mean unknown. See `ReadingOptions` for the rest.
    """
    path, label_files = Path(pictures).expanduser(), label_paths(labels)
    options = ReadingOptions(size, leave_out, merge_similar_classes)
    require_size(size)
    if path.is_dir():
        collection, _ = read_picture_folder(path, label_files, options, monitor=monitor)
    elif path.suffix.lower() in ARRAY_SUFFIXES:
        if size is not None:
            raise InputError(f"size {size} given for {path}; only the pictures of a folder can be resized")
        collection = read_array_collection(path, label_files, merge_similar_classes=merge_similar_classes)
    else:
        what = "not something that can be labeled" if path.exists() else "no such folder or file"
        raise InputError(f"{path}: {what}; give a folder of pictures, or an .npz or .npy file of images or embeddings")
    if not bool((collection.labels >= 0).any()):
        raise no_labels(path)
    return replace(collection, merges_similar_classes=merge_similar_classes)


def no_labels(path: Path) -> InputError:
    for_pictures = (
        ", put some pictures of each class into a sub-folder named after it,"
        " or label some in the browser with laplacenet review"
    )
    return InputError(f"{path}: no labels; name a label file with --labels{for_pictures if path.is_dir() else ''}")


def read_picture_folder(
    folder: Path,
    label_files: Sequence[Path] = (),
    options: ReadingOptions | None = None,
    *,
    with_test: bool = False,
    monitor: Monitor = NO_MONITOR,
) -> tuple[Collection, ImageSet | None]:
    """The pictures to learn from and, with `with_test`, those below `test/`; both have the same size and channels."""
    options = options or ReadingOptions()
    files, skipped = find_pictures(folder, leave_out=options.leave_out)
    parts = FolderParts(tuple(files), (), 0, 0) if label_files else parted(folder, files)
    if not parts.train:
        raise InputError(nothing_found(folder, skipped))
    # before the pictures, which take long: an invalid list is refused at once
    labels, class_names, warnings = collected_labels(parts, folder, label_files, skipped=skipped, options=options)
    test_labels = _test_labels(parts, folder, class_names) if with_test else None
    size = options.size or prepared_size(parts.train) or default_size(parts.train)
    pictures = read_all(parts.train, size=size, monitor=monitor)
    images, kept = pictures.images, pictures.kept
    skipped += pictures.skipped
    if not kept:
        raise InputError(nothing_found(folder, skipped))
    names, statistics = names_of(parts.train, kept), pictures.statistics
    if is_grey(images):
        images, statistics = images[:, :1].contiguous(), MEASURED
    rows = ImageSet(images, labels[kept], class_names, names, statistics)
    test, test_skipped = None, list[Skipped]()
    if test_labels is not None and parts.test:
        test, test_skipped = _read_test(parts.test, test_labels, rows, monitor=monitor)
    notes = (*warnings, *_lost(parts, labels, kept, with_test=with_test), *label_notes(rows.labels, class_names))
    return Collection(rows, names, folder, (*skipped, *test_skipped), notes), test


@dataclass(frozen=True, eq=False)
class ReadPictures:
    """The pictures of some files, which of the files those are, and the files that could not be read."""

    images: UInt8[Tensor, "n 3 h w"]
    kept: list[int]
    skipped: list[Skipped]
    statistics: ChannelStatistics = MEASURED


def read_all(pictures: Sequence[PictureFile], *, size: int | tuple[int, int], monitor: Monitor) -> ReadPictures:
    """Prepared pictures are mapped from their file, others decoded into memory if there is room.

    Prepared ones are checked while their statistics are measured: each is read once for both.
    """
    expect(monitor, len(pictures))
    found = find_prepared(pictures, size)
    if found is not None:
        statistics = channel_statistics(found.images, check=found.require_whole)
        monitor.advance(len(pictures))
        return ReadPictures(found.images, found.kept, found.skipped, statistics)
    width, height = (size, size) if isinstance(size, int) else size
    needed, free = 3 * width * height * len(pictures), free_memory()
    if needed > free:
        raise InputError(
            f"{len(pictures)} pictures of {width}×{height} take {needed / 2**30:.1f} GiB, {free / 2**30:.1f} are free;"
            " write them into a file first: laplacenet data FOLDER --prepare"
        )
    return ReadPictures(*decode_all(pictures, size=size, monitor=monitor))


def prepare_folder(folder: Path, *, size: int | None, monitor: Monitor = NO_MONITOR) -> tuple[int, int]:
    """Decode all pictures of a folder into files that later readers map into memory; returns their number and side."""
    require_size(size)
    files, skipped = find_pictures(folder)
    parts = parted(folder, files)
    if not parts.train:
        raise InputError(nothing_found(folder, skipped))
    side = size or prepared_size(parts.train) or default_size(parts.train)
    expect(monitor, len(parts.train) + len(parts.test))
    for some in (parts.train, parts.test):
        if some:
            prepare(some, size=side, is_default=size is None, monitor=monitor)
    return len(parts.train) + len(parts.test), side


def collected_labels(
    parts: FolderParts,
    folder: Path,
    label_files: Sequence[Path],
    *,
    skipped: Sequence[Skipped],
    options: ReadingOptions | None = None,
) -> tuple[Int64[Tensor, " n"], tuple[str, ...], list[str]]:
    """By the label files if there are any, else by sub-folder; with the classes and warnings about the files."""
    merges = options is not None and options.merge_similar_classes
    if not label_files:
        classes = [_class_below(file, parts) for file in parts.train]
        return *numbered(classes, merge_similar_classes=merges, where=str(folder)), []
    for path in label_files:
        if path.suffix.lower() in ARRAY_SUFFIXES:
            raise InputError(f"{path}: pictures have names, not row numbers; give a .csv, .tsv, .json or .jsonl file")
    names = [file.name for file in parts.train]
    given = labels_by_name(label_files, names, root=folder, skipped=[file.path for file in skipped])
    found = numbered_labels(given, len(names), merge_similar_classes=merges, where=str(label_files[0]))
    return *found, predicted_notes(given)


def _class_below(file: PictureFile, parts: FolderParts) -> str | None:
    """Pictures beside a `train` folder have no class."""
    return class_of(file, n_above=parts.n_above) if not parts.n_above or file.parts[0] == TRAIN else None


def _test_labels(parts: FolderParts, folder: Path, class_names: tuple[str, ...]) -> Int64[Tensor, " m"]:
    labels, found = numbered([class_of(file, n_above=1) for file in parts.test], class_names, where=str(folder))
    if found != class_names and parts.test:
        name = next(name for name in found if name not in class_names)
        raise InputError(f"{folder / TEST}/{in_one_line(name)}: a class without pictures in {folder / TRAIN}")
    return labels


def _read_test(
    files: Sequence[PictureFile], labels: Int64[Tensor, " m"], train: ImageSet, *, monitor: Monitor
) -> tuple[ImageSet | None, list[Skipped]]:
    n_channels, height, width = train.images.shape[1:]
    read = read_all(files, size=(width, height), monitor=monitor)
    if not read.kept:
        return None, read.skipped
    images = one_channel(read.images) if n_channels == 1 else read.images
    names = names_of(files, read.kept)
    return ImageSet(images, labels[read.kept], train.class_names, names, train.statistics), read.skipped


def _lost(parts: FolderParts, labels: Int64[Tensor, " n"], kept: list[int], *, with_test: bool) -> list[str]:
    """Notes on pictures that were found but not used."""
    n_left_out = parts.n_held_out + (0 if with_test else len(parts.test))
    are = "is" if n_left_out == 1 else "are"
    left_out = f"{counted(n_left_out, 'picture')} in test, val, valid, validation folders {are} left out"
    notes = [left_out] if n_left_out else []
    n_lost = int((labels >= 0).sum() - (labels[kept] >= 0).sum())
    lost = "1 label is of a picture" if n_lost == 1 else f"{n_lost} labels are of pictures"
    return notes + ([f"{lost} that could not be read"] if n_lost else [])


def names_of(pictures: Sequence[PictureFile], kept: Sequence[int]) -> tuple[str, ...]:
    return tuple(pictures[row].name for row in kept)


def read_array_collection(
    path: Path, label_files: Sequence[Path] = (), keys: ArrayKeys = TRAIN_KEYS, *, merge_similar_classes: bool = False
) -> Collection:
    """The array that the file has under one of the keys, with the labels inside and those of the label files."""
    file = read_array_file(path, keys)
    given = file.given_labels(label_files)
    where = str(label_files[0] if label_files else path)
    labels, class_names = numbered_labels(
        given, len(file.data), file.class_names, merge_similar_classes=merge_similar_classes, where=where
    )
    rows = file.rows(labels, class_names)
    notes = (*predicted_notes(given), *label_notes(labels, class_names))
    return Collection(rows, file.paths, path, (), notes)
