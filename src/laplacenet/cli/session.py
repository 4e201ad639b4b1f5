"""One session of a run: start or resume it, show it, and after an interruption say how to resume it."""

import contextlib
import shlex
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import typer
from rich.console import Console

from laplacenet.cli.output import say
from laplacenet.cli.progress import TEST_ERROR, Watch, display_for, print_line, reading, warn
from laplacenet.cli.wording import outcome_lines
from laplacenet.data import SKIPPED, refuse_skipped, write_skipped
from laplacenet.experiments import (
    Experiment,
    Outcome,
    Task,
    prepare,
    read_epochs,
    read_outcome,
    resume_run,
    start_run,
)
from laplacenet.experiments.run_records import FINAL, EpochRecord, remarks
from laplacenet.runtime import (
    InputError,
    Interruption,
    LostProcessError,
    RunError,
    RunFolder,
    TimedMonitor,
    TimeLimitError,
    current_group,
    read_launch,
    require_apart,
    write_json,
)
from laplacenet.runtime.launch import program
from laplacenet.runtime.peers import advising
from laplacenet.runtime.run_folder import EXPERIMENT, is_ours_after_restart
from laplacenet.runtime.timeline import mark, summary
from laplacenet.training import Execution
from laplacenet.training.checkpoint import checkpoint_step

CURVES, PROFILE = "curves.png", "profile.json"
FINISHED = "the run is finished all the same"
READ = "have been read, nothing has been trained; go on with: the same command and a longer --for"


def read_task(
    experiment: Experiment,
    *,
    data_folder: Path | None = None,
    download: bool = False,
    is_strict: bool = False,
    ends_at: float | None = None,
) -> Task:
    """Read the data and show progress; a download has a bar of its own.

    `is_strict` refuses pictures that cannot be read, which are skipped otherwise. `ends_at` is when to stop, by
    `time.monotonic`; several processes read to the end, since they would not stop at the same picture.
    """
    with reading(experiment.data.name, is_live=not download) as display:
        tally = TimedMonitor(display, None if current_group().reduces else ends_at, what_then=READ)
        if download and current_group().reduces:  # one process for all

            def fetch() -> None:
                prepare(experiment, data_folder=data_folder, download=True, monitor=tally)

            current_group().by_first(fetch)
        task = prepare(experiment, data_folder=data_folder, download=download, monitor=tally)
    if is_strict:
        refuse_skipped(task.dataset.skipped)
    return task


def keep_skipped(task: Task, folder: RunFolder) -> None:
    """List the pictures that were skipped, and why, in the run folder."""

    def keep() -> None:
        if task.dataset.skipped:
            write_skipped(folder.path / SKIPPED, task.dataset.skipped)

    current_group().by_first(keep)


def run_session(
    task: Task,
    folder: RunFolder,
    *,
    execution: Execution,
    limit_s: float | None = None,
    goes_on_with: str | None = None,
) -> Outcome:
    """Start the folder's run, or resume it if it has begun, and run it to its end.

    At the time limit a `TimeLimitError` says how to go on. `goes_on_with` is the command for that, by default `train
    --resume`.
    """
    group, console, name = current_group(), Console(stderr=True), task.experiment.name
    is_begun = group.by_first(lambda: folder.has(EXPERIMENT))
    if read_launch().n_restarts and group.by_first(lambda: folder.has(FINAL)):
        return group.by_first(lambda: read_outcome(folder))  # a process failed after the end
    for note in [] if is_begun else task.notes():
        warn(console, note)
    n_steps = task.experiment.train.steps
    command = goes_on_with or f"{program()} train --resume {shlex.quote(str(folder.path))}"

    def epochs(watch: Watch) -> Iterator[EpochRecord]:
        begin = resume_run if is_begun else start_run
        yield from begin(task, folder, execution=execution, monitor=watch)

    with resume_hint(folder, command):
        interruption = show_epochs(epochs, folder, title=name, n_steps=n_steps, limit_s=limit_s)
        outcome = group.by_first(lambda: read_outcome(folder) if folder.has(FINAL) else None)
    if outcome is not None:
        return outcome
    where = f"at step {steps_done(folder)} of {n_steps}; go on with: {command}"
    if not group.agree(interruption.signal is not None):
        raise TimeLimitError(f"time is up {where}")
    print_line(console, f"interrupted {where}")
    raise typer.Exit(interruption.exit_code or 128 + signal.SIGTERM)


def show_epochs(
    epochs: Callable[[Watch], Iterator[EpochRecord]],
    folder: RunFolder,
    *,
    title: str,
    n_steps: int,
    limit_s: float | None = None,
    error_name: str = TEST_ERROR,
) -> Interruption:
    """Work through a run's epochs, showing each, until they end, time is up or a signal comes."""
    n_done, said = steps_done(folder), kinds_said(folder)
    display = display_for(title, n_steps=n_steps, n_done=n_done, said=said, error_name=error_name)
    with Interruption() as interruption, display:
        for record in epochs(Watch(interruption, display, limit_s=limit_s)):
            display.show(record)
    return interruption


def steps_done(folder: RunFolder) -> int:
    """By the checkpoint: later steps will be repeated."""
    return checkpoint_step(folder.checkpoint)


def kinds_said(folder: RunFolder) -> set[str]:
    """The remarks that earlier sessions made; records that are damaged are made again, and their remarks too."""
    try:
        return {kind for record in read_epochs(folder) for kind in remarks(record)}
    except InputError:
        return set()


@contextlib.contextmanager
def resume_hint(folder: RunFolder, command: str, *, if_finished: str = FINISHED) -> Iterator[None]:
    """Add to the error that ends a run how to resume it; for a bug, below its traceback."""

    def how() -> str:
        return if_finished if folder.has(FINAL) else how_to_go_on(folder, command)

    try:
        with advising(how):
            yield
    except (InputError, LostProcessError):
        raise
    except Exception as error:
        if isinstance(error, RunError | OSError):
            raise RunError(f"{reason_of(error, folder)}; {how()}") from error
        error.add_note(how())
        raise


def reason_of(error: RunError | OSError, folder: RunFolder) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or folder.path}: {(error.strerror or str(error)).lower()}"
    return str(error)


def how_to_go_on(folder: RunFolder, command: str) -> str:
    if not folder.has(EXPERIMENT):
        return "the run has not begun; go on with: the same command"
    return f"the run can be resumed from its last good checkpoint (step {steps_done(folder)}) with: {command}"


def folder_of_run(
    out: Path | None, *, name: str, overwrite: bool, inputs: Iterable[Path | str | None] = ()
) -> RunFolder:
    """A fresh folder, made by the first process; where `torchrun` starts the command again, the one it began."""

    def chosen() -> Path:
        if out is not None and is_ours_after_restart(out):
            return RunFolder.open(out).path
        return fresh_folder(out, name=name, overwrite=overwrite, inputs=inputs).path

    return RunFolder(current_group().by_first(chosen))


def fresh_folder(
    out: Path | None, *, name: str, overwrite: bool, inputs: Iterable[Path | str | None] = ()
) -> RunFolder:
    """The given folder, or the first free one of runs/NAME, runs/NAME-2, …; never one that the run reads."""
    path = Path("runs") / name if out is None else out
    number = 2
    while out is None and not overwrite and path.exists() and any(path.iterdir()):
        path = Path("runs") / f"{name}-{number}"
        number += 1
    require_apart(path, inputs, is_default=out is None)
    return RunFolder.create(path, overwrite=overwrite)


def say_outcome(outcome: Outcome, folder: RunFolder, *, title: str) -> None:
    """The error first: matplotlib and the curves take a second or two."""
    with advising(lambda: FINISHED):
        say(*outcome_lines(outcome))
        mark("outcome")
        with resume_hint(folder, ""):
            current_group().by_first(lambda: draw_curves(folder, title=title))
        say(f"run folder     {folder.path}  ({CURVES}, final.json, model.safetensors)")


def draw_curves(folder: RunFolder, *, title: str) -> None:
    from laplacenet.reports.curves import draw_run

    draw_run(read_epochs(folder), folder.path / CURVES, title=title)
    mark("curves")


def say_profile(spans: Sequence[tuple[str, float]], folder: RunFolder) -> None:
    """Where the time went, also as a file."""
    found = summary(spans)
    current_group().by_first(lambda: write_json(folder.path / PROFILE, {**found, "marks": spans}))
    say("seconds")
    for part in ("start", "epoch", "end"):
        say(*(f"  {part:6} {name:22} {seconds:8.3f}" for name, seconds in found[part].items()))
    say(f"  beside the steps of an epoch  {found['beside_steps_s']:8.3f}  ({found['n_usual_epochs']} epochs, medians)")
    say(f"  compiling and capturing       {found['compiling']:8.3f}")
    say(f"  from the command on           {found['total_s']:8.3f}  ({PROFILE})")
