"""Label files: one or several that say of some pictures which class they show, found by file name and added up."""

import itertools
import os
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

import torch
from jaxtyping import Int64
from torch import Tensor

from laplacenet.data.classes import in_order, joined_classes, without_fractions
from laplacenet.data.decoding import SUFFIXES
from laplacenet.data.images import UNKNOWN, ImageSet
from laplacenet.data.label_entries import LabelEntries, read_entries
from laplacenet.data.names import in_one_line, quoted
from laplacenet.runtime import InputError

N_SHOWN = 3
PASSED_OVER = -1
"""The row of a file that is there but could not be read: a label may name it."""

LabelFiles = str | Path | Sequence[str | Path] | None


@dataclass(frozen=True, eq=False)
class RowLabels:
    """The rows that one file labels, and where in it each label stands."""

    rows: list[int]
    entries: LabelEntries


def read_labels(
    path: str | Path | Sequence[str | Path],
    image_set: ImageSet,
    *,
    root: Path | None = None,
    skipped: Collection[str] = (),
    merge_similar_classes: bool = False,
) -> tuple[Int64[Tensor, " n"], tuple[str, ...]]:
    """The labels in one or several label files, −1 for every other image, and the names of the classes.

    A line names a picture (below the picture folder `root`, below the label file's own folder, absolute, or by its bare
    name where that is unique) and gives its label; a line with an empty label is passed over. A heading is allowed;
    columns called path or file and label are then found wherever they stand. Files that are in `skipped` may be named,
    to no effect. The image set's own classes are kept if they include every label in the files; otherwise the files'
    labels are the classes, in the order of their names (or numbers).
    """
    paths = label_paths(path)
    if image_set.names is None:
        raise InputError(f"{paths[0]}: labels by file name need images that came from files")
    given = labels_by_name(paths, image_set.names, root=root, skipped=skipped)
    return numbered_labels(
        given, len(image_set), image_set.class_names, merge_similar_classes=merge_similar_classes, where=str(paths[0])
    )


def label_paths(paths: LabelFiles) -> list[Path]:
    """One label file, several or none, as a list."""
    several = [] if paths is None else [paths] if isinstance(paths, str | Path) else list(paths)
    return [Path(path).expanduser() for path in several]


def labels_by_name(
    paths: Sequence[Path], names: Sequence[str], *, root: Path | None, skipped: Collection[str] = ()
) -> list[RowLabels]:
    """What each label file says of pictures of which only the names are known so far."""
    index = PictureIndex(names, skipped)
    found = [_resolved(path, PictureFinder(index, root=root, label_folder=path.parent)) for path in paths]
    if not any(labels.rows for labels in found):
        said = ", ".join(map(str, paths))
        raise InputError(f"{said}: no labels; expected lines such as {in_one_line(names[0])},cat")
    return found


def numbered_labels(
    given: Sequence[RowLabels],
    n: int,
    class_names: tuple[str, ...] = (),
    *,
    merge_similar_classes: bool = False,
    where: str,
) -> tuple[Int64[Tensor, " n"], tuple[str, ...]]:
    """All files' labels as numbers, −1 for rows without one, and the classes: those given if they include every label.

    A row may be labeled twice but not in two classes.
    """
    written = Counter(itertools.chain.from_iterable(labels.entries.labels for labels in given))
    spelled = without_fractions(set(written), where=where)
    counts: Counter[str] = Counter()
    for label, count in written.items():
        counts[spelled[label] or ""] += count
    if merge_similar_classes:
        merged = joined_classes({name: counts[name] for name in [*class_names, *filter(None, counts)]})
        spelled = {label: merged.get(name or "", name) for label, name in spelled.items()}
        class_names = tuple(dict.fromkeys(merged.get(name, name) for name in class_names))
    label_of = _agreed(given, spelled)
    used = set(label_of.values())
    names = class_names if used <= set(class_names) else in_order(used)
    number = {name: position for position, name in enumerate(names)}
    every = torch.full((n,), UNKNOWN)
    if label_of:
        every[torch.tensor(list(label_of))] = torch.tensor([number[label] for label in label_of.values()])
    return every, names


def _agreed(given: Sequence[RowLabels], spelled: dict[str, str | None]) -> dict[int, str]:
    """One label a row; where two differ, both places are named."""
    rows = list(itertools.chain.from_iterable(labels.rows for labels in given))
    texts = [spelled[label] for labels in given for label in labels.entries.labels]
    if len(set(rows)) == len(rows):
        return {row: text for row, text in zip(rows, texts, strict=True) if text is not None}
    first: dict[int, int] = {}
    for position, (row, text) in enumerate(zip(rows, texts, strict=True)):
        if text is not None and texts[first.setdefault(row, position)] != text:
            raise InputError(_contradiction(given, first[row], position, spelled))
    return {row: text for row, position in first.items() if (text := texts[position]) is not None}


def _contradiction(given: Sequence[RowLabels], before: int, after: int, spelled: dict[str, str | None]) -> str:
    starts = [0, *itertools.accumulate(len(labels.rows) for labels in given)]

    def entry(position: int) -> tuple[LabelEntries, int]:
        file = bisect_right(starts, position) - 1
        return given[file].entries, position - starts[file]

    (one, i), (other, j) = entry(before), entry(after)
    where = f"{one.unit} {one.lines[i]}" if one is other else one.place(i)
    return (
        f"{other.place(j)}: {in_one_line(other.names[j])} is {quoted(spelled[other.labels[j]] or '')} here"
        f" and {quoted(spelled[one.labels[i]] or '')} in {where}"
    )


class PictureIndex:
    """Rows by path and, when it is asked for, by bare name with and without suffix."""

    def __init__(self, names: Sequence[str], skipped: Collection[str] = ()) -> None:
        self.names = names
        paths = list(map(composed, itertools.chain(names, skipped)))
        rows = itertools.chain(range(len(names)), itertools.repeat(PASSED_OVER))
        self.by_path = RowsByName(paths, rows)

    @cached_property
    def by_name(self) -> "RowsByName":
        paths, rows = self.by_path.names, list(self.by_path.rows)
        lasts = [path[path.rfind("/") + 1 :] for path in paths]
        stems = list(map(_without_suffix, lasts))
        if stems == lasts:
            return RowsByName(lasts, rows)
        shorter = [position for position, (stem, last) in enumerate(zip(stems, lasts, strict=True)) if stem != last]
        return RowsByName([*lasts, *(stems[i] for i in shorter)], [*rows, *(rows[i] for i in shorter)])


class RowsByName:
    """Which rows a name stands for. Nearly every name stands for one: a dictionary of numbers, made in one go."""

    def __init__(self, names: list[str], rows: Iterable[int]) -> None:
        self.names, self.rows = names, list(itertools.islice(rows, len(names)))
        self.one = dict(zip(names, self.rows, strict=True))
        self.several: dict[str, tuple[int, ...]] = {}
        if len(self.one) < len(names):
            repeated = {name for name, count in Counter(names).items() if count > 1}
            for name, row in zip(names, self.rows, strict=True):
                if name in repeated:
                    self.several[name] = (*self.several.get(name, ()), row)
            for name in repeated:
                del self.one[name]

    def get(self, name: str) -> tuple[int, ...]:
        row = self.one.get(name)
        return self.several.get(name, ()) if row is None else (row,)


Found = tuple[tuple[int, ...], str]
"""The rows that a name may mean, and the folders that had to be left off its front for it to be found."""


class PictureFinder:
    """Rows by file name, in the ways that people write one. What a folder may mean is worked out once for each."""

    def __init__(self, index: PictureIndex, *, root: Path | None, label_folder: Path) -> None:
        self.index = index
        self._roots = [] if root is None else _spellings(root)
        self._label_folders = _spellings(label_folder)
        self._below: dict[str, list[str]] = {}
        self._tails: dict[str, list[tuple[str, str]]] = {}

    def rows(self, name: str) -> tuple[int, ...]:
        return self.find(name)[0]

    def find(self, name: str) -> Found:
        by_path, plain = self.index.by_path, composed(name)
        stripped = plain.strip()
        for spelling in (plain, stripped) if stripped != plain else (plain,):
            found = by_path.get(spelling) or self._find_below(spelling)
            if found:
                return found, ""
        folder, last = _parted(stripped.replace("\\", "/"))
        tails = self._tails.get(folder) or self._tails_of(folder)
        for tail, left_off in tails:
            if rows := by_path.get(tail + last):
                return rows, left_off
        # a bare name reaches into sub-folders, a path with folders that do not exist does not
        return (self.index.by_name.get(last) if len(tails) == 1 else ()), ""

    def find_plain(self, names: list[str]) -> list[int | None]:
        """The rows of the names that `find` would find at its first tries, all at once; None for the others."""
        meant = list(map(self.index.by_path.one.get, names))
        if None in meant:
            meant = [self._row_below(name) if row is None else row for name, row in zip(names, meant, strict=True)]
        return meant

    def _row_below(self, name: str) -> int | None:
        """The row of the one picture to which the path leads from the folders; None where that is not all there is."""
        cut = name.rfind("/") + 1
        folder = name[:cut]
        below = self._below.get(folder)
        if below is None and self._roots and "\0" not in name:
            below = self._below[folder] = self._folders_below(folder)
        row = self.index.by_path.one.get(below[0] + name[cut:]) if below is not None and len(below) == 1 else None
        if row is None and not cut and "\\" not in name and name.isascii() and name == name.strip():
            is_below = any(self.index.by_path.get(folder + name) for folder in below or ())
            return None if is_below else self.index.by_name.one.get(name)
        return row

    def _find_below(self, name: str) -> tuple[int, ...]:
        """Rows of the pictures that the path leads to from the picture folder and from the label file's folder."""
        folder, last = _parted(name)
        if not self._roots or "\0" in name or last in ("", ".", ".."):
            return ()
        if folder not in self._below:
            self._below[folder] = self._folders_below(folder)
        found = [self.index.by_path.get(below + last) for below in self._below[folder]]
        return found[0] if len(found) == 1 else tuple(dict.fromkeys(itertools.chain.from_iterable(found)))

    def _folders_below(self, folder: str) -> list[str]:
        starts = [*self._roots, *self._label_folders]
        full = dict.fromkeys(os.path.normpath(os.path.join(start, folder)) for start in starts)  # noqa: PTH118
        inside = (
            path.removeprefix(root).strip("/")
            for path in full
            for root in self._roots
            if f"{path}/".startswith(root.rstrip("/") + "/")
        )
        return list(dict.fromkeys(composed(f"{below}/" if below else "") for below in inside))

    def _tails_of(self, folder: str) -> list[tuple[str, str]]:
        """What may be left of the folder when some of its front is left off."""
        parts = PurePosixPath(folder).parts
        self._tails[folder] = [
            ("".join(f"{part}/" for part in parts[start:]), "/".join(parts[:start])) for start in range(len(parts) + 1)
        ]
        return self._tails[folder]


def _parted(name: str) -> tuple[str, str]:
    """The folder with its last slash, and the rest."""
    cut = name.rfind("/") + 1
    return name[:cut], name[cut:]


def _spellings(folder: Path) -> list[str]:
    """As it was named and as it really lies: a list may follow links or not."""
    return list(dict.fromkeys([os.path.normpath(folder.absolute()), str(folder.resolve())]))


def composed(name: str) -> str:
    """One spelling for letters with accents: some systems store them in two characters, most lists in one."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def _without_suffix(name: str) -> str:
    return name[: name.rindex(".")] if name.lower().endswith(SUFFIXES) else name


def _resolved(path: Path, finder: PictureFinder) -> RowLabels:
    """Each line with the row that it means; what cannot be told is refused before anything is made of the file."""
    entries = read_entries(path, finder)
    meant = finder.find_plain(entries.names)
    plain = (name for name, row in zip(entries.names, meant, strict=True) if row is not None and not _is_absolute(name))
    folders = dict(zip(("",), plain, strict=False))
    unclear: dict[str, tuple[int, ...]] = {}
    found: dict[str, int] = {}
    for name in dict.fromkeys(itertools.compress(entries.names, map(_is_none, meant))) if None in meant else ():
        rows, left_off = finder.find(name)
        if len(rows) == 1:
            found[name] = rows[0]
        else:
            unclear[name] = rows
        if left_off not in folders and (left_off or not _is_absolute(name)):
            folders[left_off] = name
    if unclear:
        _refuse_unclear(entries, unclear, folders, finder.index.names)
    _require_one_folder(entries, folders)
    rows_meant = [found[name] if row is None else row for name, row in zip(entries.names, meant, strict=True)]
    if PASSED_OVER in rows_meant:
        kept = [position for position, row in enumerate(rows_meant) if row != PASSED_OVER]
        return RowLabels([rows_meant[position] for position in kept], entries.take(kept))
    return RowLabels(rows_meant, entries)


def _is_none(row: int | None) -> bool:
    return row is None


def _refuse_unclear(
    entries: LabelEntries, unclear: dict[str, tuple[int, ...]], folders: dict[str, str], names: Sequence[str]
) -> None:
    if not all(unclear.values()):
        raise InputError(_unknown_names(entries, {name for name, rows in unclear.items() if not rows}, names))
    _require_one_folder(entries, folders)
    name, rows = next(iter(unclear.items()))
    shown = ", ".join(in_one_line(names[row]) for row in rows[:N_SHOWN] if row != PASSED_OVER)
    raise InputError(
        f"{entries.place(entries.names.index(name))}: {len(rows)} images are called {quoted(name)} ({shown});"
        " give the path with its sub-folder"
    )


def _unknown_names(entries: LabelEntries, unknown_names: set[str], names: Sequence[str]) -> str:
    unknown = [position for position, name in enumerate(entries.names) if name in unknown_names]
    first, name = unknown[0], quoted(entries.names[unknown[0]])
    if len(unknown) == len(entries.names) > 1:
        return (
            f"{entries.path}: none of the {len(unknown)} names in it is among the {len(names)} images;"
            f" {entries.unit} {entries.lines[first]} has {name}, an image is called {quoted(names[0])}"
        )
    shown = ", ".join(in_one_line(name) for name in names[:N_SHOWN])
    others = f"; {len(unknown) - 1} more are not" if len(unknown) > 1 else ""
    return f"{entries.place(first)}: {name} is not among the {len(names)} images ({shown}, …){others}"


def _require_one_folder(entries: LabelEntries, folders: dict[str, str]) -> None:
    """A list may come from another machine, but then all its paths begin alike: `dogs/a.jpg` is not `a.jpg`.

    `folders` has the first name for each front that was left off.
    """
    moved = [folder for folder in folders if folder]
    if len(moved) > 1 or (moved and "" in folders and not _is_absolute(moved[0])):
        name = folders[moved[-1]]
        raise InputError(
            f"{entries.place(entries.names.index(name))}: {quoted(name)} is not among the images, and the paths in the"
            " file do not begin alike; give them as they lie below the picture folder"
        )


def _is_absolute(name: str) -> bool:
    return name.strip().startswith(("/", "\\")) or name.strip()[1:2] == ":"
