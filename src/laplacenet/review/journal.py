"""`answers.jsonl`: every answer of a person, appended and flushed to disk before it is acknowledged.

A line is a JSON object with a sequence number and a checksum of itself and of the number of its run. Behind the object
stands a space, in the last line a tab: a file that was cut at the end of a line lacks the tab. A last line that a crash
cut short is dropped; a line that was altered, is of another run, or is missing in between or at the end, is noticed and
noted, and all others count. Journals of older versions have neither marks nor the run's number; they are read, and what
is added has both.
"""

import contextlib
import datetime
import errno
import hashlib
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laplacenet.runtime import InputError, read_whole
from laplacenet.runtime.files import sync
from laplacenet.runtime.run_folder import run_id

CONTENTS: dict[str, dict[str, type]] = {
    "answer": {"answer": str, "pictures": list},
    "class": {"class": int, "name": str},
    "rename": {"class": int, "name": str},
    "merge": {"class": int, "into": int},
    "remove": {"class": int},
    "undo": {"of": int},
    "redo": {"of": int},
    "release": {"pictures": list},
    "estimate": {},
}
"""What an entry of each kind must say."""
SAID = ("label", "none", "cannot tell", "skip")
N_CHECKED = 16  # hexadecimal digits of the checksum: 64 bits
ENVELOPE = ("n", "at", "by", "kind", "sum")
NOT_LAST, LAST = b" \n", b"\t\n"
MOST_NOTES = 5
CLOSED = -1
FRESH = b"\n"
"""A journal without entries, until the first takes its place: a file of no bytes has lost what it held."""


@dataclass(frozen=True)
class Entry:
    """One line: number `n`, who (`by`, a tab of the browser or a file), what `kind`, and what was said."""

    n: int
    at: str
    by: str
    kind: str
    content: dict[str, Any]


class Journal:
    """The file, open for appending. One thread at a time may append."""

    def __init__(self, path: Path) -> None:
        self.path, self._run = path, run_id(path.parent) or ""
        self.entries, self.notes, n_whole_bytes = read_journal(path)
        is_new = not path.exists()
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, 0o644)
        except OSError as error:
            raise InputError(f"{path}: cannot be written to ({error.strerror})") from error
        os.ftruncate(self._descriptor, n_whole_bytes)
        if n_whole_bytes == 0:
            write_at(self._descriptor, FRESH, 0)
        self._end = n_whole_bytes
        self._joint = NOT_LAST if ends_with_mark(self._descriptor, self._end) else b""
        if is_new:
            sync(path.parent)

    def append(self, by: str, kind: str, content: dict[str, Any]) -> Entry:
        """The entry, once it is on disk; if that fails, nothing of it is kept and the error is raised."""
        n = self.entries[-1].n + 1 if self.entries else 1
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        entry = Entry(n, now, by, kind, content)
        line = to_line(entry, self._run)
        try:
            write_at(self._descriptor, self._joint + line, self._end - len(self._joint))
            os.fsync(self._descriptor)
        except OSError:
            self._drop_unfinished()
            raise
        self._end += len(line)
        self._joint = NOT_LAST
        self.entries.append(entry)
        return entry

    def _drop_unfinished(self) -> None:
        """Bring the file back to its last end. One byte stays in any case: a full disk may refuse a new one."""
        os.ftruncate(self._descriptor, max(self._end, len(FRESH)))
        if self._joint:
            write_at(self._descriptor, LAST, self._end - len(LAST))
        elif self._end == 0:
            with contextlib.suppress(OSError):
                write_at(self._descriptor, FRESH, 0)

    def close(self) -> None:
        """A second call does nothing: the system may have given the number to another file."""
        descriptor, self._descriptor = self._descriptor, CLOSED
        if descriptor != CLOSED:
            os.close(descriptor)


def ends_with_mark(descriptor: int, end: int) -> bool:
    return end >= len(LAST) and os.pread(descriptor, len(LAST), end - len(LAST)) in (LAST, NOT_LAST)


def write_at(descriptor: int, content: bytes, offset: int) -> None:
    """All of it, or an OSError: a nearly full disk takes a part."""
    if os.pwrite(descriptor, content, offset) < len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def to_line(entry: Entry, run: str = "") -> bytes:
    words = {"n": entry.n, "at": entry.at, "by": entry.by, "kind": entry.kind, **entry.content}
    return json.dumps({**words, "sum": checksum(words, run)}, ensure_ascii=True).encode() + LAST


def from_line(line: bytes, run: str = "") -> Entry | None:
    """None where the line is damaged, or of another run."""
    try:
        words = json.loads(line)
        expected = words.pop("sum")
        if expected not in (checksum(words, run), checksum(words)):
            return None
        content = {key: value for key, value in words.items() if key not in ENVELOPE}
        entry = Entry(words["n"], words["at"], words["by"], words["kind"], content)
        return entry if is_sound(entry) else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def is_sound(entry: Entry) -> bool:
    """Whether the entry is of a kind that can be replayed, with all that its kind says."""
    kinds = {"n": int, "at": str, "by": str, "kind": str}
    if any(type(getattr(entry, name)) is not kind for name, kind in kinds.items()) or entry.kind not in CONTENTS:
        return False
    content = entry.content
    if entry.kind == "answer" and (
        content.get("answer") not in SAID or (content["answer"] == "label" and type(content.get("class")) is not int)
    ):
        return False
    if any(type(content.get(key)) is not kind for key, kind in CONTENTS[entry.kind].items()):
        return False
    lists = [content[key] for key in ("pictures", "rejected") if key in content]
    if any(type(names) is not list or any(type(name) is not str for name in names) for names in lists):
        return False
    if any(type(content[key]) is not str for key in ("name", "via") if key in content):
        return False
    numbers = [content[key] for key in ("class", "into", "of", "seen") if content.get(key) is not None]
    if entry.kind == "estimate":
        return all(type(value) in (int, float) and math.isfinite(value) for value in content.values())
    return all(type(number) is int for number in numbers)


def checksum(words: dict[str, Any], run: str = "") -> str:
    """A checksum of the JSON's values; spacing does not matter."""
    return hashlib.sha256((run + json.dumps(words, sort_keys=True)).encode()).hexdigest()[:N_CHECKED]


def last_of(entries: list[Entry]) -> int:
    return entries[-1].n if entries else 0


def read_journal(path: Path) -> tuple[list[Entry], list[str], int]:
    """The entries, notes about what is damaged, and the bytes up to the end of the last whole line."""
    if not os.path.lexists(path):
        return [], [], 0
    content, run = read_whole(path), run_id(path.parent) or ""
    if content == FRESH:
        return [], [], 0
    if not content:
        return [], [f"{path.name}: empty; whatever answers it held are missing"], 0
    *whole, torn = content.split(b"\n")
    entries: list[Entry] = []
    notes: list[str] = []
    for number, line in enumerate(whole, 1):
        entry, last = from_line(line, run), last_of(entries)
        if entry is None:
            notes.append(f"{path.name}, line {number}: damaged or of another run (its checksum differs); not counted")
        elif entry.n <= last:
            notes.append(f"{path.name}, line {number}: number {entry.n} comes after {last}; it does not count")
        else:
            if entry.n > last + 1 and not (notes and f"line {number - 1}:" in notes[-1]):
                notes.append(f"{path.name}, line {number}: entries {last + 1} to {entry.n - 1} are missing before it")
            entries.append(entry)
    marks = {line[-1:] for line in whole} & {NOT_LAST[:1], LAST[:1]}
    if marks and not torn and not content.endswith(LAST):
        notes.append(f"{path.name}: the last line was not the last; entries after {last_of(entries)} are missing")
    if torn:
        notes.append(f"{path.name}: the last line was cut short before it was acknowledged; it is dropped")
    return entries, shortened(notes), len(content) - len(torn)


def shortened(notes: list[str]) -> list[str]:
    n_more = len(notes) - MOST_NOTES
    return notes if n_more <= 1 else [*notes[:MOST_NOTES], f"… and {n_more} more lines with faults"]
