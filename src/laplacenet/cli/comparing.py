"""What `laplacenet compare` does: from its options to a comparison, and its runs within the time limit."""

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from laplacenet.cli.out_files import no_empty_folder, require_place
from laplacenet.cli.output import let_one_process_report, say
from laplacenet.cli.progress import TEST_ERROR
from laplacenet.cli.session import read_task, resume_hint, show_epochs
from laplacenet.cli.wording import duration, percent
from laplacenet.experiments import DataConfig, Experiment
from laplacenet.experiments.compare import ComparedRun, Comparison, Tuning, Workbench
from laplacenet.experiments.compare.comparison import MOST_SEEDS
from laplacenet.experiments.compare.folder import EARLIER, PICTURE, RECORD, TABLE
from laplacenet.experiments.confidence import confidence_notes
from laplacenet.reports.comparison import COLUMNS, comparison_record, draw_comparison, markdown_table, table_rows
from laplacenet.runtime import (
    InputError,
    RunError,
    RunFolder,
    provenance,
    read_json,
    read_launch,
    require_apart,
    write_sealed,
    write_whole,
)
from laplacenet.runtime.cache_folder import lock_of
from laplacenet.runtime.errors import FULL
from laplacenet.runtime.files import json_bytes, sealed, write_named
from laplacenet.runtime.group import side_by_side
from laplacenet.runtime.peers import advising
from laplacenet.training import METHODS
from laplacenet.training.methods.presets import METHOD_PRESETS

ALL = "all"
FAILED, TIME_IS_UP = 1, 3  # exit codes; both are resumable
POLLED_EVERY_S = 0.5
AGAIN = "give the same command again to go on"


@dataclass(frozen=True)
class Request:
    """The options that say what is compared; times are in seconds."""

    methods: str
    run_time: float | None
    steps: int | None
    seeds: int
    tune: float | None
    rates: str | None
    held_out: int | None
    finalists: int | None
    settings: Sequence[str] | None
    split_key: str | None
    preset: str | None


def chosen_comparison(base: Experiment, request: Request) -> Comparison:
    if (request.run_time is None) == (request.steps is None):
        raise InputError("give either --for TIME or --steps N: equal minutes or equal steps")
    if not 1 <= request.seeds <= MOST_SEEDS:
        raise InputError(f"--seeds {request.seeds}: give a number between 1 and {MOST_SEEDS}")
    if request.split_key is not None and base.data.split_file is None:
        raise InputError(f"--split-key {request.split_key} names an entry of a split file; give the file with --labels")
    if request.steps is not None:
        base = replace(base, train=replace(base.train, steps=request.steps))
    return Comparison(
        base=base,
        methods=chosen_methods(request.methods),
        for_s=request.run_time,
        seeds=tuple(range(base.seed, base.seed + request.seeds)),
        tuning=chosen_tuning(request),
        finalists=request.finalists,
        settings=tuple(request.settings or ()),
        split_key=request.split_key,
        preset=request.preset if request.preset in METHOD_PRESETS else None,
    )


def chosen_methods(text: str) -> tuple[str, ...]:
    return tuple(METHODS) if text == ALL else tuple(name.strip() for name in text.split(",") if name.strip())


def chosen_tuning(request: Request) -> Tuning | None:
    parts = {"--tune": request.tune, "--rates": request.rates, "--held-out": request.held_out}
    missing = [option for option, value in parts.items() if value is None]
    if request.tune is None or request.rates is None or request.held_out is None:
        if len(missing) < len(parts):
            raise InputError(f"tuning needs --tune, --rates and --held-out; {' and '.join(missing)} not given")
        return None
    try:
        rates = tuple(float(rate) for rate in request.rates.split(","))
    except ValueError as error:
        raise InputError(f"--rates {request.rates}: give numbers, such as 0.01,0.03,0.1") from error
    return Tuning(request.tune, rates, request.held_out)


def work_together(
    bench: Workbench, *, limit_s: float | None, record: Path | None, download: bool = False, again: bool = False
) -> None:
    """`work_through` by all processes that torchrun started, or by this one alone.

    They share the runs among themselves: each run is made by one of them, as it would be without the others, and the
    first process reports.
    """
    with side_by_side(), advising(lambda: AGAIN), no_empty_folder(bench.folder):
        work_through(bench, limit_s=limit_s, record=record, download=download, again=again)


def work_through(
    bench: Workbench, *, limit_s: float | None, record: Path | None, download: bool = False, again: bool = False
) -> None:
    """One run after another; the record is written anew after each of them, the table and the picture at the end.

    With a limit no run is begun that is not expected to end within it. `again` is for runs whose settings have changed.
    """
    ends_at = None if limit_s is None else time.monotonic() + limit_s
    if record is not None:
        require_place(record, option="--record")
    require_apart(bench.folder, inputs_of(bench.comparison.base.data))
    bench.begin(record)
    seed = bench.comparison.seeds[0]
    first = bench.comparison.experiment(bench.comparison.methods[0], seed)
    with bench.lock("download") if download else contextlib.nullcontext():
        bench.tasks[seed] = read_task(first, download=download)  # data that cannot be read is refused before any run
    bench.require_same_data()
    bench.take_over(record)
    tell_of_changes(bench, again=again)
    warn_before_runs(bench)
    stopped, has_made_runs = "", False
    while not stopped:
        with bench.claim() as run:
            if run is not None:
                left_s = None if ends_at is None else ends_at - time.monotonic()
                stopped = why_not(bench, run, left_s=left_s)
                if not stopped:
                    with errors_of_all():
                        _try(bench, run, limit_s=left_s)
                    has_made_runs = True
                    write_record(bench, record)
        if run is None:
            if not waits_for_others(bench):
                break
            time.sleep(POLLED_EVERY_S)
    if read_launch().is_first:
        report_all(bench, record, stopped, has_made_runs=has_made_runs)


def tell_of_changes(bench: Workbench, *, again: bool) -> None:
    """Say which runs had other settings than new ones will have; with `again` they are to be made again."""
    with bench.lock("opening"):
        found = bench.changed_runs()
        for run in found if again else ():
            bench.set_aside(run)
    by_method: dict[str, dict[str, None]] = {}
    for run, changed in found.items():
        by_method.setdefault(run.method, {}).update(dict.fromkeys(changed))
    what_now = f"set aside in {bench.folder / EARLIER}" if again else "--again makes them again"
    for method, changes in by_method.items():
        settings = "; ".join(changes)
        say(f"{method}: earlier runs had other settings than new ones will have: {settings} ({what_now})", err=True)


def warn_before_runs(bench: Workbench) -> None:
    """Of label files, and once for each method of thresholds that are out of reach."""
    seed = bench.comparison.seeds[0]
    task = bench.task_of_seed(seed)
    for note in task.file_notes:
        say(f"warning: {note}", err=True)
    n_classes = len(task.class_names)
    for method in bench.comparison.methods:
        for note in confidence_notes(bench.comparison.experiment(method, seed), n_classes=n_classes):
            say(f"warning: {method}: {note}", err=True)


def inputs_of(data: DataConfig) -> list[str]:
    """The files and folders that are read."""
    labels = data.label_file or ()
    named = [data.name, data.split_file or "", *([labels] if isinstance(labels, str) else labels)]
    return [path for path in named if Path(path).is_absolute()]


@contextlib.contextmanager
def errors_of_all() -> Iterator[None]:
    """Let the process that made a run report its error, since only the first process usually prints."""
    try:
        yield
    except (InputError, RunError, OSError):
        if not read_launch().is_first:
            sys.stderr = sys.__stderr__
        raise


def waits_for_others(bench: Workbench) -> bool:
    """Whether other processes under torchrun are still working; the next runs may depend on their results."""
    return read_launch().size > 1 and bool(bench.due_runs())


def report_all(bench: Workbench, record: Path | None, stopped: str, *, has_made_runs: bool) -> None:
    """Report on all runs, once the other processes that torchrun started have finished."""
    while read_launch().size > 1 and any(map(bench.is_claimed, bench.due_runs())):
        time.sleep(POLLED_EVERY_S)
    write_reports(bench, record, has_made_runs=has_made_runs)
    show_table(bench, record)
    n_left, failures = len(bench.due_runs()), bench.failures()
    for failed in failures:
        say(f"{failed.name} failed ({failed.error}); give the same command again to try it again", err=True)
    if stopped:
        typer.echo(f"{stopped}; {AGAIN}", err=True)
        raise typer.Exit(TIME_IS_UP)
    if n_left:
        typer.echo(f"other processes are still at work (runs left: {n_left}); the last one writes the table", err=True)
    if failures:
        raise typer.Exit(FAILED)


def why_not(bench: Workbench, run: ComparedRun, *, left_s: float | None) -> str:
    """Why the run is not begun; nothing if there is time for it."""
    if left_s is None:
        return ""
    needed_s = bench.expected_s(run)
    if left_s <= 0:
        return "time is up"
    if left_s < needed_s:
        left = duration(left_s)
        return f"time is up: {run.name} needs about {duration(needed_s)}, but only {left} of --limit is left"
    return ""


def _try(bench: Workbench, run: ComparedRun, *, limit_s: float | None) -> None:
    """One run. An error affects this run only, and the others go on, unless it is invalid input or a full disk."""
    try:
        _work_on(bench, run, limit_s=limit_s)
    except (InputError, typer.Exit):
        raise
    except Exception as error:
        if any(isinstance(known, OSError) and known.errno in FULL for known in (error, error.__cause__)):
            raise
        bench.keep_failure(run, error)
        traceback.print_exc()
        typer.echo(f"{run.name}: failed; the other runs go on", err=True)


def _work_on(bench: Workbench, run: ComparedRun, *, limit_s: float | None) -> None:
    """One run up to its end, as far as time allows; an interruption ends the command."""
    task, folder = bench.task(run), RunFolder(bench.folder / run.name)
    with resume_hint(folder, "the same command"):
        interruption = show_epochs(
            lambda watch: bench.epochs(run, task, watch),
            folder,
            title=run.name,
            n_steps=task.experiment.train.steps,
            limit_s=limit_s,
            error_name="error on held-out labels" if run.is_tuning else TEST_ERROR,
        )
    if bench.is_done(run):
        result = bench.result(run)
        said = "diverged" if result.outcome is None else f"error {percent(result.outcome.test_error)}"
        judged_on = " on held-out labels" if run.is_tuning else ""
        typer.echo(f"{run.name}: {said}{judged_on}, {result.experiment.train.steps} steps in {result.train_s:.0f} s")
    if interruption.signal is not None:
        let_one_process_report()
        typer.echo(f"interrupted; {AGAIN}", err=True)
        raise typer.Exit(interruption.exit_code)


def write_record(bench: Workbench, record: Path | None, *, has_made_runs: bool = True) -> None:
    """Only one of the processes that work in the folder or share the record writes at a time.

    A command that has made no run leaves the record's own command, machine and date as they are.
    """
    path = Path(os.path.realpath(record or bench.folder / RECORD))  # a link is not replaced
    path.parent.mkdir(parents=True, exist_ok=True)
    with bench.lock("reports"), lock_of(path):
        bench.take_over(record)  # the file may have gained runs from elsewhere since
        content = comparison_record(bench.identity, bench.tuning_results(), bench.results(), bench.failures())
        origin = provenance(bench.execution.device)
        if not has_made_runs and path.is_file():
            known = read_json(path)  # taken over just now, so it is a record
            origin = {name: known.get(name, value) for name, value in origin.items()}
        content = origin | content
        if record is None:
            write_sealed(path, content)
        else:  # among the user's own files
            write_named(path, json_bytes(sealed(content)))


def write_reports(bench: Workbench, record: Path | None, *, has_made_runs: bool) -> None:
    write_record(bench, record, has_made_runs=has_made_runs)
    results = bench.results()
    if not results:
        return
    n_labeled = next((result.outcome.n_labeled for result in results if result.outcome is not None), None)
    title = bench.comparison.base.name + ("" if n_labeled is None else f", {n_labeled} labels")
    with bench.lock("reports"):
        draw_comparison(results, bench.folder / PICTURE, title=title)
        write_whole(bench.folder / TABLE, markdown_table(results).encode())


def show_table(bench: Workbench, record: Path | None) -> None:
    table = Table(*COLUMNS)
    for row in table_rows(bench.results()):
        table.add_row(*row)
    console = Console()
    console.print(table, markup=False) if console.is_terminal else Console(width=160).print(table, markup=False)
    if record is None:
        say(f"table, picture and record: {bench.folder}")
    else:
        say(f"table and picture: {bench.folder}; record: {record}")
