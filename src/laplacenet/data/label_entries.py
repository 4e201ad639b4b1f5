"""Label files as tables or JSON: which line gives which name which label. What a name means, a `Finder` knows.

CSV, TSV (also with semicolons), JSON lines, a JSON list, and Label Studio's exports (CSV, JSON and JSON-MIN) are read.
A heading may stand anywhere, so files that were joined end to end are read part by part.
"""

import functools
import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from urllib.parse import unquote

from laplacenet.data.classes import known_label
from laplacenet.data.decoding import SUFFIXES
from laplacenet.data.files import SEPARATORS, read_text, split_parts, split_rows
from laplacenet.data.names import in_one_line, quoted
from laplacenet.runtime import InputError
from laplacenet.runtime.csv_files import unescaped

FILE_HEADINGS = (
    *("path", "file", "filename", "file_name", "filepath", "file_path"),
    *("image", "image_path", "picture", "photo", "name"),
)
NAME_HEADINGS = (*FILE_HEADINGS, "row", "index", "id", "image_id")
LABEL_HEADINGS = ("label", "labels", "class", "class_name", "category", "target", "y", "choice", "choices")
SOURCE, MARGIN = "source", "margin"
PREDICTED = ("graph", "network")
"""What `labels.csv` has in the column `source` of labels that were not given; `predict` writes `margin` without it."""
JSON_LINES_SUFFIXES = (".jsonl", ".ndjson")
JSON_SUFFIX = ".json"
LIST_SUFFIXES = (".csv", ".tsv", ".txt", JSON_SUFFIX, *JSON_LINES_SUFFIXES)
N_SAMPLED = 100
LINES_PER_PART = 1000
MOST_KINDS = 1000
"""Of objects with other keys: so many are remembered."""
N_KEYS_SHOWN = 6
# as headings are written: what a row must hold to be looked at as one
_LABEL_WORDS = frozenset(
    spelling for word in LABEL_HEADINGS for spelling in (word, word.capitalize(), word.upper(), f" {word}")
)
_JSON_SPACE = " \t\n\r"
_SPACE = re.compile(f"[{_JSON_SPACE}]*")
_JSON_LIST = re.compile(r"\s*\[\s*[{\]]")
_ADDRESSES = ("/data/local-files", "/data/upload/")
_LOCAL_FILE = re.compile(r"(?:https?://[^/]*)?/data/local-files/?\?(?:.*&)?d=([^&]+)")
_UPLOADED = re.compile(r"(?:(?:https?://[^/]*)?/data/upload/(?:[0-9]+/)?)(?:[0-9a-f]{8}-)?([^/]+)")


@dataclass(frozen=True, eq=False)
class LabelEntries:
    """The lines of a file that give a label: column by column, for there may be millions.

    `predicted` are the lines whose label a run predicted, as the file itself says.
    """

    path: Path
    lines: list[int]
    names: list[str]
    labels: list[str]
    unit: str = "line"
    predicted: Set[int] = frozenset()

    @property
    def n_predicted(self) -> int:
        return sum(line in self.predicted for line in self.lines) if self.predicted else 0

    def place(self, position: int) -> str:
        return f"{self.path}, {self.unit} {self.lines[position]}"

    def take(self, positions: Sequence[int]) -> "LabelEntries":
        return replace(
            self,
            lines=[self.lines[position] for position in positions],
            names=[self.names[position] for position in positions],
            labels=[self.labels[position] for position in positions],
        )


@runtime_checkable
class Finder(Protocol):
    """Knows what a name in a label file may mean."""

    def rows(self, name: str) -> Sequence[int]: ...


def read_entries(path: Path, finder: Finder) -> LabelEntries:
    """The lines with a label; a heading is allowed."""
    text = read_text(path)
    unit = "line"
    if is_json_list(path, text):
        unit, found = "item", _list_entries(text, where=path)
    elif is_json_lines(path, text):
        found = _json_entries(_json_lines(text, where=path), where=path, unit=unit)
    else:
        found = _table_entries(text, finder, where=path)
    lines, names, labels, predicted = found
    return _labeled(LabelEntries(path, lines, names, labels, unit, predicted), finder, text)


def is_json_lines(path: Path, text: str) -> bool:
    return path.suffix.lower() in JSON_LINES_SUFFIXES or text.lstrip().startswith("{")


def is_json_list(path: Path, text: str) -> bool:
    return path.suffix.lower() == JSON_SUFFIX or _JSON_LIST.match(text) is not None


def _labeled(entries: LabelEntries, finder: Finder, text: str) -> LabelEntries:
    """Those with a known label, what spreadsheets and Label Studio add to names taken off."""
    known = {label: known_label(unescaped(label)) for label in set(entries.labels)}
    if None in known.values():
        entries = entries.take([i for i, label in enumerate(entries.labels) if known[label] is not None])
    names, labels = entries.names, [known[label] or "" for label in entries.labels]
    if "'" in text:
        names = [_unescaped_name(name, finder) if name[:1] == "'" else name for name in names]
    if any(address in text for address in _ADDRESSES):
        names = [_local_name(name, finder) for name in names]
    return replace(entries, names=names, labels=labels)


def _unescaped_name(name: str, finder: Finder) -> str:
    """Without the apostrophe that `escaped` puts in front, unless there is one in the name of a file."""
    inner = unescaped(name)
    return name if inner != name and finder.rows(name) and not finder.rows(inner) else inner


def _local_name(name: str, finder: Finder) -> str:
    """A picture's path out of the address under which Label Studio serves it."""
    if served := _LOCAL_FILE.fullmatch(name.strip()):
        return unquote(served[1])
    uploaded = _UPLOADED.fullmatch(name.strip())
    return unquote(uploaded[1]) if uploaded and not finder.rows(name) else name


# JSON

Columns = tuple[list[int], list[str], list[str], set[int]]
"""Of each line with a label its number, the name and the label; and the lines that a run predicted."""


@dataclass(frozen=True)
class Kind:
    """Objects with the same keys, first met in this line: under which of them they have their name, their label and, if
    at all, where it comes from. A task of Label Studio has its label elsewhere."""

    line: int
    name: str | None
    label: str | None
    origin: str | None
    is_task: bool

    @classmethod
    def of(cls, keys: tuple[str, ...], line: int) -> "Kind":
        by_word = {key.strip().lower(): key for key in keys}
        label = next((by_word[word] for word in LABEL_HEADINGS if word in by_word), None)
        origin = by_word.get(SOURCE, by_word.get(MARGIN))
        return cls(line, _name_key(keys), label, origin, is_task="annotations" in by_word)

    @cached_property
    def is_plain(self) -> bool:
        """Whether no closer look is needed."""
        return self.name is not None and self.label is not None and not self.is_task


def _json_lines(text: str, *, where: Path) -> Iterator[tuple[int, Any]]:
    lines = text.split("\n")
    for start in range(0, len(lines), LINES_PER_PART):
        part = list(map(str.strip, lines[start : start + LINES_PER_PART]))
        numbers = [start + place for place, line in enumerate(part, start=1) if line]
        objects = list(filter(None, part))
        if (found := _joined_objects(objects)) is not None:
            yield from zip(numbers, found, strict=True)
            continue
        for number, line in zip(numbers, objects, strict=True):
            yield number, _json_object(line, where=f"{where}, line {number}")


def _joined_objects(objects: list[str]) -> list[Any] | None:
    """Many at once, which is several times faster than one by one; None where they must be looked at singly."""
    if not all(content[0] == "{" and content[-1] == "}" for content in objects):
        return None
    try:
        found: list[Any] = json.loads("[" + ",".join(objects) + "]")
    except (ValueError, RecursionError):
        return None
    return found if len(found) == len(objects) else None


def _json_object(line: str, *, where: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f'{where}: not a JSON object such as {{"path": "a.jpg", "label": "cat"}}') from error


def _json_entries(items: Iterator[tuple[int, Any]], *, where: Path, unit: str) -> Columns:
    lines, names, labels, predicted = list[int](), list[str](), list[str](), set[int]()
    known: dict[tuple[str, ...], Kind] = {}
    for line, item in items:
        keys = tuple(item) if isinstance(item, dict) else ()
        kind = known[keys] if keys in known else _kind(known, keys, line)
        if kind.is_plain:
            if kind.origin is not None and _is_predicted(kind.origin, item[kind.origin]):
                predicted.add(line)
            name, label = item[kind.name], item[kind.label]
            if type(name) is type(label) is str:  # nearly all of a million are
                lines.append(line)
                names.append(name)
                labels.append(label)
                continue
        for name, label in _json_labels(item, where=f"{where}, {unit} {line}"):
            lines.append(line)
            names.append(name)
            labels.append(label)
    if len(known) < MOST_KINDS:
        _require_label_keys(known, where=where, unit=unit)
    return lines, names, labels, predicted


def _kind(known: dict[tuple[str, ...], Kind], keys: tuple[str, ...], line: int) -> Kind:
    kind = Kind.of(keys, line)
    if len(known) < MOST_KINDS:
        known[keys] = kind
    return kind


def _require_label_keys(known: dict[tuple[str, ...], Kind], *, where: Path, unit: str) -> None:
    """An object may leave out its label, but has then no key that those with a label lack: it may be one misspelled."""
    usual = {key for keys, kind in known.items() if kind.label is not None for key in keys}
    for keys, kind in known.items():
        others = [key for key in keys if key not in usual and key.strip().lower() not in NAME_HEADINGS]
        if kind.label is None and not kind.is_task and others:
            raise InputError(
                f"{where}, {unit} {kind.line}: its keys are {_listed(keys)};"
                " call one of them path and one label (null where there is none)"
            )


def _listed(words: Iterable[str]) -> str:
    return ", ".join(in_one_line(word) for word in itertools.islice(words, N_KEYS_SHOWN))


def _is_predicted(origin: str, value: object) -> bool:
    """By the column or key that tells where a label comes from: only predictions have a margin and no source."""
    return origin.strip().lower() == MARGIN or str(value).strip().lower() in PREDICTED


def _list_entries(text: str, *, where: Path) -> Columns:
    if text.startswith("[", _after(_SPACE.match(text))):
        return _json_entries(_list_items(text, where=where), where=where, unit="item")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _no_list(where) from error
    raise InputError(f"{where}: a JSON {type(found).__name__}; expected a list of objects with a path and a label")


def _list_items(text: str, *, where: Path) -> Iterator[tuple[int, Any]]:
    """The items of a JSON list, one at a time: all at once, millions would take as many times the file's size."""
    decode, skip = json.JSONDecoder().raw_decode, _SPACE.match
    position = _after(skip(text)) + 1
    for number in itertools.count(1):
        position = _after(skip(text, position))
        if number == 1 and text.startswith("]", position):
            break
        try:
            item, position = decode(text, position)
        except (ValueError, RecursionError) as error:
            raise _no_list(where) from error
        yield number, item
        position = _after(skip(text, position)) + 1
        if not text.startswith(",", position - 1):
            position -= 1
            break
    if text[position : position + 1] != "]" or text[position + 1 :].strip(_JSON_SPACE):
        raise _no_list(where)


def _after(space: re.Match[str] | None) -> int:
    assert space is not None  # it may be empty
    return space.end()


def _no_list(where: Path) -> InputError:
    return InputError(f"{where}: not a list of JSON objects, nor an export of Label Studio")


def _json_labels(item: Any, *, where: str) -> list[tuple[str, str]]:
    """The names and labels that an object gives: one, or as many as a Label Studio task was annotated."""
    if not isinstance(item, dict):
        raise InputError(f"{where}: a JSON {type(item).__name__}; expected an object with a path and a label")
    if isinstance(item.get("annotations"), list) and isinstance(item.get("data"), dict):
        return [(_json_name(item["data"], where=where), label) for label in _annotated(item, where=where)]
    by_key = {key.strip().lower(): value for key, value in item.items()}
    label = next((by_key[key] for key in LABEL_HEADINGS if key in by_key), None)
    return [(_json_name(item, where=where), _json_label(label, where=where))]


@functools.lru_cache(MOST_KINDS)
def _name_key(keys: tuple[str, ...]) -> str | None:
    """Under which of its keys an object has its name."""
    by_word = {key.strip().lower(): key for key in keys}
    return next((by_word[word] for word in NAME_HEADINGS if word in by_word), None)


def _json_name(item: dict[str, Any], *, where: str) -> str:
    key = _name_key(tuple(item))
    name = None if key is None else item[key]
    if name is None or isinstance(name, dict | list):
        raise InputError(f"{where}: no path; its keys are {_listed(item) or 'none'}, expected path or file, and label")
    return str(name)


def _json_label(label: Any, *, where: str) -> str:
    if isinstance(label, bool):
        return json.dumps(label)
    if label is None or (isinstance(label, float) and math.isnan(label)):
        return ""
    if isinstance(label, dict | list):
        raise InputError(f"{where}: its label is a JSON {type(label).__name__}; expected a text or a number")
    return str(label)


def _annotated(task: dict[str, Any], *, where: str) -> Iterator[str]:
    """The choice in each annotation of a Label Studio task that was not cancelled."""
    for annotation in task["annotations"]:
        results = annotation.get("result") if isinstance(annotation, dict) else None
        if not isinstance(results, list):
            raise InputError(f"{where}: an annotation without a result; export it from Label Studio again")
        if annotation.get("was_cancelled"):
            continue
        values = [result.get("value") for result in results if isinstance(result, dict)]
        choices = [choice for value in values if isinstance(value, dict) for choice in _choices(value)]
        if len(choices) != 1 and results:
            raise InputError(f"{where}: {len(choices)} choices in an annotation; expected one class for each picture")
        yield from (_json_label(choice, where=where) for choice in choices)


def _choices(value: dict[str, Any]) -> list[Any]:
    choices = value.get("choices")
    return choices if isinstance(choices, list) else []


# tables


def _best_separator(text: str, finder: Finder, *, where: Path) -> str:
    """The one that brings out most names; a comma may stand in a name, a semicolon in a label."""
    candidates = [mark for mark in SEPARATORS if mark in text] or [","]
    if len(candidates) == 1:
        return candidates[0]
    merits = {mark: _merit(text, mark, finder, where=where) for mark in candidates}
    return max(candidates, key=merits.__getitem__)


def _merit(text: str, separator: str, finder: Finder, *, where: Path) -> tuple[int, int, int]:
    try:
        rows = [cells for _, cells in itertools.islice(split_rows(text, separator, where=where), N_SAMPLED)]
    except InputError:
        return (-1, -1, -1)
    several = [cells for cells in rows if len(cells) > 1]
    n_named = sum(any(finder.rows(cell) for cell in cells) for cells in several)
    return n_named, sum(_is_known_heading(cells) for cells in several), len(several)


def _table_entries(text: str, finder: Finder, *, where: Path) -> Columns:
    """Part by part: each heading begins one with columns of its own."""
    separator = _best_separator(text, finder, where=where)
    heading, has_heading = ["path", "label"], False
    name_column, label_column = 0, 1
    lines, names, labels, predicted = list[int](), list[str](), list[str](), set[int]()
    for part in split_parts(text, separator, where=where):
        if lines and _is_plain(part.rows, len(heading)):  # nearly all are, and millions of rows go faster at once
            lines += part.lines
            names += [cells[name_column] for cells in part.rows]
            labels += [cells[label_column] for cells in part.rows]
            predicted.update(_predicted_lines(heading, part.lines, part.rows))
            continue
        for line, cells in zip(part.lines, part.rows, strict=True):
            is_first = not lines and not has_heading
            if (is_first and _is_heading(cells, text, separator, finder)) or (
                not _LABEL_WORDS.isdisjoint(cells) and _is_later_heading(cells, finder)
            ):
                heading, has_heading = cells, True
                name_column, label_column = _columns(cells, where=where)
                continue
            if len(cells) != len(heading):
                _require_cells(cells, heading, has_heading=has_heading, where=f"{where}, line {line}")
            lines.append(line)
            names.append(cells[name_column])
            labels.append(cells[label_column])
            predicted.update(_predicted_lines(heading, [line], [cells]))
    return lines, names, labels, predicted


def _predicted_lines(heading: list[str], lines: Sequence[int], rows: list[list[str]]) -> Iterable[int]:
    words = [cell.strip().lower() for cell in heading]
    origin = next((word for word in (SOURCE, MARGIN) if word in words), None)
    if origin is None:
        return ()
    column = words.index(origin)
    return [
        line
        for line, cells in zip(lines, rows, strict=True)
        if len(cells) > column and _is_predicted(origin, cells[column])
    ]


def _is_plain(rows: list[list[str]], n_columns: int) -> bool:
    """Whether none of the rows could be a heading, and all have as many cells."""
    return set(map(len, rows)) == {n_columns} and _LABEL_WORDS.isdisjoint(itertools.chain.from_iterable(rows))


def _require_cells(cells: list[str], heading: list[str], *, has_heading: bool, where: str) -> None:
    if len(cells) <= max(_columns(heading, where=where)):
        raise InputError(
            f"{where}: expected a file name and a label, with a comma, semicolon or tab between;"
            f" got {quoted(','.join(cells))}"
        )
    if any(cell.strip() for cell in cells[len(heading) :]):
        remedy = "quote what holds a separator" if has_heading else "name the columns path and label in a first line"
        raise InputError(f"{where}: {len(cells)} cells where {len(heading)} are expected; {remedy}")


def _is_known_heading(cells: list[str]) -> bool:
    words = [cell.strip().lower() for cell in cells]
    return any(word in NAME_HEADINGS for word in words) and any(word in LABEL_HEADINGS for word in words)


def _is_later_heading(cells: list[str], finder: Finder) -> bool:
    """In files joined end to end; a class may be called like a heading, so no picture may be named."""
    return _is_known_heading(cells) and not any(finder.rows(cell) for cell in cells)


def _is_heading(cells: list[str], text: str, separator: str, finder: Finder) -> bool:
    """Known words are; a line that names a file, found or not, or gives a label that others give too is none."""
    if _is_known_heading(cells):
        return True
    first = [cell.strip().lower() for cell in cells]
    if any(cell.endswith(SUFFIXES) for cell in first) or any(finder.rows(cell) for cell in cells):
        return False
    others = itertools.islice(split_rows(text, separator, where=Path()), 1, None)
    return len(first) > 1 and all(other[1:2] != cells[1:2] for _, other in others)


def _columns(heading: list[str], *, where: object) -> tuple[int, int]:
    """Where names and labels stand; of two columns the other one is what the known one is not."""
    words = [cell.strip().lower() for cell in heading]
    name = next((words.index(word) for word in NAME_HEADINGS if word in words), None)
    label = next((words.index(word) for word in LABEL_HEADINGS if word in words), None)
    if len(words) == 2:
        name = 1 - label if name is None and label is not None else name or 0
        return name, 1 - name
    if name is None or label is None:
        raise InputError(f"{where}: its columns are {_listed(heading)}; call one of them path and one label")
    return name, label
