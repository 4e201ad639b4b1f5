"""Errors with a one-line message: invalid input, or a run that cannot go on."""

import errno
import unicodedata
from typing import Any

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a full disk: the input is not at fault, and there may be room later."""
CONTROL_CATEGORIES = ("Cc", "Cs", "Zl", "Zp")  # controls, halves of characters, separators of lines and paragraphs
DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""They reverse the direction of text, also of what follows a name."""


class InputError(Exception):
    """Invalid input.

    The message is one line: which file or flag, and what would be accepted. The command line prints it after `error: `
    and exits with 2.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class RunError(RuntimeError):
    """A run cannot go on though its input was accepted: the disk is full, its numbers are no longer finite.

    The message is one line. What was saved before is still good. The command line exits with 1.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class LostProcessError(RunError):
    """Another of the processes that work on a run is gone: this one cannot go on alone."""


class TimeLimitError(Exception):
    """The time limit was reached before the run's goal; what was done is saved, and the run can be resumed.

    The message is one line and says how. The command line exits with 3.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


def one_line(text: str) -> str:
    """The text with line breaks and control characters escaped: names of files and classes may hold anything."""
    return "".join(c.encode("unicode_escape").decode() if is_obeyed(c) else c for c in text)


def is_obeyed(character: str) -> bool:
    """Whether a terminal would act on it and not show it."""
    return unicodedata.category(character) in CONTROL_CATEGORIES or character in DIRECTIONS


def first_line(error: Exception) -> str:
    """The error's message on one line; its type if it has none."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def differences(found: dict[str, Any], expected: dict[str, Any], *, whose: str) -> str:
    differing = sorted(key for key in expected.keys() | found.keys() if found.get(key) != expected.get(key))
    return "; ".join(f"its {key} is {found.get(key)!r}, {whose}'s is {expected.get(key)!r}" for key in differing)
