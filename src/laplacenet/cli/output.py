"""Terminal output: safe in any encoding, and for any name of a file or class."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path


def say(*lines: str, err: bool = False) -> None:
    """Messages, one line each: control characters in names are written out."""
    from laplacenet.runtime.errors import one_line

    with naming_output("standard error" if err else "standard output"):
        for line in lines:
            print(one_line(line), file=sys.stderr if err else sys.stdout, flush=True)


@contextlib.contextmanager
def naming_output(name: str = "standard output") -> Iterator[None]:
    """An error says that it is the output that cannot be written: the file that it goes to may be on a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            raise OSError(error.errno, error.strerror, name) from error
        raise


def let_one_process_report(error: Exception | None = None) -> None:
    """Of several processes that end, the first says why, whichever it is: the others may end only because of it."""
    from laplacenet.runtime.launch import read_launch

    if read_launch().size == 1:
        return
    from laplacenet.runtime.group import may_report

    for number in (signal.SIGINT, signal.SIGTERM):  # torchrun ends all processes as soon as one has ended
        signal.signal(number, signal.SIG_IGN)
    sys.stderr = sys.__stderr__ if may_report(error) else Path(os.devnull).open("w")  # noqa: SIM115


def write_data(texts: Iterable[str]) -> None:
    """Lines of a table on standard output, as they are; where they go to a terminal, control characters written out."""
    is_terminal = sys.stdout.isatty()
    for text in texts:
        with naming_output():
            sys.stdout.write(_shown(text) if is_terminal else text)
    with naming_output():
        sys.stdout.flush()


def replace_closed_streams() -> None:
    """Output goes nowhere if the command was started with it closed, as by `>&-`: Python then has None for a stream.

    In the order of their numbers, so that each takes its own: else the first file of a run would be descriptor 1, where
    libraries print.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open("r" if name == "stdin" else "w")  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def accept_any_character() -> None:
    """Escape characters that the terminal's encoding lacks, instead of failing in the middle of the output."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


_is_pipe_closed = False


def ignore_closed_pipe() -> None:
    """The reader has closed the pipe: discard the rest of the output, and do not fail at exit."""
    global _is_pipe_closed  # noqa: PLW0603 - of this process
    _is_pipe_closed = True
    with contextlib.suppress(OSError, ValueError):  # not a file, or closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_pipe_closed() -> bool:
    return _is_pipe_closed


def _shown(text: str) -> str:
    from laplacenet.runtime.errors import one_line

    return "\n".join(map(one_line, text.split("\n")))
