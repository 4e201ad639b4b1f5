"""Label lists: a file that says of some pictures which class they show."""

import os
import unicodedata
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch
from jaxtyping import Int64
from torch import Tensor

from laplacenet.data.classes import numbered
from laplacenet.data.decoding import SUFFIXES
from laplacenet.data.images import UNKNOWN, ImageSet
from laplacenet.data.label_entries import LabelEntry, read_entries
from laplacenet.data.names import in_one_line, quoted
from laplacenet.runtime import InputError

N_SHOWN = 3
PASSED_OVER = -1
"""The row of a file that is there but could not be read: a label may name it."""


def read_labels(
    path: str | Path, image_set: ImageSet, *, root: Path | None = None, skipped: Collection[str] = ()
) -> tuple[Int64[Tensor, " n"], tuple[str, ...]]:
    """The labels in a CSV, TSV or JSON-lines file, −1 for every other image, and the names of the classes.

    A line names a picture (below the picture folder `root`, below the label file's own folder, absolute, or by its bare
    name where that is unique) and gives its label; a line with an empty label is passed over. A heading is allowed;
    columns called path or file and label are then found wherever they stand. Files that are in `skipped` may be named,
    to no effect. The image set's own classes are kept if they include every label in the file; otherwise the file's
    labels are the classes, in the order of their names (or numbers).
    """
    if image_set.names is None:
        raise InputError(f"{path}: labels by file name need images that came from files")
    return labels_by_name(Path(path), image_set.names, image_set.class_names, root=root, skipped=skipped)


def labels_by_name(
    path: Path,
    names: tuple[str, ...],
    class_names: tuple[str, ...],
    *,
    root: Path | None,
    skipped: Collection[str] = (),
) -> tuple[Int64[Tensor, " n"], tuple[str, ...]]:
    """As `read_labels`, for pictures of which only the names are known so far."""
    finder = PictureFinder(names, root=root, label_folder=path.parent, skipped=skipped)
    label_of = agreed(_resolved(read_entries(path, finder), finder, where=path), where=path)
    labels, class_names = numbered(list(label_of.values()), class_names, where=str(path))
    if not bool((labels >= 0).any()):
        raise InputError(f"{path}: no labels; expected lines such as {in_one_line(names[0])},cat")
    every = torch.full((len(names),), UNKNOWN)
    every[list(label_of)] = labels
    return every, class_names


def agreed(resolved: Iterable[tuple[int, LabelEntry]], *, where: Path) -> dict[int, str]:
    """One label a row; a row may be named twice but not in two classes."""
    first: dict[int, LabelEntry] = {}
    for row, entry in resolved:
        before = first.setdefault(row, entry)
        if before.label != entry.label:
            raise InputError(
                f"{where}, line {entry.line}: {in_one_line(entry.name)} is {quoted(entry.label)} here"
                f" and {quoted(before.label)} in line {before.line}"
            )
    return {row: entry.label for row, entry in first.items()}


@dataclass(frozen=True)
class _Found:
    """The rows that a name may mean, and the folders that had to be left off its front for it to be found."""

    rows: list[int]
    left_off: str = ""


class PictureFinder:
    """Rows by file name, in the ways that people write one."""

    def __init__(
        self, names: tuple[str, ...], *, root: Path | None, label_folder: Path, skipped: Collection[str]
    ) -> None:
        self.names = names
        self._roots = [] if root is None else _spellings(root)
        self._label_folders = _spellings(label_folder)
        self._by_path: dict[str, list[int]] = {}
        self._by_name: dict[str, list[int]] = {}
        for row, name in [*enumerate(names), *((PASSED_OVER, name) for name in skipped)]:
            plain = composed(name)
            self._by_path.setdefault(plain, []).append(row)
            last = PurePosixPath(plain).name
            for key in {last, _without_suffix(last)}:
                self._by_name.setdefault(key, []).append(row)

    def rows(self, name: str) -> list[int]:
        return self.find(name).rows

    def find(self, name: str) -> _Found:
        for spelling in dict.fromkeys((composed(name), composed(name.strip()))):
            found = self._by_path.get(spelling) or self._below_a_folder(spelling)
            if found:
                return _Found(found)
        parts = PurePosixPath(composed(name.strip()).replace("\\", "/")).parts
        for start in range(len(parts)):
            rows = self._by_path.get("/".join(parts[start:]))
            if rows:
                return _Found(rows, "/".join(parts[:start]))
        # a bare name reaches into sub-folders, a path with folders that do not exist does not
        return _Found(self._by_name.get(parts[0], []) if len(parts) == 1 else [])

    def _below_a_folder(self, name: str) -> list[int]:
        """Rows of the pictures that the path leads to from the picture folder and from the label file's folder."""
        if not self._roots or "\0" in name:
            return []
        starts = [*self._roots, *self._label_folders]
        full = dict.fromkeys(os.path.normpath(os.path.join(start, name)) for start in starts)  # noqa: PTH118
        below = dict.fromkeys(
            path.removeprefix(root).lstrip("/")
            for path in full
            for root in self._roots
            if path.startswith(root.rstrip("/") + "/")
        )
        return list(dict.fromkeys(row for path in below for row in self._by_path.get(composed(path), [])))


def _spellings(folder: Path) -> list[str]:
    """As it was named and as it really lies: a list may follow links or not."""
    return [os.path.normpath(folder.absolute()), str(folder.resolve())]


def composed(name: str) -> str:
    """One spelling for letters with accents: some systems store them in two characters, most lists in one."""
    return unicodedata.normalize("NFC", name)


def _without_suffix(name: str) -> str:
    return name[: name.rindex(".")] if name.lower().endswith(SUFFIXES) else name


def _resolved(entries: list[LabelEntry], finder: PictureFinder, *, where: Path) -> list[tuple[int, LabelEntry]]:
    """Each line with the row that it means; what cannot be told is refused before anything is made of the file."""
    found = [(finder.find(entry.name), entry) for entry in entries]
    unknown = [entry for match, entry in found if not match.rows]
    if unknown:
        raise InputError(_unknown_names(unknown, n_entries=len(entries), names=finder.names, where=where))
    _require_one_folder(found, where=where)
    for match, entry in found:
        if len(match.rows) > 1:
            meant = ", ".join(in_one_line(finder.names[row]) for row in match.rows[:N_SHOWN] if row != PASSED_OVER)
            raise InputError(
                f"{where}, line {entry.line}: {len(match.rows)} images are called {quoted(entry.name)} ({meant});"
                " give the path with its sub-folder"
            )
    return [(match.rows[0], entry) for match, entry in found if match.rows[0] != PASSED_OVER]


def _unknown_names(unknown: list[LabelEntry], *, n_entries: int, names: tuple[str, ...], where: Path) -> str:
    line, name = unknown[0].line, quoted(unknown[0].name)
    if len(unknown) == n_entries > 1:
        return (
            f"{where}: none of the {n_entries} names in it is among the {len(names)} images;"
            f" line {line} has {name}, an image is called {quoted(names[0])}"
        )
    shown = ", ".join(in_one_line(name) for name in names[:N_SHOWN])
    others = f"; {len(unknown) - 1} more are not" if len(unknown) > 1 else ""
    return f"{where}, line {line}: {name} is not among the {len(names)} images ({shown}, …){others}"


def _require_one_folder(found: list[tuple[_Found, LabelEntry]], *, where: Path) -> None:
    """A list may come from another machine, but then all its paths begin alike: `dogs/a.jpg` is not `a.jpg`."""
    folders: dict[str, LabelEntry] = {}
    for match, entry in found:
        if match.left_off or not _is_absolute(entry.name):
            folders.setdefault(match.left_off, entry)
    moved = [folder for folder in folders if folder]
    if len(moved) > 1 or (moved and "" in folders and not _is_absolute(moved[0])):
        entry = folders[moved[-1]]
        raise InputError(
            f"{where}, line {entry.line}: {quoted(entry.name)} is not among the images, and the paths in the file do"
            " not begin alike; give them as they lie below the picture folder"
        )


def _is_absolute(name: str) -> bool:
    return name.strip().startswith(("/", "\\")) or name.strip()[1:2] == ":"
