"""Labels of rows of an array: a vector, a text with one label a line, or a table with row numbers or file names."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from laplacenet.data.classes import known_label
from laplacenet.data.files import SEPARATORS, read_text
from laplacenet.data.images import UNKNOWN
from laplacenet.data.label_entries import (
    LABEL_HEADINGS,
    LIST_SUFFIXES,
    LabelEntries,
    is_json_lines,
    is_json_list,
    read_entries,
)
from laplacenet.data.label_files import RowLabels, labels_by_name
from laplacenet.data.names import quoted
from laplacenet.data.npz import open_npz, read_npy
from laplacenet.data.picture_index import PictureFinder, PictureIndex
from laplacenet.runtime import InputError

LABEL_KEYS = ("labels", "label", "y_train", "y", "targets", "target")
LABEL_SUFFIXES = (".npy", ".npz", *LIST_SUFFIXES)
_ROW = re.compile(r"(?:row )?([0-9]{1,18})")


class RowFinder:
    """Rows by number, from 0; `row 17` is 17."""

    def __init__(self, n: int) -> None:
        self.n = n

    def rows(self, name: str) -> tuple[int, ...]:
        number = _ROW.fullmatch(name.strip().lower())
        return (int(number[1]),) if number and int(number[1]) < self.n else ()


def read_row_labels(path: Path, n: int, names: Sequence[str] | None = None) -> RowLabels:
    """The labels of some of `n` rows: a vector, a text with a line each, or a table by row number or by file name.

    `names` are the file names that the rows came from, where they are known.
    """
    suffix = path.suffix.lower()
    if suffix not in LABEL_SUFFIXES:
        raise InputError(f"{path}: labels are read from {' '.join(LABEL_SUFFIXES)} files")
    if suffix == ".npy":
        return vector_labels(read_npy(path), n, where=path)
    if suffix == ".npz":
        with open_npz(path) as arrays:
            key = named_key(list(arrays), LABEL_KEYS) or (next(iter(arrays)) if len(arrays) == 1 else None)
            if key is None:
                raise InputError(f"{path}: no array called {', '.join(LABEL_KEYS)}")
            vector = arrays[key]
        return vector_labels(vector, n, where=path)
    text = read_text(path)
    is_json = is_json_lines(path, text) or is_json_list(path, text)
    if not is_json and not any(mark in text for mark in SEPARATORS):
        return _line_labels(text, n, where=path)
    if names is not None and _names_pictures(path, names, n):
        return labels_by_name([path], names, root=None)[0]
    return _numbered_labels(path, n)


def _names_pictures(path: Path, names: Sequence[str], n: int) -> bool:
    """Whether a table goes by file name: unless all that it names are row numbers."""
    finder = RowFinder(n)
    pictures = PictureFinder(PictureIndex(names), root=None, label_folder=path.parent)
    found = dict.fromkeys(read_entries(path, pictures).names)
    return any(pictures.rows(name) for name in found) or not all(finder.rows(name) for name in found)


def named_key(keys: list[str], accepted: tuple[str, ...]) -> str | None:
    """The first of the accepted names that a file has, in whatever case."""
    by_name = {key.lower(): key for key in keys}
    return next((by_name[name] for name in accepted if name in by_name), None)


def _line_labels(text: str, n: int, *, where: Path) -> RowLabels:
    lines = [line.strip() for line in text.splitlines()]
    is_headed = bool(lines) and lines[0].lower() in LABEL_HEADINGS and lines.count(lines[0]) == 1
    if is_headed:  # else it is a class of that name
        lines = lines[1:]
    while len(lines) > n and not lines[-1]:
        lines.pop()
    if len(lines) != n:
        raise InputError(
            f"{where}: {len(lines)} lines for {n} rows; give one label a line (empty for unknown),"
            " or row numbers and labels"
        )
    return _some_rows(where, list(range(n)), lines, first_line=2 if is_headed else 1, unit="line")


def _numbered_labels(path: Path, n: int) -> RowLabels:
    finder = RowFinder(n)
    entries = read_entries(path, finder)
    found = {name: finder.rows(name) for name in dict.fromkeys(entries.names)}
    for name, rows in found.items():
        if not rows:
            place = entries.place(entries.names.index(name))
            raise InputError(f"{place}: {quoted(name)} is not a row number; rows are 0 to {n - 1}")
    known = entries.take([position for position, label in enumerate(entries.labels) if label != "None"])
    return RowLabels([found[name][0] for name in known.names], known)


def _spelled_out(text: str) -> str | None:
    return None if text.strip() == "None" else known_label(text)


def _some_rows(path: Path, rows: list[int], texts: list[str], *, first_line: int = 0, unit: str = "row") -> RowLabels:
    """Of all rows those that have a label."""
    known = {text: _spelled_out(text) for text in set(texts)}
    pairs = [(row, label) for row, text in zip(rows, texts, strict=True) if (label := known[text]) is not None]
    found = [row for row, _ in pairs]
    names = [f"row {row}" for row in found]
    return RowLabels(
        found, LabelEntries(path, [row + first_line for row in found], names, [label for _, label in pairs], unit)
    )


def vector_labels(vector: Shaped[np.ndarray, "..."], n: int, *, where: Path) -> RowLabels:
    """Whole numbers or texts, one for each of `n` rows; −1, NaN, `None` and the empty text are unknown."""
    if vector.size != n or len(vector.shape) not in (1, 2) or len(vector) != n:
        raise InputError(f"{where}: expected {n} labels, one for each row; got {vector.dtype} {vector.shape}")
    flat, kind = vector.reshape(-1), vector.dtype.kind
    if kind not in "iufbU":
        raise InputError(f"{where}: labels are whole numbers or texts; got {vector.dtype}")
    rows = np.arange(n)
    if kind in "iuf":
        _require_numbers(flat, where=where)
        rows = np.flatnonzero(~np.isnan(flat) & (flat != UNKNOWN))
        flat = flat[rows].astype(np.int64)
    values, positions = np.unique(flat, return_inverse=True)
    texts = [str(value) for value in values.tolist()]
    return _some_rows(where, rows.tolist(), [texts[position] for position in positions.reshape(-1).tolist()])


def _require_numbers(labels: Shaped[np.ndarray, " n"], *, where: Path) -> None:
    """Whole numbers from −1, or NaN. An unsigned −1 has become the largest number that its type holds."""
    kind = labels.dtype.kind
    if kind == "u" and labels.dtype.itemsize > 1:  # of bytes, 255 may well be a class
        _refuse_rows(labels, labels == np.iinfo(labels.dtype).max, "-1 as an unsigned number; save int64", where=where)
    is_whole = np.isnan(labels) | (np.floor(labels) == labels) if kind == "f" else np.ones(len(labels), bool)
    accepted = "expected whole numbers, NaN or -1 for unknown"
    _refuse_rows(labels, ~is_whole | (labels >= 2.0**63), accepted, where=where)
    _refuse_rows(labels, labels < UNKNOWN, "numbers are 0 and above, -1 for unknown", where=where)


def _refuse_rows(labels: Shaped[np.ndarray, " n"], is_odd: Shaped[np.ndarray, " n"], why: str, *, where: Path) -> None:
    if is_odd.any():
        row = int(is_odd.argmax())
        raise InputError(f"{where}: row {row} has label {labels[row]}; {why}")
