"""Find the pictures that the names in a label file refer to, a million names in a second.

A name is looked up as it is written; relative to the picture folder and to the label file's folder; without its leading
folders, since a list may come from another machine; and, if it has no folder, among the pictures of all sub-folders,
with or without suffix. `PictureFinder.find` does this for one name. Long lists usually spell all names in the same way,
so `PictureFinder.find_all` looks names up in batches by the spelling that worked before, with the same result.
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

UNREADABLE = -1
"""The row of a file that exists but could not be read; labels may still name it."""
NAMES_PER_BATCH = 4096
DEEPEST_PREFIX = 64


class RowsByName:
    """Maps a name to its rows. Nearly every name has one row, so those are in a plain dictionary, which is fast."""

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
    """Rows by path, by file name and by stem; each table is built when it is first needed."""

    def __init__(self, names: Sequence[str], skipped: Collection[str] = ()) -> None:
        self.names = names
        paths = [*names, *skipped]
        self.paths = paths if all(map(str.isascii, paths)) else list(map(to_nfc, paths))
        self.rows = [*range(len(names)), *itertools.repeat(UNREADABLE, len(skipped))]

    @cached_property
    def by_path(self) -> RowsByName:
        return RowsByName(self.paths, self.rows)

    @cached_property
    def folders(self) -> frozenset[str]:
        """The folders of all pictures, each with its final slash or backslash."""
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
    def top_level(self) -> dict[str, int | None]:
        """Rows of the pictures outside any sub-folder; None if several have the same name."""
        return {path: self.by_path.one.get(path) for path in self.paths if "/" not in path}

    @cached_property
    def has_trailing_spaces(self) -> bool:
        return any(path[-1:].isspace() for path in self.paths)

    def has_below(self, prefix: str) -> bool:
        """Whether any picture is below that folder."""
        return any(folder.startswith(prefix) for folder in self.folders)

    @cached_property
    def _file_names(self) -> list[str]:
        return [path[path.rfind("/") + 1 :] for path in self.paths]

    @cached_property
    def by_file_name(self) -> RowsByName:
        """By name without folder, with suffix."""
        return RowsByName(self._file_names, self.rows)

    @cached_property
    def by_stem(self) -> RowsByName:
        """By name without folder and suffix; by the whole name if it has no picture suffix."""
        return RowsByName(list(map(without_suffix, self._file_names)), self.rows)

    @cached_property
    def stems_with_suffix(self) -> frozenset[str]:
        """Stems that look like whole names: `a.jpg.png` without its suffix could be another picture's name."""
        stems = (without_suffix(last) for last in self._file_names if last.count(".") > 1)
        return frozenset(stem for stem in stems if has_suffix(stem))

    def by_name(self, name: str) -> tuple[int, ...]:
        """Rows of the pictures of this name in any folder, with or without suffix."""
        if not has_suffix(name):
            return self.by_stem.get(name)
        return self.by_file_name.get(name) + (self.by_stem.get(name) if name in self.stems_with_suffix else ())

    def rows_by_name(self, names: list[str]) -> list[int | None]:
        """The row of each name that belongs to exactly one picture; None for the others."""
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
class FolderCandidates:
    """The folders of the index that a folder in a label file may refer to.

    `exact` is the folder as it is written; `below` are the folders it refers to relative to the picture folder and to
    the label file's. `tails` are what remains of it without some of its leading folders, each with those folders. Names
    without a folder (`is_bare`) may also be found in any sub-folder.
    """

    exact: str | None
    below: tuple[str, ...]
    tails: tuple[tuple[str, str], ...]
    is_bare: bool


Found = tuple[tuple[int, ...], str]
"""The rows that a name may refer to, and the leading folders that had to be dropped to find it."""


@dataclass(frozen=True)
class Spelling:
    """How names are written: their path in the index after this prefix, or bare file names."""

    prefix: str = ""
    has_backslashes: bool = False
    has_trailing_spaces: bool = False
    is_bare: bool = False


@dataclass(frozen=True, eq=False)
class FoundNames:
    """One row for each name of a list; None for those that are `unresolved`, which have no row or several.

    `first_names` has the first name for each prefix that was dropped.
    """

    rows: list[int | None] = field(default_factory=list)
    unresolved: dict[str, tuple[int, ...]] = field(default_factory=dict)
    first_names: dict[str, str] = field(default_factory=dict)


class PictureFinder:
    """Finds rows by names as people write them. The candidates of a folder are computed once."""

    def __init__(self, index: PictureIndex, *, root: Path | None, label_folder: Path) -> None:
        self.index = index
        self._roots = [] if root is None else _spellings(root)
        self._label_folders = _spellings(label_folder)
        self._candidates: dict[str, FolderCandidates] = {}
        self._spelling = Spelling()
        self._found: dict[str, Found] = {}

    def rows(self, name: str) -> tuple[int, ...]:
        return self.find(name)[0]

    def find(self, name: str) -> Found:
        """Look one name up by all rules."""
        plain = to_nfc(name)
        stripped = plain.strip()
        for spelling in (plain, stripped) if stripped != plain else (plain,):
            cut = folder_length(spelling)
            candidates, last = self._candidates_of(spelling[:cut]), spelling[cut:]
            if found := self._find_below(candidates, last):
                return found, ""
        for tail, dropped in candidates.tails:
            if rows := self.index.by_path.get(tail + last):
                return rows, dropped
        # a bare name is searched for in sub-folders; a path whose folders do not exist is not
        return (self.index.by_name(last) if candidates.is_bare else ()), ""

    def find_all(self, names: list[str]) -> FoundNames:
        """Look up all names of a list, with the same result as `find` for each."""
        lookup = FoundNames()
        if names:
            self._find_one(names[0], lookup)
        for start in range(0, len(names), NAMES_PER_BATCH):
            batch = names[start : start + NAMES_PER_BATCH]
            rows = self._find_by_spelling(batch if all(map(str.isascii, batch)) else list(map(to_nfc, batch)))
            if "" not in lookup.first_names and not self._spelling.prefix and batch:
                plain = (name for name, row in zip(batch, rows, strict=True) if row is not None)
                lookup.first_names.update(zip(("",), itertools.filterfalse(is_absolute, plain), strict=False))
            if None in rows:
                rows = [
                    self._find_one(name, lookup) if row is None else row for name, row in zip(batch, rows, strict=True)
                ]
            lookup.rows.extend(rows)
        return lookup

    def _find_by_spelling(self, names: list[str]) -> list[int | None]:
        """The rows of the names that are spelled like those before; None for the others."""
        spelling = self._spelling
        if spelling.has_trailing_spaces:
            names = list(map(str.rstrip, names))
        if spelling.is_bare:
            return self._find_bare(names)
        find = self.index.by_path.one.get
        if spelling.has_backslashes:
            names = [name.replace("\\", "/") for name in names]
        if not spelling.prefix:
            return list(map(find, names))
        prefix, n = spelling.prefix, len(spelling.prefix)
        return [find(name[n:]) if name.startswith(prefix) else None for name in names]

    def _find_bare(self, names: list[str]) -> list[int | None]:
        if list(map(str.strip, names)) != names:
            return [None] * len(names)
        found = self.index.rows_by_name(names)
        if "" in self.index.folders:  # a picture outside any sub-folder comes first
            top = self.index.top_level
            return [top.get(name, row) for name, row in zip(names, found, strict=True)]
        return found

    def _find_one(self, name: str, lookup: FoundNames) -> int | None:
        if name not in self._found:
            self._found[name] = self.find(name)
            self._remember_spelling(to_nfc(name), self._found[name][0])
        rows, dropped = self._found[name]
        if len(rows) != 1:
            lookup.unresolved[name] = rows
        if dropped not in lookup.first_names and (dropped or not is_absolute(name)):
            lookup.first_names[dropped] = name
        return rows[0] if len(rows) == 1 else None

    def _remember_spelling(self, name: str, rows: tuple[int, ...]) -> None:
        """Look up the next names as this one was found, if that spelling is unambiguous."""
        if len(rows) != 1 or rows[0] == UNREADABLE or self.index.has_backslash:
            return
        path, plain = self.index.paths[rows[0]], name.replace("\\", "/")
        has_spaces = not plain.endswith(path) and not self.index.has_trailing_spaces
        plain = plain.rstrip() if has_spaces else plain
        prefix = plain.removesuffix(path)
        if plain.endswith(path) and (not prefix or prefix.endswith("/")) and self._is_unambiguous(prefix):
            self._spelling = Spelling(prefix, has_backslashes="\\" in name, has_trailing_spaces=has_spaces)
        elif "/" not in plain and set(self._candidates_of("").below) <= {""}:
            self._spelling = Spelling(has_trailing_spaces=has_spaces, is_bare=True)

    def _is_unambiguous(self, prefix: str) -> bool:
        """Whether what follows this prefix can only be a path of the index: no picture is below the prefix."""
        below = self._folders_below(prefix)
        parts = () if "" in below else PurePosixPath(prefix).parts
        if len(parts) > DEEPEST_PREFIX:
            return False
        tails = ("".join(f"{part}/" for part in parts[start:]) for start in range(len(parts)))
        return not any(map(self.index.has_below, {prefix, *below, *tails} - {""}))

    def _find_below(self, candidates: FolderCandidates, last: str) -> tuple[int, ...]:
        """Rows of the path as it is written, or else relative to the picture folder and to the label file's."""
        if candidates.exact is not None and (rows := self.index.by_path.get(candidates.exact + last)):
            return rows
        return tuple(dict.fromkeys(row for folder in candidates.below for row in self.index.by_path.get(folder + last)))

    def _candidates_of(self, folder: str) -> FolderCandidates:
        candidates = self._candidates.get(folder)
        return candidates or self._candidates.setdefault(folder, self._compute_candidates(folder))

    def _compute_candidates(self, folder: str) -> FolderCandidates:
        known = self.index.folders
        cut = folder.rfind("/") + 1
        below = [to_nfc(path) + folder[cut:] for path in self._folders_below(folder[:cut])]
        parts = PurePosixPath(folder.replace("\\", "/")).parts
        tails = [
            ("".join(f"{part}/" for part in parts[start:]), start)
            for start in range(max(0, len(parts) - self.index.depth), len(parts) + 1)
        ]
        return FolderCandidates(
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
    """The length of a name's folder, up to and with the last slash or backslash."""
    return max(name.rfind("/"), name.rfind("\\")) + 1


def is_absolute(name: str) -> bool:
    return name.strip().startswith(("/", "\\")) or name.strip()[1:2] == ":"


def to_nfc(name: str) -> str:
    """The name in Unicode's NFC: some systems store an accented letter as two characters, most lists as one."""
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
    """The path as given and with links resolved: a list may use either."""
    return list(dict.fromkeys([os.path.normpath(folder.absolute()), str(folder.resolve())]))
