"""CSV as every command writes it: in one piece, and without cells that a spreadsheet would run as formulas.

A text that begins with =, +, - or @ (or a tab or carriage return) and is no number gets an apostrophe in front, the
spreadsheets' own mark for text. `unescaped` takes it off again, so what is read back is what was written.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from laplacenet.runtime.files import write_whole

# apostrophes that stand before such a sign already get one more, so that taking one off is always right
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_ESCAPED = re.compile(r"''*[=+\-@\t\r]")
_TO_QUOTE = re.compile(r"[\",\r\n]")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def escaped(text: str) -> str:
    """The text as a cell that no spreadsheet computes."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def unescaped(cell: str) -> str:
    """The text that `escaped` made the cell of; any other cell as it is."""
    return cell[1:] if _ESCAPED.match(cell) and not _NUMBER.fullmatch(cell[1:]) else cell


def csv_line(cells: Iterable[object]) -> str:
    """One line with its end; texts are escaped, and quoted where they must be."""
    return ",".join(map(_cell, cells)) + "\n"


def csv_text(heading: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A heading and its rows."""
    return "".join(map(csv_line, (heading, *rows)))


def write_csv(path: Path, heading: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Replace `path` by the table in UTF-8; readers see the old file or the new one, never a part."""
    write_whole(path, csv_text(heading, rows).encode())


def _cell(value: object) -> str:
    text = escaped(value) if isinstance(value, str) else "" if value is None else str(value)
    # Python's own writer leaves a carriage return bare, which its reader then takes for the end of the line
    return '"' + text.replace('"', '""') + '"' if _TO_QUOTE.search(text) else text
