"""The commands under one name, and what is said and returned when one of them fails.

Exit codes: 0 done; 1 the run or the machine failed (its numbers are no longer finite, the disk is full); 2 the user's
input is at fault; 130 and 143 interrupted. Whichever it is, one line says so, and how to go on where that is possible.
Torch takes a second to import, so commands import what they need when they are called, and `--help` answers at once.
"""

import contextlib
import logging
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

import laplacenet
from laplacenet.cli.bench import bench
from laplacenet.cli.compare import compare
from laplacenet.cli.data import data
from laplacenet.cli.demo import demo
from laplacenet.cli.evaluate import evaluate
from laplacenet.cli.export import export
from laplacenet.cli.label import label
from laplacenet.cli.memory import keep_freed_memory
from laplacenet.cli.methods import methods
from laplacenet.cli.next import next as next_to_label
from laplacenet.cli.predict import predict
from laplacenet.cli.report import report
from laplacenet.cli.reproduce import reproduce
from laplacenet.cli.train import train

FAILED = 1
USER_AT_FAULT = 2
INTERRUPTED = 130
UsageError: type[Exception] = typer.BadParameter.__mro__[
    1
]  # Typer has Click's under a name that differs between its versions

app = typer.Typer(
    name="laplacenet",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    demo,
    label,
    train,
    methods,
    compare,
    next_to_label,
    evaluate,
    predict,
    export,
    data,
    reproduce,
    report,
    bench,
):
    app.command()(command)


def show_version(asked: bool) -> bool:
    if asked:
        typer.echo(f"laplacenet {laplacenet.__version__}")
        raise typer.Exit
    return asked


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """From a handful of labels to an image classifier.

    \b
    Begin with
      laplacenet demo
    """


def main() -> NoReturn:
    """Run the command that was asked for and end the process with its exit code."""
    # Torch's threads spin while they wait for one another: on a machine that others use too, a step of a small
    # network then takes sixteen times as long. Threads that sleep at once halve the speed of an idle machine; these
    # spin for microseconds, then sleep. Read when torch is imported, which is later.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    keep_freed_memory()
    with warnings_on_stderr(), interruptions() as caught:
        code = exit_code()
    if caught:
        command = shlex.join(["laplacenet", *sys.argv[1:]])
        code = failed(f"interrupted; go on with: {command}", 128 + caught[0])
    sys.exit(code)


def exit_code() -> int:
    """Of the command that was asked for, once it has ended."""
    try:
        code = app(sys.argv[1:] or ["--help"], prog_name="laplacenet", standalone_mode=False)
    except UsageError as error:
        code = failed(misuse(error), USER_AT_FAULT)
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        code = failed(line_of(error), exit_code_of(error))
    return int(code or 0)


@contextlib.contextmanager
def interruptions() -> Iterator[list[int]]:
    """SIGINT and SIGTERM end what is done, at once; a run under way catches them itself, to save first."""
    caught: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        caught.append(number)
        raise KeyboardInterrupt

    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class OneLine(logging.Handler):
    """What the rooms below warn of, as every other warning is said."""

    def emit(self, record: logging.LogRecord) -> None:
        from laplacenet.runtime.errors import one_line

        typer.echo(f"warning: {one_line(record.getMessage())}", err=True)


@contextlib.contextmanager
def warnings_on_stderr() -> Iterator[None]:
    handler = OneLine(logging.WARNING)
    logging.getLogger("laplacenet").addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger("laplacenet").removeHandler(handler)


def misuse(error: Any) -> str:
    """What Typer says of arguments that it does not accept, in one line, and where those that it does are listed."""
    said = " ".join(error.format_message().split()).rstrip(".")
    return f"{said}; see {error.ctx.command_path} --help" if error.ctx else said


def line_of(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror is not None:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def exit_code_of(error: Exception) -> int:
    """2 for the user's input, 1 for a run or a machine that failed; anything else is a bug and keeps its traceback."""
    from laplacenet.runtime import InputError, RunError

    if isinstance(error, InputError):
        return USER_AT_FAULT
    if isinstance(error, RunError | OSError):
        return FAILED
    raise error


def failed(message: str, code: int) -> int:
    typer.echo(f"error: {message}", err=True)
    return code
