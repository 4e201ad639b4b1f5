"""Lines that give something a label, as CSV, TSV or JSON lines have them; what a name means is asked of a `Finder`."""

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from laplacenet.data.classes import known_label
from laplacenet.data.decoding import SUFFIXES
from laplacenet.data.names import in_one_line, quoted
from laplacenet.data.tables import SEPARATORS, read_text, split_rows
from laplacenet.runtime import InputError

FILE_HEADINGS = (
    *("path", "file", "filename", "file_name", "filepath", "file_path"),
    *("image", "image_path", "picture", "photo", "name"),
)
NAME_HEADINGS = (*FILE_HEADINGS, "row", "index", "id", "image_id")
LABEL_HEADINGS = ("label", "labels", "class", "class_name", "category", "target", "y")
JSON_LINES_SUFFIXES = (".jsonl", ".ndjson")
LIST_SUFFIXES = (".csv", ".tsv", ".txt", *JSON_LINES_SUFFIXES)
N_SAMPLED = 100
N_KEYS_SHOWN = 6


@dataclass(frozen=True)
class LabelEntry:
    """One line of a label file: what it names, and its label."""

    line: int
    name: str
    label: str


@runtime_checkable
class Finder(Protocol):
    """Knows what a name in a label file may mean."""

    def rows(self, name: str) -> list[int]: ...


def read_entries(path: Path, finder: Finder) -> list[LabelEntry]:
    """The lines with a label in a CSV, TSV (also with semicolons) or JSON-lines file; a heading is allowed."""
    text = read_text(path)
    if is_json_lines(path, text):
        return _json_entries(text, where=path)
    return _table_entries(_best_split(text, finder, where=path), finder, where=path)


def is_json_lines(path: Path, text: str) -> bool:
    return path.suffix.lower() in JSON_LINES_SUFFIXES or text.lstrip().startswith("{")


def _json_entries(text: str, *, where: Path) -> list[LabelEntry]:
    entries = []
    for line, content in enumerate(text.split("\n"), start=1):
        if content.strip():
            name, label = _json_entry(content, where=f"{where}, line {line}")
            entries += [] if label is None else [LabelEntry(line, name, label)]
    return entries


def _json_entry(content: str, *, where: str) -> tuple[str, str | None]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f'{where}: not a JSON object such as {{"path": "a.jpg", "label": "cat"}}') from error
    if not isinstance(found, dict):
        raise InputError(f"{where}: a JSON {type(found).__name__}; expected an object with a path and a label")
    by_key = {key.strip().lower(): value for key, value in found.items()}
    name = next((by_key[key] for key in NAME_HEADINGS if key in by_key), None)
    if name is None or isinstance(name, dict | list):
        keys = ", ".join(in_one_line(key) for key in list(found)[:N_KEYS_SHOWN])
        raise InputError(f"{where}: no path; its keys are {keys or 'none'}, expected path or file, and label")
    label = next((by_key[key] for key in LABEL_HEADINGS if key in by_key), None)
    return str(name), _json_label(label, where=where)


def _json_label(label: Any, *, where: str) -> str | None:
    if isinstance(label, bool):
        return json.dumps(label)
    if label is None or (isinstance(label, float) and math.isnan(label)):
        return None
    if isinstance(label, dict | list):
        raise InputError(f"{where}: its label is a JSON {type(label).__name__}; expected a text or a number")
    return known_label(str(label))


def _best_split(text: str, finder: Finder, *, where: Path) -> list[tuple[int, list[str]]]:
    """The table by the separator that brings out most names; a comma may stand in a name, a semicolon in a label."""
    candidates = [mark for mark in SEPARATORS if mark in text] or [","]
    if len(candidates) == 1:
        return list(split_rows(text, candidates[0], where=where))
    merits = {mark: _merit(text, mark, finder, where=where) for mark in candidates}
    return list(split_rows(text, max(candidates, key=merits.__getitem__), where=where))


def _merit(text: str, separator: str, finder: Finder, *, where: Path) -> tuple[int, int]:
    try:
        rows = [cells for _, cells in itertools.islice(split_rows(text, separator, where=where), N_SAMPLED)]
    except InputError:
        return (-1, -1)
    several = [cells for cells in rows if len(cells) > 1]
    return sum(any(finder.rows(cell) for cell in cells) for cells in several), len(several)


def _table_entries(rows: list[tuple[int, list[str]]], finder: Finder, *, where: Path) -> list[LabelEntry]:
    if not rows:
        return []
    is_heading = _is_heading(rows, finder)
    heading = rows[0][1] if is_heading else ["path", "label"]
    name_column, label_column = _columns(heading, where=where)
    entries = []
    for line, cells in rows[1:] if is_heading else rows:
        if len(cells) <= max(name_column, label_column):
            raise InputError(
                f"{where}, line {line}: expected a file name and a label, with a comma, semicolon or tab between;"
                f" got {quoted(','.join(cells))}"
            )
        if any(cell.strip() for cell in cells[len(heading) :]):
            remedy = "quote what holds a separator" if is_heading else "name the columns path and label in a first line"
            raise InputError(f"{where}, line {line}: {len(cells)} cells where {len(heading)} are expected; {remedy}")
        label = known_label(cells[label_column])
        entries += [] if label is None else [LabelEntry(line, cells[name_column], label)]
    return entries


def _is_heading(rows: Sequence[tuple[int, list[str]]], finder: Finder) -> bool:
    """Known words are; a line that names a file, found or not, or gives a label that others give too is none."""
    first = [cell.strip().lower() for cell in rows[0][1]]
    if any(cell in NAME_HEADINGS for cell in first) and any(cell in LABEL_HEADINGS for cell in first):
        return True
    if any(cell.endswith(SUFFIXES) for cell in first) or any(finder.rows(cell) for cell in rows[0][1]):
        return False
    return len(first) > 1 and all(cells[1:2] != rows[0][1][1:2] for _, cells in rows[1:])


def _columns(heading: list[str], *, where: Path) -> tuple[int, int]:
    """Where names and labels stand; of two columns the other one is what the known one is not."""
    words = [cell.strip().lower() for cell in heading]
    name = next((words.index(word) for word in NAME_HEADINGS if word in words), None)
    label = next((words.index(word) for word in LABEL_HEADINGS if word in words), None)
    if len(words) == 2:
        name = 1 - label if name is None and label is not None else name or 0
        return name, 1 - name
    if name is None or label is None:
        listed = ", ".join(in_one_line(cell) for cell in heading[:N_KEYS_SHOWN])
        raise InputError(f"{where}: its columns are {listed}; call one of them path and one label")
    return name, label
