"""Labels of rows that have no names: a vector in an array file, or a text with one label a line or with row numbers."""

import re
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64, Shaped
from torch import Tensor

from laplacenet.data.classes import known_label, numbered
from laplacenet.data.images import UNKNOWN
from laplacenet.data.label_entries import LABEL_HEADINGS, LIST_SUFFIXES, is_json_lines, read_entries
from laplacenet.data.label_files import agreed
from laplacenet.data.names import quoted
from laplacenet.data.npz import open_npz, read_npy
from laplacenet.data.tables import SEPARATORS, read_text
from laplacenet.runtime import InputError

LABEL_KEYS = ("labels", "label", "y_train", "y", "targets", "target")
LABEL_SUFFIXES = (".npy", ".npz", *LIST_SUFFIXES)
_ROW = re.compile(r"(?:row )?([0-9]{1,18})")


class RowFinder:
    """Rows by number, from 0; `row 17` is 17."""

    def __init__(self, n: int) -> None:
        self.n = n

    def rows(self, name: str) -> list[int]:
        number = _ROW.fullmatch(name.strip().lower())
        return [int(number[1])] if number and int(number[1]) < self.n else []


def read_row_labels(path: Path, n: int) -> list[str | None]:
    """The labels of `n` rows, None where unknown: `.npy`, `.npz`, or a text with a line each or with row numbers."""
    suffix = path.suffix.lower()
    if suffix not in LABEL_SUFFIXES:
        raise InputError(f"{path}: labels are read from {' '.join(LABEL_SUFFIXES)} files")
    if suffix == ".npy":
        return vector_labels(read_npy(path), n, where=str(path))
    if suffix == ".npz":
        with open_npz(path) as arrays:
            key = named_key(list(arrays), LABEL_KEYS) or (next(iter(arrays)) if len(arrays) == 1 else None)
            if key is None:
                raise InputError(f"{path}: no array called {', '.join(LABEL_KEYS)}")
            vector = arrays[key]
        return vector_labels(vector, n, where=f"{path}: {key}")
    text = read_text(path)
    is_one_column = not any(mark in text for mark in SEPARATORS) and not is_json_lines(path, text)
    return _line_labels(text, n, where=path) if is_one_column else _numbered_labels(path, n)


def named_key(keys: list[str], accepted: tuple[str, ...]) -> str | None:
    """The first of the accepted names that a file has, in whatever case."""
    by_name = {key.lower(): key for key in keys}
    return next((by_name[name] for name in accepted if name in by_name), None)


def _line_labels(text: str, n: int, *, where: Path) -> list[str | None]:
    lines = [line.strip() for line in text.splitlines()]
    if lines and lines[0].lower() in LABEL_HEADINGS and lines.count(lines[0]) == 1:  # else it is a class of that name
        lines = lines[1:]
    while len(lines) > n and not lines[-1]:
        lines.pop()
    if len(lines) != n:
        raise InputError(
            f"{where}: {len(lines)} lines for {n} rows; give one label a line (empty for unknown),"
            " or row numbers and labels"
        )
    return [_spelled_out(line) for line in lines]


def _numbered_labels(path: Path, n: int) -> list[str | None]:
    finder = RowFinder(n)
    entries = read_entries(path, finder)
    for entry in entries:
        if not finder.rows(entry.name):
            raise InputError(f"{path}, line {entry.line}: {quoted(entry.name)} is no row number; rows are 0 to {n - 1}")
    label_of = agreed(((finder.rows(entry.name)[0], entry) for entry in entries), where=path)
    return [_spelled_out(label_of.get(row, "")) for row in range(n)]


def _spelled_out(text: str) -> str | None:
    return None if text.strip() == "None" else known_label(text)


def vector_labels(vector: Shaped[np.ndarray, "..."], n: int, *, where: str) -> list[str | None]:
    """Whole numbers or texts, one for each of `n` rows; −1, NaN, `None` and the empty text are unknown."""
    if vector.size != n or len(vector.shape) not in (1, 2) or len(vector) != n:
        raise InputError(f"{where}: expected {n} labels, one for each row; got {vector.dtype} {vector.shape}")
    flat, kind = vector.reshape(-1), vector.dtype.kind
    if kind in "iub":
        return [str(label) for label in flat.tolist()]
    if kind == "f":
        return [_whole(float(label), row, where=where) for row, label in enumerate(flat)]
    if kind == "U":
        return [_spelled_out(str(label)) for label in flat]
    raise InputError(f"{where}: labels are whole numbers or texts; got {vector.dtype}")


def _whole(label: float, row: int, *, where: str) -> str | None:
    if np.isnan(label):
        return None
    if not label.is_integer():
        raise InputError(f"{where}: row {row} has label {label}; expected whole numbers, NaN or -1 for unknown")
    return str(int(label))


def numbered_rows(
    labels: list[str | None], class_names: tuple[str, ...], *, where: str
) -> tuple[Int64[Tensor, " n"], tuple[str, ...]]:
    """The labels as numbers; where classes are named and labels are numbers, those are positions among the names."""
    values, names = numbered(labels, class_names, where=where)
    if not class_names or names == class_names:
        return values, names
    if not all(name.isdecimal() and int(name) < len(class_names) for name in names):
        outside = next(name for name in names if not name.isdecimal() or int(name) >= len(class_names))
        raise InputError(f"{where}: label {quoted(outside)} is none of the {len(class_names)} class_names")
    positions = torch.tensor([*(int(name) for name in names), UNKNOWN])
    return positions[values], class_names
