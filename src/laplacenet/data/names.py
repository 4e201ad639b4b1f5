"""Untrusted file names and labels as texts that can be written anywhere and shown on one line."""

import re

LONGEST_SHOWN = 120
_NO_CHARACTER = re.compile("[\ud800-\udfff]")


def writable(name: str) -> str:
    r"""The name with every byte that is not UTF-8 written out, as in `caf\xe9.png`: Python's stand-ins for such bytes
    can be neither encoded nor put into JSON."""
    return name if name.isascii() else _NO_CHARACTER.sub(_written_out, name)


def _written_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def in_one_line(name: str) -> str:
    """The name as a message shows it: no control characters, and no more of it than a line holds."""
    printable = "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in name)
    return printable if len(printable) <= LONGEST_SHOWN else printable[: LONGEST_SHOWN - 1] + "…"


def quoted(name: str) -> str:
    return f"'{in_one_line(name)}'"
