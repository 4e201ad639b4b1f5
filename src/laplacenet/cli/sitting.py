"""One sitting before a run: start or resume it, show it, and on an interruption say how it goes on."""

import shlex
from pathlib import Path

import typer
from rich.console import Console

from laplacenet.cli.progress import Watch, display_for, print_line, warn
from laplacenet.cli.wording import outcome_lines
from laplacenet.experiments import Outcome, Task, read_epochs, read_outcome, resume_run, start_run
from laplacenet.experiments.run_records import FINAL, remarks
from laplacenet.reports.curves import draw_run
from laplacenet.runtime import InputError, Interruption, RunError, RunFolder
from laplacenet.runtime.run_folder import EXPERIMENT
from laplacenet.training import DivergedError, Execution
from laplacenet.training.checkpoint import checkpoint_step

CURVES = "curves.png"


def sit_through(
    task: Task,
    folder: RunFolder,
    *,
    execution: Execution,
    limit_s: float | None = None,
    goes_on_with: str | None = None,
) -> Outcome | None:
    """Start the folder's run, or go on with it if it has begun; None where the time limit came first.

    `goes_on_with` is the command that continues after an interruption, if it is not the plain one.
    """
    is_begun, console = folder.has(EXPERIMENT), Console(stderr=True)
    for note in [] if is_begun else task.notes():
        warn(console, note)
    begin = resume_run if is_begun else start_run
    name, n_steps, n_done = task.experiment.name, task.experiment.train.steps, steps_done(folder)
    command = goes_on_with or f"laplacenet train --resume {shlex.quote(str(folder.path))}"
    display = display_for(name, n_steps=n_steps, n_done=n_done, said=kinds_said(folder))
    with Interruption() as interruption, display:
        watch = Watch(interruption, display, limit_s=limit_s)
        try:
            for record in begin(task, folder, execution=execution, monitor=watch):
                display.show(record)
        except (DivergedError, OSError) as error:
            raise RunError(told(error, folder, command)) from error
        if folder.has(FINAL):
            draw_run(read_epochs(folder), folder.path / CURVES, title=name)
            return read_outcome(folder)
    reason = "time is up" if interruption.signal is None else "interrupted"
    print_line(console, f"{reason} at step {steps_done(folder)} of {n_steps}; go on with: {command}")
    if interruption.signal is not None:
        raise typer.Exit(interruption.exit_code)
    return None


def steps_done(folder: RunFolder) -> int:
    """By the checkpoint: what was recorded behind it will be done again."""
    return checkpoint_step(folder.checkpoint)


def kinds_said(folder: RunFolder) -> set[str]:
    """The remarks that earlier sittings made; records that are damaged are made again, and their remarks too."""
    try:
        return {kind for record in read_epochs(folder) for kind in remarks(record)}
    except InputError:
        return set()


def told(error: DivergedError | OSError, folder: RunFolder, command: str) -> str:
    """Why the run ended, and how it goes on."""
    reason = str(error)
    if isinstance(error, OSError):
        reason = f"{error.filename or folder.path}: {(error.strerror or reason).lower()}"
    if folder.has(FINAL):
        return f"{reason}; the run is finished all the same"
    if not folder.has(EXPERIMENT):
        return f"{reason}; the run has not begun"
    return f"{reason}; the run can be resumed from its last good checkpoint (step {steps_done(folder)}) with: {command}"


def fresh_folder(out: Path | None, *, name: str, overwrite: bool) -> RunFolder:
    """The folder asked for, or else the first free one of runs/NAME, runs/NAME-2, …"""
    if out is not None:
        return RunFolder.create(out, overwrite=overwrite)
    path = Path("runs") / name
    number = 2
    while not overwrite and path.exists() and any(path.iterdir()):
        path = Path("runs") / f"{name}-{number}"
        number += 1
    return RunFolder.create(path, overwrite=overwrite)


def say_outcome(outcome: Outcome, folder: RunFolder) -> None:
    for line in outcome_lines(outcome):
        typer.echo(line)
    typer.echo(f"run folder     {folder.path}  ({CURVES}, final.json, model.safetensors)")
