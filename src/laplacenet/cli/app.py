"""The commands under one name, and what is said and returned when one of them fails.

Exit codes: 0 done; 1 the run failed; 2 the user's input is at fault, said in one line; 130 and 143 interrupted.
Torch takes a second to import, so commands import what they need when they are called, and `--help` answers at once.
"""

import os
import sys
from typing import Annotated, Any, NoReturn

import typer

import laplacenet
from laplacenet.cli.bench import bench
from laplacenet.cli.data import data
from laplacenet.cli.demo import demo
from laplacenet.cli.evaluate import evaluate
from laplacenet.cli.predict import predict
from laplacenet.cli.report import report
from laplacenet.cli.reproduce import reproduce
from laplacenet.cli.train import train

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
for command in (demo, train, evaluate, predict, data, reproduce, report, bench):
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
    try:
        code = app(sys.argv[1:] or ["--help"], prog_name="laplacenet", standalone_mode=False)
    except UsageError as error:
        code = failed(misuse(error), USER_AT_FAULT)
    except (typer.Abort, KeyboardInterrupt):
        code = failed("interrupted", INTERRUPTED)
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        code = failed(str(error), exit_code_of(error))
    sys.exit(code or 0)


def misuse(error: Any) -> str:
    """What Typer says of arguments that it does not accept, in one line, and where those that it does are listed."""
    said = " ".join(error.format_message().split()).rstrip(".")
    return f"{said}; see {error.ctx.command_path} --help" if error.ctx else said


def exit_code_of(error: Exception) -> int:
    """2 for the user's input, 1 for a run that diverged; anything else is a bug and keeps its traceback."""
    from laplacenet.runtime import InputError
    from laplacenet.training import DivergedError

    if isinstance(error, InputError):
        return USER_AT_FAULT
    if isinstance(error, DivergedError):
        return 1
    raise error


def failed(message: str, code: int) -> int:
    typer.echo(f"error: {message}", err=True)
    return code
