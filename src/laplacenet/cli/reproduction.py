"""What `laplacenet reproduce` does: which runs are asked for, what they cost, and working through them in time."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from laplacenet.cli.progress import Watch, display_for
from laplacenet.cli.session import resume_hint
from laplacenet.cli.wording import duration, percent
from laplacenet.experiments.experiment import Experiment
from laplacenet.experiments.paper.costs import MEASURED_ON, cost_s
from laplacenet.experiments.paper.moons_record import FOLDER, RECORD
from laplacenet.experiments.paper.plan import whole_plan
from laplacenet.experiments.paper.recipes import RECIPES, Cell, Recipe, find_recipe
from laplacenet.experiments.paper.records import Record, read_record, read_records, record_path
from laplacenet.experiments.paper.reproduce import (
    Job,
    Places,
    is_recorded,
    left_out,
    make_job,
    planned_jobs,
    run_job,
    steps_done,
    unique,
)
from laplacenet.experiments.paper.series import RecordBook
from laplacenet.experiments.paper.variants import PAPER_STEPS
from laplacenet.runtime import InputError, Interruption, RunFolder
from laplacenet.training import Execution

ALL = "all"
FIGURE_2 = FOLDER


@dataclass(frozen=True)
class Asked:
    """The command line's words; without a name every table and figure is meant, to be listed."""

    name: str | None
    column: str | None
    row: str | None
    splits: str
    steps: int | None
    settings: tuple[str, ...]
    data: Path | None
    split_files: tuple[str, ...]
    runs: Path
    results: Path


def list_asked(asked: Asked) -> None:
    records = read_records(asked.results) if asked.results.is_dir() else []
    if asked.name == ALL:
        _refuse_choices(asked)
        list_plan(records)
    else:
        list_cells(asked, RecordBook(records))


def list_plan(records: Sequence[Record]) -> None:
    """The runs of `all` in their order; one that is recorded shows what came out, on whichever kind of split."""
    came_out = {
        (record.key.name, record.key.split, record.key.base_steps): _came_out(record)
        for record in records
        if not record.key.overrides
    }
    jobs = planned_jobs(whole_plan(), Places())
    keys = [(job.key.name, job.key.split, job.key.base_steps) for job in jobs]
    for number, (job, key) in enumerate(zip(jobs, keys, strict=True), start=1):
        name, split, steps = key
        known = came_out.get(key, "-")
        typer.echo(f"{number:>4}  {name:<68} split {split}  {steps:>6} steps  {_cost(job.experiment):<13} {known}")
    todo = [job for job, key in zip(jobs, keys, strict=True) if key not in came_out]
    counts = f"{len(jobs) - len(todo)} recorded, {len(todo)} to do{_estimate(todo)}"
    typer.echo(f"\n{len(jobs)} runs in the order of what they are worth: {counts}; figure-2 is made before them")


def list_cells(asked: Asked, book: RecordBook) -> None:
    if asked.name is None and (asked.column or asked.row):
        raise InputError("--cell and --row choose within a table or figure; name it")
    if asked.name in (None, FIGURE_2):
        typer.echo(
            "figure-2\n  Figure 2: two moons, graph pseudo-labels against the network's own\n  seconds on a CPU\n"
        )
    for name in [] if asked.name == FIGURE_2 else RECIPES if asked.name is None else [asked.name]:
        recipe = find_recipe(name)
        cells = _cells(recipe, asked)
        typer.echo(f"{recipe.name}\n  {recipe.title}")
        for cell in cells:
            published, cost = "" if cell.published is None else str(cell.published), _cost(cell.experiment)
            typer.echo(
                f"  {cell.column:<20} {cell.row:<32} {published:<14} {cost:<13} {_recorded(cell, book)}".rstrip()
            )
        typer.echo("")
    typer.echo(f"published number · time of one run with the paper's schedule on {MEASURED_ON} · what is recorded")


def _cost(experiment: Experiment) -> str:
    cost = cost_s(experiment)
    return "not measured" if cost is None else duration(cost)


def _came_out(record: Record) -> str:
    if record.diverged_at_step is not None:
        return f"diverged after step {record.diverged_at_step}"
    return f"test error {percent(record.outcome.test_error)}"


def _recorded(cell: Cell, book: RecordBook) -> str:
    found = [
        f"{len(series.records)} × {'full' if series.is_full else f'{series.base_steps} steps'} ({series.split_source})"
        for series in book.series(cell.experiment)
    ]
    return ", ".join(found) or "-"


def reproduce_figure_2(asked: Asked) -> None:
    """Seconds on a CPU; recorded once, its picture beside it."""
    from laplacenet.cli.figure_two import reproduce_figure_two

    folder = asked.results / FOLDER
    record = folder / RECORD
    if record.is_file():
        typer.echo(f"recorded already: {record}")
        return
    seeds = len(chosen_splits(asked.splits))
    folder.mkdir(parents=True, exist_ok=True)
    reproduce_figure_two(seeds=seeds, out=folder, record=record)


def work_through(asked: Asked, *, execution: Execution, limit_s: float | None) -> None:
    """One run after another until all are recorded, time is up or someone interrupts."""
    ends_at = None if limit_s is None else time.monotonic() + limit_s
    jobs, places = asked_jobs(asked)
    if asked.name == ALL:
        reproduce_figure_2(asked)
    n_recorded = sum(is_recorded(job, places.results) for job in jobs)
    todo = [job for job in jobs if not is_recorded(job, places.results)]
    if asked.name == ALL:
        reasons = left_out(todo)
        for reason in reasons.values():
            typer.echo(f"left out: {reason}", err=True)
        todo = [job for job in todo if job.experiment.data.name not in reasons]
    typer.echo(f"{len(jobs)} runs: {n_recorded} recorded already, {len(todo)} to do{_estimate(todo)}", err=True)
    for job in todo:
        left_s = None if ends_at is None else ends_at - time.monotonic()
        if left_s is not None and left_s <= 0:
            break
        _run_session(job, places, execution=execution, limit_s=left_s)
    n_missing = sum(not is_recorded(job, places.results) for job in todo)
    if n_missing:
        typer.echo(f"time is up, {n_missing} runs are left; give the same command again to go on", err=True)


def _run_session(job: Job, places: Places, *, execution: Execution, limit_s: float | None) -> None:
    title = f"{job.key.name} split {job.key.split}"
    n_steps, n_done = job.experiment.train.steps, steps_done(job, places)
    with Interruption() as interruption, display_for(title, n_steps=n_steps, n_done=n_done) as display:
        watch = Watch(interruption, display, limit_s=limit_s)
        if_finished = "the run is finished; the same command records it"
        with resume_hint(RunFolder(places.runs / job.key.path), "the same command", if_finished=if_finished):
            for epoch in run_job(job, places, execution=execution, monitor=watch):
                display.show(epoch)
    if is_recorded(job, places.results):
        record = read_record(record_path(places.results, job.key))
        typer.echo(f"{job.key.path}: {_came_out(record)}, {duration(record.outcome.total_s)}")
        return
    typer.echo(f"{job.key.path}: stopped at step {steps_done(job, places)} of {n_steps}, with a checkpoint")
    if interruption.signal is not None:
        typer.echo("interrupted; give the same command again to go on", err=True)
        raise typer.Exit(interruption.exit_code)


def asked_jobs(asked: Asked) -> tuple[list[Job], Places]:
    """The runs that the command line names, each once, in the order in which they should be made."""
    if asked.name == ALL:
        _refuse_choices(asked)
        stages = whole_plan()
        places = _places(asked, {cell.dataset for stage in stages for cell in stage.cells()})
        return planned_jobs(stages, places), places
    assert asked.name is not None, "nothing is asked for"
    cells = _cells(find_recipe(asked.name), asked)
    places = _places(asked, {cell.dataset for cell in cells})
    base_steps = PAPER_STEPS if asked.steps is None else asked.steps
    if base_steps < 1:
        raise InputError(f"--steps {base_steps}: give at least one")
    jobs = unique(
        make_job(cell, split, places, base_steps=base_steps, overrides=asked.settings)
        for split in chosen_splits(asked.splits)
        for cell in cells
    )
    return jobs, places


def _refuse_choices(asked: Asked) -> None:
    own = {"--cell": asked.column, "--row": asked.row, "--steps": asked.steps, "--set": asked.settings}
    named = [option for option, value in own.items() if value]
    if named:
        raise InputError(f"all follows its own plan; leave out {', '.join(named)}")


def _cells(recipe: Recipe, asked: Asked) -> list[Cell]:
    cells = list(recipe.cells if asked.column is None else recipe.cells_in(asked.column))
    rows = list(dict.fromkeys(cell.row for cell in cells))
    if asked.row is not None and asked.row not in rows:
        raise InputError(f"{recipe.name} has no row {asked.row!r}; choose one of {', '.join(rows)}")
    return [cell for cell in cells if asked.row in (None, cell.row)]


def _places(asked: Asked, datasets: set[str]) -> Places:
    if asked.data is not None and not asked.data.is_dir():
        raise InputError(f"--data {asked.data}: no such folder")
    return Places(
        runs=asked.runs,
        results=asked.results,
        data=None if asked.data is None else str(asked.data.resolve()),
        split_files=chosen_split_files(asked.split_files, datasets),
    )


def chosen_split_files(words: tuple[str, ...], datasets: set[str]) -> dict[str, str]:
    """`FILE` where one data set is run, `DATASET=FILE` where there are several."""
    files: dict[str, str] = {}
    for word in words:
        name, equals, file = word.partition("=")
        if not equals:
            if len(datasets) > 1:
                known = " ".join(f"--split-file {dataset}=FILE" for dataset in sorted(datasets))
                raise InputError(f"--split-file {word}: several data sets are to be run, say whose it is: {known}")
            (name,), file = datasets, word
        if name not in datasets:
            raise InputError(
                f"--split-file {word}: {name} is not to be run; choose one of {', '.join(sorted(datasets))}"
            )
        path = Path(file).expanduser()
        if not path.is_file():
            raise InputError(f"--split-file {file}: no such file")
        files[name] = str(path.resolve())
    return files


def chosen_splits(text: str) -> list[int]:
    """`0`, `0-4` or `0,2,3`."""
    splits: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise InputError(f"--splits {text}: give numbers such as 0, 0-4 or 0,2,3")
        splits += range(int(first), int(last if dash else first) + 1)
    if not splits:
        raise InputError(f"--splits {text}: no split is named; give numbers such as 0, 0-4 or 0,2,3")
    return list(dict.fromkeys(splits))


def _estimate(jobs: list[Job]) -> str:
    costs = [cost_s(job.experiment) for job in jobs]
    known = sum(cost for cost in costs if cost is not None)
    return f", about {duration(known)} on {MEASURED_ON}" if known else ""
