"""Files named by users: only regular ones are opened (a pipe would block), texts and tables are decoded."""

import codecs
import csv
import errno
import io
import itertools
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from laplacenet.runtime import InputError

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: Path) -> io.BufferedReader:
    """The file, opened to be read; an OSError where it is no regular file, at once and without waiting for a writer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        raise OSError(errno.EINVAL, f"{KINDS.get(kind, 'a special file')}, not a regular file")
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path, *, largest: int) -> bytes:
    """All bytes of a file that the user named; more than `largest` are refused unread."""
    try:
        with open_regular(path) as file:
            n_bytes = os.fstat(file.fileno()).st_size
            if n_bytes > largest:
                raise InputError(f"{path}: {n_bytes} bytes; at most {largest} are read here")
            return file.read(n_bytes)  # of a file that grows meanwhile, what was there at first
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except (OSError, ValueError) as error:  # a ValueError: a NUL in the name
        raise InputError(f"{path}: cannot be read ({reason_of(error)})") from error


def reason_of(error: Exception) -> str:
    """On one line and without the path, which the caller prints."""
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(said.split()) or type(error).__name__


SEPARATORS = (",", ";", "\t")
ROWS_PER_PART = 500
LARGEST_TEXT = 1 << 29
# UTF-32's mark begins with that of UTF-16, so it is looked for first
MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def read_text(path: Path) -> str:
    """The file's text, in UTF-8, or in what its byte order mark says; the mark is dropped."""
    content = read_regular(path, largest=LARGEST_TEXT)
    encoding = next((name for mark, name in MARKS.items() if content.startswith(mark)), "utf-8")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {_not_text()}") from error
    if "\0" in text:
        raise InputError(f"{path}: {_not_text()}")
    return text


def _not_text() -> str:
    return "not a text in UTF-8, nor in UTF-16 or UTF-32 with a byte order mark; save it as UTF-8"


def read_rows(path: Path) -> list[tuple[int, list[str]]]:
    """Line number and cells of each row that is not blank; the first line decides between comma, semicolon and tab."""
    text = read_text(path)
    first = text.lstrip().partition("\n")[0]
    separator = next((mark for mark in SEPARATORS if mark in first), ",")
    return [(line, [cell.strip() for cell in cells]) for line, cells in split_rows(text, separator, where=path)]


def split_rows(text: str, separator: str, *, where: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and unchanged cells of each row that is not blank."""
    for part in split_parts(text, separator, where=where):
        yield from zip(part.lines, part.rows, strict=True)


@dataclass(frozen=True, eq=False)
class TablePart:
    """Rows that are not blank: unchanged cells, and the line on which each row ends."""

    lines: Sequence[int]
    rows: list[list[str]]


def split_parts(text: str, separator: str, *, where: Path) -> Iterator[TablePart]:
    """A table in batches of a few hundred rows. Row by row a million takes seconds, and larger lists cost as much again
    in garbage collection.
    """
    file, n_lines, error = io.StringIO(text, newline=""), 0, None
    while error is None:
        start, rows = file.tell(), list[list[str]]()
        # csv splits the lines itself: a quoted name may hold a line's end; `strict` refuses a quote that never ends
        reader = csv.reader(file, delimiter=separator, strict=True)
        try:
            rows.extend(itertools.islice(reader, ROWS_PER_PART))  # rows before an error are kept
        except csv.Error as found:
            error = found
        if reader.line_num == 0:
            return
        lines: Sequence[int] = range(n_lines + 1, n_lines + len(rows) + 1)
        if reader.line_num != len(rows) + (error is not None):  # a row of several lines
            file.seek(start)
            again = csv.reader(file, delimiter=separator, strict=True)
            lines = [n_lines + again.line_num for _ in itertools.islice(again, len(rows))]
        n_lines += reader.line_num
        if not all(rows) or not all(map(str.strip, map(itemgetter(0), rows))):
            is_kept = [any(map(str.strip, cells)) for cells in rows]
            rows, lines = list(itertools.compress(rows, is_kept)), list(itertools.compress(lines, is_kept))
        yield TablePart(lines, rows)
    raise InputError(f"{where}, line {n_lines}: not a row of a table ({error})") from error
