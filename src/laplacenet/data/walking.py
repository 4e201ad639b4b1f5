"""Find all picture files below a folder, safely: it may hold loops of links, pipes and unreadable folders."""

import os
import stat
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from laplacenet.data.dataset import Skipped
from laplacenet.data.decoding import SUFFIXES
from laplacenet.data.files import KINDS, reason_of
from laplacenet.data.names import in_one_line, writable
from laplacenet.runtime.run_folder import is_run_folder

# other files that are usual in picture folders; anything else that is no picture is reported as skipped
COMPANION_SUFFIXES = (
    *(".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".xml", ".yaml", ".yml", ".npy", ".npz"),
    *(".txt", ".md", ".html", ".log", ".ini", ".db"),
)
TRAIN, TEST = "train", "test"
HELD_OUT = (TEST, "val", "valid", "validation")
UNLABELED_FOLDERS = (
    *("unlabeled", "unlabelled", "unknown", "unsorted", "unclassified", "unannotated"),
    *("nolabel", "nolabels", "tolabel", "todo"),
)
"""Names of folders that are no class, in any case, with or without `_`, `-` and spaces in and around them."""
IGNORED_PREFIXES = (".", "__MACOSX", "@eaDir")  # files that begin like this are no pictures


@dataclass(frozen=True)
class PictureFile:
    """A file that should hold a picture; `name` is its path below the picture folder."""

    path: Path
    name: str

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.name.split("/"))


def find_pictures(folder: Path, *, leave_out: Path | None = None) -> tuple[list[PictureFile], list[Skipped]]:
    """All picture files in the order of their names, and what could not be looked at.

    Links are followed, but each folder is read once, under its own name if it has one here. Hidden files, other files
    that are usual in picture folders, and folders of earlier runs are ignored; so is the folder `leave_out`.
    """
    walk = _Walk(folder, leave_out)
    walk.go()
    by_parts = sorted(walk.pictures, key=lambda picture: picture.parts)
    return by_parts, sorted(walk.skipped, key=lambda file: file.path.split("/"))


class _Walk:
    def __init__(self, folder: Path, leave_out: Path | None) -> None:
        self.pictures: list[PictureFile] = []
        self.skipped: list[Skipped] = []
        self.folders = deque([(folder, "")])
        self.links: deque[tuple[Path, str]] = deque()
        # a link to a parent of the picture folder would lead through everything and back
        self.seen = {_identity(above) for above in folder.resolve().parents}
        self.seen |= {_identity(leave_out)} if leave_out is not None and leave_out.is_dir() else set()

    def go(self) -> None:
        """Folders before links: what can be reached both ways keeps its own name."""
        while self.folders or self.links:
            path, name = self.folders.popleft() if self.folders else self.links.popleft()
            try:
                self._enter(path, name)
            except OSError as error:
                self.skipped.append(Skipped(name or ".", f"a folder that cannot be opened ({reason_of(error)})"))

    def _enter(self, path: Path, name: str) -> None:
        identity = _identity(path)
        if identity in self.seen:
            if path.is_symlink():
                self.skipped.append(Skipped(name, "a link to a folder that is read already or lies above"))
            return
        self.seen.add(identity)
        with os.scandir(path) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        if name and is_run_folder(path):
            return
        for entry in entries:
            if not entry.name.startswith(IGNORED_PREFIXES):
                self._sort(entry, f"{name}/{writable(entry.name)}".lstrip("/"))

    def _sort(self, entry: os.DirEntry[str], name: str) -> None:
        path, suffix = Path(entry.path), Path(entry.name).suffix.lower()
        try:
            kind = stat.S_IFMT(entry.stat().st_mode)
        except OSError as error:
            if suffix not in COMPANION_SUFFIXES:
                what = "a link that leads nowhere" if isinstance(error, FileNotFoundError) else reason_of(error)
                self.skipped.append(Skipped(name, what))
            return
        if kind == stat.S_IFDIR:
            (self.links if entry.is_symlink() else self.folders).append((path, name))
        elif suffix in SUFFIXES and kind == stat.S_IFREG:
            self.pictures.append(PictureFile(path, name))
        elif suffix in SUFFIXES:
            self.skipped.append(Skipped(name, f"{KINDS.get(kind, 'a special file')}, not a regular file"))
        elif suffix not in COMPANION_SUFFIXES:
            self.skipped.append(Skipped(name, f"not one of {' '.join(SUFFIXES)}"))


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


@dataclass(frozen=True)
class FolderParts:
    """A folder's pictures: those to learn from, those to test on, and how many `val` and the like keep apart."""

    train: tuple[PictureFile, ...]
    test: tuple[PictureFile, ...]
    n_held_out: int
    n_above: int
    """How many folders are above those of the classes."""


def parted(folder: Path, files: Sequence[PictureFile]) -> FolderParts:
    """Where there is a `train` folder, the folders below it are the classes and `test` is the test set.

    Pictures beside it are to learn from too, but have no label; `val`, `valid` and `validation` are left out.
    """
    if not (folder / TRAIN).is_dir():
        return FolderParts(tuple(files), (), 0, 0)
    top = [file.parts[0].lower() for file in files]
    train = tuple(file for file, name in zip(files, top, strict=True) if name not in HELD_OUT)
    test = tuple(file for file, name in zip(files, top, strict=True) if name == TEST)
    return FolderParts(train, test, len(files) - len(train) - len(test), 1)


def class_of(picture: PictureFile, *, n_above: int = 0) -> str | None:
    """The sub-folder's name; None outside any, and below one whose name says that its pictures have no label."""
    folders = picture.parts[n_above:-1]
    return None if not folders or any(map(_is_unlabeled, folders)) else folders[0]


def _is_unlabeled(folder: str) -> bool:
    return "".join(sign for sign in folder.casefold() if sign not in "_- ") in UNLABELED_FOLDERS


def nothing_found(folder: Path, skipped: Sequence[Skipped]) -> str:
    if skipped:
        first = f"{in_one_line(skipped[0].path)}: {skipped[0].reason}"
        return f"{folder}: none of {len(skipped)} files could be read; the first, {first}"
    return f"{folder}: no pictures; expected {' '.join(SUFFIXES)} files, in one sub-folder for each class if known"
