"""The commands, and the messages and exit codes when one of them fails.

Exit codes: 0 done; 1 the run or the machine failed (its numbers are no longer finite, the disk is full); 2 invalid
input; 3 the time limit was reached before the goal, and the run can be resumed; 130 and 143 interrupted. In each case
one line says why and, if possible, how to go on. Torch takes a second to import, so commands import what they need when
they are called: `--help` and a wrong path are answered at once.
"""

import contextlib
import errno
import faulthandler
import logging
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

import laplacenet
from laplacenet.cli.bench import bench
from laplacenet.cli.compare import compare
from laplacenet.cli.data import data
from laplacenet.cli.demo import demo
from laplacenet.cli.embed import embed
from laplacenet.cli.evaluate import evaluate
from laplacenet.cli.export import export
from laplacenet.cli.label import label
from laplacenet.cli.memory import keep_freed_memory
from laplacenet.cli.methods import methods
from laplacenet.cli.next import next as next_to_label
from laplacenet.cli.output import (
    accept_any_character,
    ignore_closed_pipe,
    is_pipe_closed,
    let_one_process_report,
    replace_closed_streams,
    say,
)
from laplacenet.cli.predict import predict
from laplacenet.cli.report import report
from laplacenet.cli.reproduce import reproduce
from laplacenet.cli.review import review
from laplacenet.cli.train import train
from laplacenet.runtime import InputError, read_launch
from laplacenet.runtime.launch import program

PEERS = "laplacenet.runtime.peers"
IN_SEVERAL_PROCESSES = ("train", "reproduce", "embed", "label", "compare")
FAILED = 1
INVALID_INPUT = 2
TIME_LIMIT = 3
INTERRUPTED = 130
NO_USABLE_PATH = (errno.ENAMETOOLONG, errno.ELOOP, errno.EISDIR, errno.ENOTDIR)

COMMANDS = {
    "Try it": (demo,),
    "Label your own pictures": (review, label, embed, next_to_label, predict, export),
    "Train and evaluate": (train, methods, compare, evaluate, data),
    "Reproduce the paper": (reproduce, report, bench),
}
"""In the order of the help."""
WHOLE_SENTENCE = 1_000  # characters: the list of commands wraps a sentence instead of cutting it off


class Commands(TyperGroup):
    """Listed by what they are for. A closed pipe ends a command without an error."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, commands in COMMANDS.items():
            names = [command.__name__ for command in commands]
            rows = [(name, self.commands[name].get_short_help_str(WHOLE_SENTENCE)) for name in names]
            with formatter.section(title):
                formatter.write_dl(rows)

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with exit_at_closed_pipe():  # where help is printed
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        with exit_at_closed_pipe():
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result


@contextlib.contextmanager
def exit_at_closed_pipe() -> Iterator[None]:
    """Typer itself would end with exit code 1."""
    try:
        yield
    except BrokenPipeError:
        ignore_closed_pipe()
        raise typer.Exit(0) from None


app = typer.Typer(
    name="laplacenet",
    cls=Commands,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for commands in COMMANDS.values():
    for command in commands:
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
    """Run the command and end the process with its exit code."""
    replace_closed_streams()
    # Torch's threads spin while they wait for one another: on a machine that others use too, a step of a small
    # network then takes sixteen times as long. Threads that sleep at once halve the speed of an idle machine; these
    # spin for microseconds, then sleep. Read when torch is imported, which is later.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    if sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)  # a crash in compiled code prints every thread's traceback
    keep_freed_memory()
    accept_any_character()
    launch = read_launch()
    if not launch.is_first:
        sys.stdout = sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - the first process speaks for all
    with warnings_on_stderr(), interruptions() as caught:
        code = exit_code(caught)
    if caught:
        let_one_process_report()
        code = failed(f"interrupted; {how_to_go_on()}", 128 + caught[0])
    if launch.size > 1:
        leave_group(code)
    sys.exit(code)


def leave_group(code: int) -> NoReturn:
    """End at once: torch may abort while it takes its threads down, or wait for a process that has failed."""
    from laplacenet.runtime import LostProcessError, current_group

    if not code and not is_pipe_closed():  # a closed pipe ends this process in the middle of its work
        with contextlib.suppress(LostProcessError):
            current_group().agree(False)  # none ends while another still needs it
    end_at_once(code)


def end_at_once(code: int) -> NoReturn:
    """Without waiting for threads, and without Python's own idea of an exit code after Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # closed
            stream.flush()
    os._exit(code)


def forget_advice() -> None:
    """Of an earlier interruption, where several commands run in one process."""
    if is_imported(PEERS):
        sys.modules[PEERS].forget_advice()


def how_to_go_on() -> str:
    """As the work that was interrupted says; where none had begun, with the same command."""
    advice = sys.modules[PEERS].advice_at_interruption() if is_imported(PEERS) else None
    return advice or f"go on with: {own_command()}"


def own_command() -> str:
    return f"{program()} {shlex.join(sys.argv[1:])}"


def is_imported(name: str) -> bool:
    """All of it: a module is listed as soon as its import begins."""
    module = sys.modules.get(name)
    return module is not None and not getattr(module.__spec__, "_initializing", False)


def exit_code(caught: list[int]) -> int:
    """Of the command that was asked for, once it has ended; `caught` are the signals that ended it."""
    try:
        refuse_empty_arguments(sys.argv[1:])
        refuse_several_processes(sys.argv[1:])
        code = app(sys.argv[1:] or ["--help"], prog_name="laplacenet", standalone_mode=False)
        sys.stdout.flush()
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except BrokenPipeError:
        ignore_closed_pipe()
        code = 0
    except Exception as error:
        # an import that a signal cuts off may end in any error
        code = INTERRUPTED if caught else explain(error)
    return int(code or 0)


def refuse_empty_arguments(arguments: Sequence[str]) -> None:
    """An empty path would be this folder: `label "$PHOTOS"` with a misspelled variable would label whatever is here."""
    for before, word in zip(["laplacenet", *arguments], arguments, strict=False):
        is_option = word.startswith("--") and word.find("=") == len(word) - 1
        if not word or is_option:
            raise InputError(f"nothing is given after {word or before}; is a variable of the shell not set?")


def refuse_several_processes(arguments: list[str]) -> None:
    """By all commands that would do the same work in each of them."""
    command = next((word for word in arguments if not word.startswith("-")), "")
    if read_launch().size > 1 and command not in IN_SEVERAL_PROCESSES:
        known = ", ".join(IN_SEVERAL_PROCESSES)
        raise InputError(f"{command or 'laplacenet'} takes one process; leave out torchrun, which is for {known}")


@contextlib.contextmanager
def interruptions() -> Iterator[list[int]]:
    """SIGINT and SIGTERM end what is done, at once; a run under way catches them itself, to save first."""
    caught: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        if not is_imported("torch"):  # nothing has begun, and an exception inside this import may come to nothing
            end_at_once(failed(f"interrupted; go on with: {own_command()}", 128 + number))
        if not caught:
            forget_advice()
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
        say(f"warning: {record.getMessage()}", err=True)


@contextlib.contextmanager
def warnings_on_stderr() -> Iterator[None]:
    handler = OneLine(logging.WARNING)
    logging.getLogger("laplacenet").addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger("laplacenet").removeHandler(handler)


def explain(error: Exception) -> int:
    """Say in one line why the command ended, and give its exit code; a bug keeps its traceback."""
    from laplacenet.runtime import RunError, TimeLimitError

    if isinstance(error, TimeLimitError):
        say(str(error), err=True)
        return TIME_LIMIT
    if hasattr(error, "format_message"):  # Typer's own; it brings a Click of its own, or in older versions needs one
        message, code = misuse(error), INVALID_INPUT
    elif isinstance(error, InputError):
        message, code = str(error), INVALID_INPUT
    elif isinstance(error, OSError):
        message, code = reason_of(error), INVALID_INPUT if error.errno in NO_USABLE_PATH else FAILED
    elif isinstance(error, RunError):
        message, code = str(error), FAILED
    else:
        sys.stderr = sys.__stderr__
        raise error
    let_one_process_report(error)
    return failed(message, code)


def misuse(error: Any) -> str:
    """What Typer says of arguments that it does not accept, in one line, and where those that it does are listed."""
    said = " ".join(error.format_message().split()).rstrip(".")
    ctx = getattr(error, "ctx", None)
    if ctx is None:
        return said
    see = f"{ctx.command_path} --help"
    return f"{said} See {see}" if said.endswith("?") else f"{said}; see {see}"


def reason_of(error: OSError) -> str:
    from laplacenet.runtime.errors import FULL

    if error.strerror is None:
        return str(error)
    said = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if error.errno not in FULL:
        return said
    how = next(iter(getattr(error, "__notes__", [])), f"go on with: {own_command()}")
    return f"{said}; free some space first; {how}"


def failed(message: str, code: int) -> int:
    with contextlib.suppress(BrokenPipeError):
        say(f"error: {message}", err=True)
    return code
