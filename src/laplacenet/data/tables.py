"""Rows of a CSV file as people and spreadsheets write them."""

import csv
from pathlib import Path

from laplacenet.runtime import InputError


def read_text(path: Path) -> str:
    """The file's text; a byte order mark, which spreadsheets like to write, is dropped."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file in UTF-8") from error


def read_rows(path: Path) -> list[tuple[int, list[str]]]:
    """Line number and cells of each row that is not blank; comma, semicolon or tab, as the first line has it."""
    lines = read_text(path).splitlines()
    first = lines[0] if lines else ""
    delimiter = next((mark for mark in (",", ";", "\t") if mark in first), ",")
    reader = csv.reader(lines, delimiter=delimiter)
    try:
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV file ({error})") from error
    return [(line, cells) for line, cells in rows if any(cells)]
