"""One sitting before a run: start or resume it, show it, and on an interruption say how it goes on."""

from pathlib import Path

import typer
from rich.console import Console

from laplacenet.cli.progress import Watch, display_for, print_line, warn
from laplacenet.cli.wording import outcome_lines
from laplacenet.experiments import Outcome, Task, read_epochs, read_outcome, resume_run, start_run
from laplacenet.experiments.run_records import FINAL
from laplacenet.reports.curves import draw_run
from laplacenet.runtime import Interruption, RunFolder, read_json
from laplacenet.runtime.run_folder import EXPERIMENT
from laplacenet.training import Execution
from laplacenet.training.checkpoint import MANIFEST

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
    n_steps, n_done = task.experiment.train.steps, steps_done(folder)
    with Interruption() as interruption, display_for(task.experiment.name, n_steps=n_steps, n_done=n_done) as display:
        watch = Watch(interruption, display, limit_s=limit_s)
        for record in begin(task, folder, execution=execution, monitor=watch):
            display.show(record)
    if folder.has(FINAL):
        draw_run(read_epochs(folder), folder.path / CURVES, title=task.experiment.name)
        return read_outcome(folder)
    command = goes_on_with or f"laplacenet train --resume {folder.path}"
    reason = "time is up" if interruption.signal is None else "interrupted"
    print_line(console, f"{reason} at step {steps_done(folder)} of {n_steps}; go on with: {command}")
    if interruption.signal is not None:
        raise typer.Exit(interruption.exit_code)
    return None


def steps_done(folder: RunFolder) -> int:
    """By the checkpoint: what was recorded behind it will be done again."""
    manifest = folder.checkpoint / MANIFEST
    return int(read_json(manifest)["step"]) if manifest.is_file() else 0


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
