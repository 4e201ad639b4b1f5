"""`answers.jsonl`: every answer of a person, appended and flushed to disk before it is acknowledged.

A line is a JSON object with a sequence number and a checksum of itself. A last line that a crash cut short is dropped;
a line that was altered, or is missing in between, is noticed and noted, and all others count.
"""

import datetime
import errno
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laplacenet.runtime import InputError
from laplacenet.runtime.files import sync

N_CHECKED = 16  # hexadecimal digits of the checksum: 64 bits
ENVELOPE = ("n", "at", "by", "kind", "sum")


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
        self.path = path
        self.entries, self.notes, n_whole_bytes = read_journal(path)
        is_new = not path.exists()
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, 0o644)
        except OSError as error:
            raise InputError(f"{path}: cannot be written to ({error.strerror})") from error
        os.ftruncate(self._descriptor, n_whole_bytes)
        self._end = n_whole_bytes
        if is_new:
            sync(path.parent)

    def append(self, by: str, kind: str, content: dict[str, Any]) -> Entry:
        """The entry, once it is on the disk; where that fails nothing of it stays and the error is raised."""
        n = self.entries[-1].n + 1 if self.entries else 1
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        entry = Entry(n, now, by, kind, content)
        line = to_line(entry)
        try:
            write_at(self._descriptor, line, self._end)
            os.fsync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, self._end)
            raise
        self._end += len(line)
        self.entries.append(entry)
        return entry

    def close(self) -> None:
        os.close(self._descriptor)


def write_at(descriptor: int, content: bytes, offset: int) -> None:
    """All of it, or an OSError: a nearly full disk takes a part."""
    if os.pwrite(descriptor, content, offset) < len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def to_line(entry: Entry) -> bytes:
    words = {"n": entry.n, "at": entry.at, "by": entry.by, "kind": entry.kind, **entry.content}
    return (json.dumps({**words, "sum": checksum(words)}, ensure_ascii=True) + "\n").encode()


def from_line(line: bytes) -> Entry | None:
    """None where the line is damaged."""
    try:
        words = json.loads(line)
        expected = words.pop("sum")
        if checksum(words) != expected:
            return None
        content = {key: value for key, value in words.items() if key not in ENVELOPE}
        return Entry(words["n"], words["at"], words["by"], words["kind"], content)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def checksum(words: dict[str, Any]) -> str:
    """Of the JSON's meaning, not its spacing."""
    return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:N_CHECKED]


def read_journal(path: Path) -> tuple[list[Entry], list[str], int]:
    """The entries, notes about what is damaged, and the bytes up to the end of the last whole line."""
    if not path.exists():
        return [], [], 0
    if not path.is_file():
        raise InputError(f"{path}: is no plain file")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    *whole, torn = content.split(b"\n")
    entries: list[Entry] = []
    notes: list[str] = []
    for number, line in enumerate(whole, 1):
        entry, last = from_line(line), entries[-1].n if entries else 0
        if entry is None:
            notes.append(f"{path.name}, line {number}: damaged (its checksum differs); it does not count")
        elif entry.n <= last:
            notes.append(f"{path.name}, line {number}: number {entry.n} comes after {last}; it does not count")
        else:
            if entry.n > last + 1 and not (notes and f"line {number - 1}:" in notes[-1]):
                notes.append(f"{path.name}, line {number}: entries {last + 1} to {entry.n - 1} are missing before it")
            entries.append(entry)
    if torn:
        notes.append(f"{path.name}: the last line was cut short before it was acknowledged; it is dropped")
    return entries, notes, len(content) - len(torn)
