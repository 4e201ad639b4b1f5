"""What is said when something is at fault: the user's input, or a run that cannot go on."""

import unicodedata

OBEYED = ("Cc", "Cs", "Zl", "Zp")  # controls, halves of characters, separators of lines and paragraphs


class InputError(Exception):
    """The user's input is at fault.

    The message is one line: which file or flag, and what would be accepted. The command line prints it behind
    `error: ` and exits with 2.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class RunError(RuntimeError):
    """A run cannot go on though its input was accepted: the disk is full, its numbers are no longer finite.

    The message is one line. What was saved before is still good. The command line exits with 1.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


def one_line(text: str) -> str:
    """Line breaks and what else a terminal would obey written out: names of files and classes may hold anything."""
    return "".join(c.encode("unicode_escape").decode() if unicodedata.category(c) in OBEYED else c for c in text)
