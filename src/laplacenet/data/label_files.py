"""Label files: one or several that say of some pictures which class they show, found by file name and added up."""

import itertools
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from laplacenet.data.classes import in_order, joined_classes, without_fractions
from laplacenet.data.images import UNKNOWN, ImageSet
from laplacenet.data.label_entries import JSON_LINES_SUFFIXES, JSON_SUFFIX, LabelEntries, read_entries
from laplacenet.data.names import in_one_line, quoted
from laplacenet.data.picture_index import UNREADABLE, PictureFinder, PictureIndex, is_absolute
from laplacenet.runtime import InputError

N_SHOWN = 3

LabelFiles = str | Path | Sequence[str | Path] | None


@dataclass(frozen=True, eq=False)
class RowLabels:
    """The rows that one file labels, and where in it each label stands."""

    rows: list[int]
    entries: LabelEntries


@dataclass(frozen=True, eq=False)
class GivenLabels:
    """One label for each image, −1 where none is given; the names of the classes; warnings about the files."""

    labels: Int64[Tensor, " n"]
    class_names: tuple[str, ...]
    notes: tuple[str, ...] = ()


def read_labels(
    path: str | Path | Sequence[str | Path],
    image_set: ImageSet,
    *,
    root: Path | None = None,
    skipped: Collection[str] = (),
    merge_similar_classes: bool = False,
) -> GivenLabels:
    """The labels in one or several label files.

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
    labels, class_names = numbered_labels(
        given, len(image_set), image_set.class_names, merge_similar_classes=merge_similar_classes, where=str(paths[0])
    )
    return GivenLabels(labels, class_names, tuple(predicted_notes(given)))


def predicted_notes(given: Sequence[RowLabels], *, count_as: str = "given") -> list[str]:
    """A warning for each file with labels that a run predicted: corrected ones look like the others, so all count."""
    notes = []
    for entries in (labels.entries for labels in given):
        n_predicted, n = entries.n_predicted, len(entries.lines)
        if n_predicted:
            which = f"{n_predicted} of {n}" + (" (source graph or network)" if n_predicted < n else "")
            notes.append(
                f"{entries.path}: labels that a run predicted count as {count_as} here: {which};"
                " delete the rows that you have not checked"
            )
    return notes


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
        said, name = ", ".join(map(str, paths)), in_one_line(names[0])
        is_json = all(path.suffix.lower() in (JSON_SUFFIX, *JSON_LINES_SUFFIXES) for path in paths)
        example = json.dumps({"path": name, "label": "cat"}, ensure_ascii=False)
        like = f"objects such as {example}" if is_json else f"lines such as {name},cat"
        raise InputError(f"{said}: no labels; expected {like}")
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
    if merge_similar_classes:
        counts: Counter[str] = Counter()
        for label, count in written.items():
            counts[spelled[label] or ""] += count
        merged = joined_classes({name: counts[name] for name in [*class_names, *filter(None, counts)]})
        spelled = {label: merged.get(name or "", name) for label, name in spelled.items()}
        class_names = tuple(dict.fromkeys(merged.get(name, name) for name in class_names))
    used = {name for name in spelled.values() if name is not None}
    names = class_names if used <= set(class_names) else in_order(used)
    number = {name: position for position, name in enumerate(names)}
    number_of = {label: UNKNOWN if name is None else number[name] for label, name in spelled.items()}
    return _agreed(given, number_of, spelled, n), names


def _agreed(
    given: Sequence[RowLabels], number_of: dict[str, int], spelled: dict[str, str | None], n: int
) -> Int64[Tensor, " n"]:
    """One label a row; where two differ, both places are named."""
    texts = itertools.chain.from_iterable(labels.entries.labels for labels in given)
    numbers = np.fromiter(map(number_of.__getitem__, texts), np.int64)
    rows = np.fromiter(itertools.chain.from_iterable(labels.rows for labels in given), np.int64)
    is_known = numbers != UNKNOWN
    every = np.full(n, UNKNOWN)
    every[rows[is_known]] = numbers[is_known]
    if (every[rows] != numbers)[is_known].any():
        first: dict[int, int] = {}
        for position in np.flatnonzero(is_known).tolist():
            before = first.setdefault(int(rows[position]), position)
            if numbers[before] != numbers[position]:
                raise InputError(_contradiction(given, before, position, spelled))
    return torch.from_numpy(every)


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


def _resolved(path: Path, finder: PictureFinder) -> RowLabels:
    """Each line with its row; names that have no row or several are refused."""
    entries = read_entries(path, finder)
    lookup = finder.find_all(entries.names)
    if lookup.unresolved:
        _refuse_unresolved(entries, lookup.unresolved, lookup.first_names, finder.index.names)
    _require_one_folder(entries, lookup.first_names)
    rows = [row for row in lookup.rows if row is not None]
    if UNREADABLE in rows:
        kept = [position for position, row in enumerate(rows) if row != UNREADABLE]
        return RowLabels([rows[position] for position in kept], entries.take(kept))
    return RowLabels(rows, entries)


def _refuse_unresolved(
    entries: LabelEntries, unresolved: dict[str, tuple[int, ...]], folders: dict[str, str], names: Sequence[str]
) -> None:
    if not all(unresolved.values()):
        raise InputError(_unknown_names(entries, {name for name, rows in unresolved.items() if not rows}, names))
    _require_one_folder(entries, folders)
    name, rows = next(iter(unresolved.items()))
    shown = ", ".join(in_one_line(names[row]) for row in rows[:N_SHOWN] if row != UNREADABLE)
    raise InputError(
        f"{entries.place(entries.names.index(name))}: {len(rows)} images are called {quoted(name)} ({shown});"
        " give the path with its sub-folder"
    )


def _unknown_names(entries: LabelEntries, unknown_names: set[str], names: Sequence[str]) -> str:
    unknown = [position for position, name in enumerate(entries.names) if name in unknown_names]
    first, name = unknown[0], quoted(entries.names[unknown[0]])
    images = f"the {len(names)} images" if len(names) > 1 else "the images"
    if len(unknown) == len(entries.names) > 1:
        return (
            f"{entries.path}: none of the {len(unknown)} names in it is among {images};"
            f" {entries.unit} {entries.lines[first]} has {name}, an image is called {quoted(names[0])}"
        )
    shown = ", ".join(in_one_line(name) for name in names[:N_SHOWN]) + (", …" if len(names) > N_SHOWN else "")
    n_more = len(unknown) - 1
    others = f"; {n_more} more {'is' if n_more == 1 else 'are'} not" if n_more else ""
    return f"{entries.place(first)}: {name} is not among {images} ({shown}){others}"


def _require_one_folder(entries: LabelEntries, folders: dict[str, str]) -> None:
    """A list may come from another machine, but then all its paths begin alike: `dogs/a.jpg` is not `a.jpg`.

    `folders` has the first name for each prefix that was dropped.
    """
    moved = [folder for folder in folders if folder]
    if len(moved) > 1 or (moved and "" in folders and not is_absolute(moved[0])):
        name = folders[moved[-1]]
        raise InputError(
            f"{entries.place(entries.names.index(name))}: {quoted(name)} is not among the images, and the paths in the"
            " file do not begin alike; give them relative to the picture folder"
        )
