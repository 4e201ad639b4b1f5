"""Which pictures the names in a label file mean, in the ways that people write them, for a million names in a second.

A name is looked up as it stands; from the picture folder and from the label file's folder; without some of its front,
for a list may come from another machine; and, if it has no folder, among the pictures of all sub-folders, with or
without its suffix. Long lists are written in one way from beginning to end, so they are looked up part by part in
the way that the part before was found; `PictureFinder.find` is the rule that this follows.
"""

import itertools
import os
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath

from laplacenet.data.decoding import SUFFIXES

PASSED_OVER = -1
"""The row of a file that is there but could not be read: a label may name it."""
NAMES_PER_PART = 4096
DEEPEST_FRONT = 64


class RowsByName:
    """Which rows a name stands for. Nearly every name stands for one: a dictionary of numbers, made in one go."""

    def __init__(self, names: Sequence[str], rows: Sequence[int]) -> None:
        self.one = dict(zip(names, rows, strict=True))
        self.several: dict[str, list[int]] = {}
        if len(self.one) < len(names):
            repeated = {name for name, count in Counter(names).items() if count > 1}
            for name, row in zip(names, rows, strict=True):
                if name in repeated:
                    self.several.setdefault(name, []).append(row)
            for name in repeated:
                del self.one[name]

    def get(self, name: str) -> tuple[int, ...]:
        row = self.one.get(name)
        return tuple(self.several.get(name, ())) if row is None else (row,)


class PictureIndex:
    """Rows by path and by bare name, each made when it is first asked for."""

    def __init__(self, names: Sequence[str], skipped: Collection[str] = ()) -> None:
        self.names = names
        paths = [*names, *skipped]
        self.paths = paths if all(map(str.isascii, paths)) else list(map(composed, paths))
        self.rows = [*range(len(names)), *itertools.repeat(PASSED_OVER, len(skipped))]

    @cached_property
    def by_path(self) -> RowsByName:
        return RowsByName(self.paths, self.rows)

    @cached_property
    def folders(self) -> frozenset[str]:
        """All that stands before a last slash or backslash, with it."""
        if self.has_backslash:
            return frozenset(path[: folder_length(path)] for path in self.paths)
        return frozenset([path[: path.rfind("/") + 1] for path in self.paths])

    @cached_property
    def depth(self) -> int:
        return max((folder.count("/") + folder.count("\\") for folder in self.folders), default=0)

    @cached_property
    def has_backslash(self) -> bool:
        return any("\\" in path for path in self.paths)

    @cached_property
    def at_top(self) -> dict[str, int | None]:
        """Rows of what lies in no folder; None where a name stands for several."""
        return {path: self.by_path.one.get(path) for path in self.paths if "/" not in path}

    @cached_property
    def has_spaces_behind(self) -> bool:
        return any(path[-1:].isspace() for path in self.paths)

    def begins_with(self, front: str) -> bool:
        """Whether any picture lies below that folder."""
        return any(folder.startswith(front) for folder in self.folders)

    @cached_property
    def _lasts(self) -> list[str]:
        return [path[path.rfind("/") + 1 :] for path in self.paths]

    @cached_property
    def by_file_name(self) -> RowsByName:
        """Names with the suffix of a picture, without their folders."""
        return RowsByName(self._lasts, self.rows)

    @cached_property
    def by_stem(self) -> RowsByName:
        """Names without suffix, and the whole names of files that have no suffix of a picture."""
        return RowsByName(list(map(without_suffix, self._lasts)), self.rows)

    @cached_property
    def stems_with_suffix(self) -> frozenset[str]:
        """What `a.jpg.png` is called without its suffix could be the whole name of another picture."""
        stems = (without_suffix(last) for last in self._lasts if last.count(".") > 1)
        return frozenset(stem for stem in stems if has_suffix(stem))

    def by_name(self, name: str) -> tuple[int, ...]:
        """Rows of the pictures in any folder that are called so, with or without suffix."""
        if not has_suffix(name):
            return self.by_stem.get(name)
        return self.by_file_name.get(name) + (self.by_stem.get(name) if name in self.stems_with_suffix else ())

    def rows_by_name(self, names: list[str]) -> list[int | None]:
        """The row of each name that stands for one picture only; None for the others."""
        have_suffix = list(map(has_suffix, names))
        if all(have_suffix):
            found = list(map(self.by_file_name.one.get, names))
        elif any(have_suffix):
            return [rows[0] if len(rows := self.by_name(name)) == 1 else None for name in names]
        else:
            return list(map(self.by_stem.one.get, names))
        if self.stems_with_suffix:
            return [None if name in self.stems_with_suffix else row for name, row in zip(names, found, strict=True)]
        return found


@dataclass(frozen=True)
class FolderMeaning:
    """Which folders of the index a folder in a label file may be, if any picture lies there.

    `exact` is the folder as it is written, `below` are those to which it leads from the picture folder and from the
    label file's. `tails` are what may be left when some of its front is left off, each with that front. Where a name
    `is_bare`, without a folder, it may also be found in any sub-folder.
    """

    exact: str | None
    below: tuple[str, ...]
    tails: tuple[tuple[str, str], ...]
    is_bare: bool


Found = tuple[tuple[int, ...], str]
"""The rows that a name may mean, and the folders that had to be left off its front for it to be found."""


@dataclass(frozen=True)
class Spelling:
    """How some names are written: all with this front before their path in the index, or as bare names."""

    front: str = ""
    has_backslashes: bool = False
    has_spaces_behind: bool = False
    is_bare: bool = False


@dataclass(frozen=True, eq=False)
class Meant:
    """What the names of a list mean: one row each, None for those that are `unclear`, of which all rows are there.

    `first_names` has the first name for each front that was left off.
    """

    rows: list[int | None] = field(default_factory=list)
    unclear: dict[str, tuple[int, ...]] = field(default_factory=dict)
    first_names: dict[str, str] = field(default_factory=dict)


class PictureFinder:
    """Rows by file name, in the ways that people write one. What a folder may mean is worked out once for each."""

    def __init__(self, index: PictureIndex, *, root: Path | None, label_folder: Path) -> None:
        self.index = index
        self._roots = [] if root is None else _spellings(root)
        self._label_folders = _spellings(label_folder)
        self._meanings: dict[str, FolderMeaning] = {}
        self._spelling = Spelling()
        self._found: dict[str, Found] = {}

    def rows(self, name: str) -> tuple[int, ...]:
        return self.find(name)[0]

    def find(self, name: str) -> Found:
        """One name, by all the rules."""
        plain = composed(name)
        stripped = plain.strip()
        for spelling in (plain, stripped) if stripped != plain else (plain,):
            cut = folder_length(spelling)
            meaning, last = self._meaning(spelling[:cut]), spelling[cut:]
            if found := self._find_below(meaning, last):
                return found, ""
        for tail, left_off in meaning.tails:
            if rows := self.index.by_path.get(tail + last):
                return rows, left_off
        # a bare name reaches into sub-folders, a path with folders that do not exist does not
        return (self.index.by_name(last) if meaning.is_bare else ()), ""

    def find_all(self, names: list[str]) -> Meant:
        """All names of a list, each as `find` finds it."""
        meant = Meant()
        if names:
            self._find_one(names[0], meant)
        for start in range(0, len(names), NAMES_PER_PART):
            part = names[start : start + NAMES_PER_PART]
            rows = self._find_alike(part if all(map(str.isascii, part)) else list(map(composed, part)))
            if "" not in meant.first_names and not self._spelling.front and part:
                plain = (name for name, row in zip(part, rows, strict=True) if row is not None)
                meant.first_names.update(zip(("",), itertools.filterfalse(is_absolute, plain), strict=False))
            if None in rows:
                rows = [
                    self._find_one(name, meant) if row is None else row for name, row in zip(part, rows, strict=True)
                ]
            meant.rows.extend(rows)
        return meant

    def _find_alike(self, names: list[str]) -> list[int | None]:
        """The rows of the names that are written like those before; None for the others."""
        spelling = self._spelling
        if spelling.has_spaces_behind:
            names = list(map(str.rstrip, names))
        if spelling.is_bare:
            return self._find_bare(names)
        find = self.index.by_path.one.get
        if spelling.has_backslashes:
            names = [name.replace("\\", "/") for name in names]
        if not spelling.front:
            return list(map(find, names))
        front, n = spelling.front, len(spelling.front)
        return [find(name[n:]) if name.startswith(front) else None for name in names]

    def _find_bare(self, names: list[str]) -> list[int | None]:
        if list(map(str.strip, names)) != names:
            return [None] * len(names)
        found = self.index.rows_by_name(names)
        if "" in self.index.folders:  # a picture that lies in no sub-folder comes first
            top = self.index.at_top
            return [top.get(name, row) for name, row in zip(names, found, strict=True)]
        return found

    def _find_one(self, name: str, meant: Meant) -> int | None:
        if name not in self._found:
            self._found[name] = self.find(name)
            self._learn_from(composed(name), self._found[name][0])
        rows, left_off = self._found[name]
        if len(rows) != 1:
            meant.unclear[name] = rows
        if left_off not in meant.first_names and (left_off or not is_absolute(name)):
            meant.first_names[left_off] = name
        return rows[0] if len(rows) == 1 else None

    def _learn_from(self, name: str, rows: tuple[int, ...]) -> None:
        """Look up what follows in the way in which this name was found, if no other could be meant by that."""
        if len(rows) != 1 or rows[0] == PASSED_OVER or self.index.has_backslash:
            return
        path, plain = self.index.paths[rows[0]], name.replace("\\", "/")
        has_spaces = not plain.endswith(path) and not self.index.has_spaces_behind
        plain = plain.rstrip() if has_spaces else plain
        front = plain.removesuffix(path)
        if plain.endswith(path) and (not front or front.endswith("/")) and self._is_certain(front):
            self._spelling = Spelling(front, has_backslashes="\\" in name, has_spaces_behind=has_spaces)
        elif "/" not in plain and set(self._meaning("").below) <= {""}:
            self._spelling = Spelling(has_spaces_behind=has_spaces, is_bare=True)

    def _is_certain(self, front: str) -> bool:
        """Whether what stands behind this front can only be a path of the index: no picture lies below the front."""
        below = self._folders_below(front)
        parts = () if "" in below else PurePosixPath(front).parts
        if len(parts) > DEEPEST_FRONT:
            return False
        tails = ("".join(f"{part}/" for part in parts[start:]) for start in range(len(parts)))
        return not any(map(self.index.begins_with, {front, *below, *tails} - {""}))

    def _find_below(self, meaning: FolderMeaning, last: str) -> tuple[int, ...]:
        """Rows of the path as it stands, or to which it leads from the picture folder and from the label file's."""
        if meaning.exact is not None and (rows := self.index.by_path.get(meaning.exact + last)):
            return rows
        return tuple(dict.fromkeys(row for folder in meaning.below for row in self.index.by_path.get(folder + last)))

    def _meaning(self, folder: str) -> FolderMeaning:
        meaning = self._meanings.get(folder)
        return meaning or self._meanings.setdefault(folder, self._work_out(folder))

    def _work_out(self, folder: str) -> FolderMeaning:
        known = self.index.folders
        cut = folder.rfind("/") + 1
        below = [composed(path) + folder[cut:] for path in self._folders_below(folder[:cut])]
        parts = PurePosixPath(folder.replace("\\", "/")).parts
        tails = [
            ("".join(f"{part}/" for part in parts[start:]), start)
            for start in range(max(0, len(parts) - self.index.depth), len(parts) + 1)
        ]
        return FolderMeaning(
            folder if folder in known else None,
            tuple(path for path in dict.fromkeys(below) if path in known),
            tuple((tail, "/".join(parts[:start])) for tail, start in tails if tail in known),
            is_bare=not parts,
        )

    def _folders_below(self, folder: str) -> list[str]:
        if not self._roots or "\0" in folder:
            return []
        starts = [*self._roots, *self._label_folders]
        full = dict.fromkeys(os.path.normpath(os.path.join(start, folder)) for start in starts)  # noqa: PTH118
        inside = (
            path.removeprefix(root).strip("/")
            for path in full
            for root in self._roots
            if f"{path}/".startswith(root.rstrip("/") + "/")
        )
        return list(dict.fromkeys(f"{below}/" if below else "" for below in inside))


def folder_length(name: str) -> int:
    """How much of a name is its folder: up to the last slash or backslash."""
    return max(name.rfind("/"), name.rfind("\\")) + 1


def is_absolute(name: str) -> bool:
    return name.strip().startswith(("/", "\\")) or name.strip()[1:2] == ":"


def composed(name: str) -> str:
    """One spelling for letters with accents: some systems store them in two characters, most lists in one."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def has_suffix(name: str) -> bool:
    return _is_suffix(name[name.rfind(".") :])


def without_suffix(name: str) -> str:
    cut = name.rfind(".")
    return name[:cut] if _is_suffix(name[cut:]) else name


@lru_cache(maxsize=1024)
def _is_suffix(ending: str) -> bool:
    return ending.lower() in SUFFIXES


def _spellings(folder: Path) -> list[str]:
    """As it was named and as it really lies: a list may follow links or not."""
    return list(dict.fromkeys([os.path.normpath(folder.absolute()), str(folder.resolve())]))
