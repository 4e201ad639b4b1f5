"""What `laplacenet reproduce` does: which runs are requested, what they cost, and making them within a time limit."""

import signal
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import typer

from laplacenet.cli.figure_two import reproduce_figure_two
from laplacenet.cli.out_files import no_empty_folder
from laplacenet.cli.reproduce import parse_splits
from laplacenet.cli.session import resume_hint, show_epochs, steps_done
from laplacenet.cli.wording import duration, percent
from laplacenet.data import holds_published_lists
from laplacenet.experiments.experiment import Experiment
from laplacenet.experiments.paper.costs import MEASURED_ON, cost_s
from laplacenet.experiments.paper.moons_record import FOLDER
from laplacenet.experiments.paper.plan import whole_plan
from laplacenet.experiments.paper.recipes import RECIPES, Cell, Recipe, find_recipe
from laplacenet.experiments.paper.records import Record, read_record, read_records, record_path
from laplacenet.experiments.paper.reproduce import (
    Places,
    PlannedRun,
    carry_out,
    is_recorded,
    plan_run,
    plan_runs,
    require_whole_split,
    unique,
    unreadable_datasets,
)
from laplacenet.experiments.paper.series import RecordBook, settings_of
from laplacenet.experiments.paper.variants import PAPER_STEPS
from laplacenet.experiments.presets import JUDGED_EVERY, preset_named
from laplacenet.runtime import (
    InputError,
    RunFolder,
    TimeLimitError,
    choose_device,
    current_group,
    read_launch,
    start_group,
)
from laplacenet.runtime.files import require_folder
from laplacenet.runtime.wording import counted
from laplacenet.training import Execution
from laplacenet.training.methods.presets import METHOD_PRESETS

ALL = "all"
FIGURE_2, FIGURE_2_SEEDS = FOLDER, range(5)
USED_BY_FIGURE_2 = {"name", "--list", "--splits", "--results"}
UNUSED_BY_ALL = {"--column", "--row", "--splits", "--steps", "--preset", "--set"}


@dataclass(frozen=True)
class Request:
    """The command's arguments; without a name every table and figure is meant, to be listed. Times are in seconds."""

    name: str | None
    column: str | None
    row: str | None
    splits: str
    steps: int | None
    preset: str | None
    settings: Sequence[str] | None
    data_dir: Path | None
    split_files: Sequence[str] | None
    runs: Path
    results: Path
    time_limit: float | None = None
    checkpoint_every: float = 60.0
    judge_every: int | None = None
    device: str = "auto"
    compile_loss: bool = False

    @property
    def base_steps(self) -> int:
        """What stands for the paper's 250 000 steps: `--steps`, or those of a preset such as `fast`."""
        if self.steps is not None and self.steps < 1:
            raise InputError(f"--steps {self.steps}: give at least one")
        is_own = self.preset is None or self.preset in METHOD_PRESETS
        planned = PAPER_STEPS if is_own else preset_named(str(self.preset)).train.steps
        return planned if self.steps is None else self.steps

    @property
    def has_other_settings(self) -> bool:
        """Whether it asks for other runs than the paper's; `original` and `equal` choose among those."""
        is_changed = self.preset is not None and self.preset not in METHOD_PRESETS
        return is_changed or self.steps is not None or bool(self.settings)

    def run_of(self, cell: Cell, split: int, places: Places) -> PlannedRun:
        settings, steps = tuple(self.settings or ()), self.base_steps
        try:
            return plan_run(cell, split, places, base_steps=steps, preset=self.preset, overrides=settings)
        except InputError as error:
            if self.row is not None:
                raise
            raise InputError(f"{cell.row}: {error}") from error

    def execution(self) -> Execution:
        return Execution(
            choose_device(self.device),
            compile=self.compile_loss,
            checkpoint_every_s=self.checkpoint_every,
            judge_every=self.judge_every or JUDGED_EVERY.get(self.preset or "", 1),
        )


def refuse_unused(name: str | None, given: Collection[str]) -> None:
    """Refuse by name the options that were given and would have no effect."""
    if name == FIGURE_2:
        reason, unused = "figure-2 trains three small networks for seconds on a CPU", set(given) - USED_BY_FIGURE_2
    elif name == ALL:
        reason, unused = "all follows its own plan", set(given) & UNUSED_BY_ALL
    else:
        return
    if unused:
        raise InputError(f"{reason}; leave out {', '.join(sorted(unused))}")


def refuse_several_processes(what: str) -> None:
    if read_launch().size > 1:
        raise InputError(f"{what} takes one process; leave out torchrun")


def make(request: Request) -> None:
    """What is asked for, as far as it is not recorded and the time allows."""
    if request.name is None:
        raise InputError("nothing to reproduce; name a table or figure, or all (--list shows them)")
    if request.name == FIGURE_2:
        refuse_several_processes(FIGURE_2)
        reproduce_figure_two(request.results, parse_splits(request.splits))
        return
    execution = request.execution()
    start_group(execution.device)
    with no_empty_folder(request.results), no_empty_folder(request.runs):
        work_through(request, execution=execution, limit_s=request.time_limit)


def list_request(request: Request) -> None:
    refuse_several_processes("--list")
    records = read_records(request.results) if request.results.exists() else []
    if request.name == ALL:
        list_plan(records)
    else:
        list_cells(request, RecordBook(records))


def list_plan(records: Sequence[Record]) -> None:
    """The runs of `all` in their order; one that is recorded shows what came out, on whichever kind of split."""
    came_out = {
        (record.key.name, record.key.split, record.key.base_steps): _came_out(record)
        for record in records
        if not record.key.overrides
    }
    runs = plan_runs(whole_plan(), Places())
    keys = [(run.key.name, run.key.split, run.key.base_steps) for run in runs]
    for number, (run, key) in enumerate(zip(runs, keys, strict=True), start=1):
        name, split, steps = key
        known = came_out.get(key, "-")
        typer.echo(f"{number:>4}  {name:<68} split {split}  {steps:>6} steps  {_cost(run.experiment):<13} {known}")
    todo = [run for run, key in zip(runs, keys, strict=True) if key not in came_out]
    counts = f"{len(runs) - len(todo)} recorded, {len(todo)} to do{_estimate(todo)}"
    typer.echo(f"\n{len(runs)} runs, the most informative first: {counts}; figure-2 is made before them")


def list_cells(request: Request, book: RecordBook) -> None:
    """The cells of one table or figure; or of all, but for those of other methods, which would be most of the list."""
    if request.name is None and (request.column or request.row):
        raise InputError("--column and --row choose within a table or figure; name it")
    if request.name in (None, FIGURE_2):
        typer.echo(
            "figure-2\n  Figure 2: two moons, graph pseudo-labels against the network's own\n  seconds on a CPU\n"
        )
    recipes = [] if request.name == FIGURE_2 else RECIPES if request.name is None else [request.name]
    cells_of = {name: _cells(find_recipe(name), request, is_listed=not request.has_other_settings) for name in recipes}
    runs = _fitting_runs([cell for cells in cells_of.values() for cell in cells], request)
    for name, cells in cells_of.items():
        recipe = find_recipe(name)
        typer.echo(f"{recipe.name}\n  {recipe.title}")
        others = {cell.row for cell in recipe.others if cell.preset is not None} if request.name is None else set()
        show_cells([cell for cell in cells if cell.row not in others], runs, book)
        if others:
            typer.echo(f"  {len(others)} other methods: laplacenet reproduce {name} --list")
        typer.echo("")
    if request.has_other_settings:
        typer.echo(
            "Below each data set and number of labels: the row, its published number, the\n"
            f"expected time of a run with these settings on {MEASURED_ON}, and how many\n"
            "runs are recorded with them."
        )
        return
    typer.echo(
        "Below each data set and number of labels: the row, its published number, the\n"
        f"expected time of a run with the paper's schedule on {MEASURED_ON}, and how\n"
        "many runs are recorded with the paper's steps (full) or with fewer (short)."
    )


def _fitting_runs(cells: Sequence[Cell], request: Request) -> dict[Cell, PlannedRun] | None:
    """The run of each cell that the request's settings apply to; None where it asks for the paper's.

    Settings that apply to no cell are refused, as they are without `--list`.
    """
    if not request.has_other_settings:
        return None
    runs, refusals = {}, []
    for cell in cells:
        try:
            runs[cell] = request.run_of(cell, 0, Places())
        except InputError as error:
            refusals.append(error)
    if refusals and not runs:
        raise refusals[0]
    return runs


def show_cells(cells: Sequence[Cell], runs: dict[Cell, PlannedRun] | None, book: RecordBook) -> None:
    """By data set and number of labels; every column as wide as its longest entry."""
    rows = [_listed(cell, runs, book) for cell in cells]
    widths = [max(map(len, entries)) for entries in zip(*rows, strict=True)]
    for column in dict.fromkeys(cell.column for cell in cells):
        typer.echo(f"  {column}")
        for row in [row for cell, row in zip(cells, rows, strict=True) if cell.column == column]:
            padded = (f"{entry:<{width}}" for entry, width in zip(row, widths, strict=True))
            typer.echo(f"    {'  '.join(padded)}".rstrip())


def _listed(cell: Cell, runs: dict[Cell, PlannedRun] | None, book: RecordBook) -> tuple[str, ...]:
    published = "" if cell.published is None else str(cell.published)
    row = cell.row if cell.preset is None else f"{cell.row}, {cell.preset}"
    if runs is None:
        return row, published, _cost(cell.experiment), _recorded(cell, book)
    run = runs.get(cell)
    if run is None:
        return row, published, "does not apply", "-"
    n_recorded = sum(is_same_but_for_split(record, run) for record in book.records)
    return row, published, _cost(run.experiment), str(n_recorded or "-")


def is_same_but_for_split(record: Record, run: PlannedRun) -> bool:
    key = replace(record.key, split=run.key.split, split_source=run.key.split_source)
    return key == run.key and settings_of(record.experiment) == settings_of(run.experiment)


def _cost(experiment: Experiment) -> str:
    cost = cost_s(experiment)
    return "not measured" if cost is None else duration(cost)


def _came_out(record: Record) -> str:
    if record.diverged_at_step is not None:
        return f"diverged after step {record.diverged_at_step}"
    return f"test error {percent(record.outcome.test_error)}"


def _recorded(cell: Cell, book: RecordBook) -> str:
    """How many runs there are with the paper's schedule and with a shorter one."""
    series = book.series(cell.experiment)
    n_full = sum(len(one.records) for one in series if one.is_full)
    n_short = sum(len(one.records) for one in series if not one.is_full)
    return ", ".join(f"{n} {kind}" for n, kind in ((n_full, "full"), (n_short, "short")) if n) or "-"


def work_through(request: Request, *, execution: Execution, limit_s: float | None) -> None:
    """One run after another until all are recorded, time is up or someone interrupts."""
    ends_at = None if limit_s is None else time.monotonic() + limit_s
    runs, places = requested_runs(request)
    group = current_group()
    for run in runs:  # those that are recorded too: an earlier version may have recorded a split that was cut short
        require_whole_split(run)
    if request.name == ALL:
        group.by_first(lambda: reproduce_figure_two(places.results, FIGURE_2_SEEDS))
    recorded = group.by_first(lambda: [is_recorded(run, places.results) for run in runs])
    n_recorded = sum(recorded)
    todo = [run for run, is_done in zip(runs, recorded, strict=True) if not is_done]
    if request.name == ALL:
        reasons = group.by_first(partial(unreadable_datasets, todo))
        for reason in reasons.values():
            typer.echo(f"left out: {reason}", err=True)
        todo = [run for run in todo if run.experiment.data.name not in reasons]
    counts = f"{n_recorded} recorded already, {len(todo)} to do{_estimate(todo)}"
    typer.echo(f"{counted(len(runs), 'run')}: {counts}", err=True)
    if todo:  # minutes of training should not end in a place that cannot be written to
        group.by_first(lambda: require_folder(places.results, option="--results"))
        group.by_first(lambda: require_folder(places.runs, option="--runs"))
    for run in todo:
        left_s = group.by_first(lambda: None if ends_at is None else ends_at - time.monotonic())
        if left_s is not None and left_s <= 0:
            break
        _work_on(run, places, execution=execution, limit_s=left_s)
    n_missing = group.by_first(lambda: sum(not is_recorded(run, places.results) for run in todo))
    if n_missing:
        raise TimeLimitError(f"time is up, runs left to do: {n_missing}; give the same command again to go on")


def _work_on(run: PlannedRun, places: Places, *, execution: Execution, limit_s: float | None) -> None:
    """One run up to its record, as far as time allows; an interruption ends the command."""
    folder = RunFolder(places.runs / run.key.path)
    with resume_hint(folder, "the same command", if_finished="the run is finished; the same command records it"):
        interruption = show_epochs(
            lambda watch: carry_out(run, places, execution=execution, monitor=watch),
            folder,
            title=f"{run.key.name} split {run.key.split}",
            n_steps=run.experiment.train.steps,
            limit_s=limit_s,
        )
    group = current_group()
    record = group.by_first(lambda: _record_of(run, places.results))
    if record is not None:
        typer.echo(f"{run.key.path}: {_came_out(record)}, {duration(record.outcome.total_s)}")
        return
    n_steps = run.experiment.train.steps
    typer.echo(f"{run.key.path}: stopped at step {steps_done(folder)} of {n_steps}, with a checkpoint")
    if group.agree(interruption.signal is not None):
        typer.echo("interrupted; give the same command again to go on", err=True)
        raise typer.Exit(interruption.exit_code or 128 + signal.SIGTERM)


def _record_of(run: PlannedRun, results: Path) -> Record | None:
    return read_record(record_path(results, run.key)) if is_recorded(run, results) else None


def requested_runs(request: Request) -> tuple[list[PlannedRun], Places]:
    """The runs that the command line names, each once, in the order in which they should be made."""
    if request.name == ALL:
        entries = whole_plan()
        places = _places(request, {cell.dataset for entry in entries for cell in entry.cells()})
        return plan_runs(entries, places), places
    assert request.name is not None, "nothing is asked for"
    cells = _cells(find_recipe(request.name), request)
    places = _places(request, {cell.dataset for cell in cells})
    runs = unique(request.run_of(cell, split, places) for split in parse_splits(request.splits) for cell in cells)
    return runs, places


def _cells(recipe: Recipe, request: Request, *, is_listed: bool = False) -> list[Cell]:
    """Those that are asked for: other methods' cells by their row or by a preset of the methods, or to be listed."""
    cells = [*recipe.cells, *recipe.others]
    if request.column is not None:
        own = recipe.cells_in(request.column)
        cells = [*own, *(cell for cell in recipe.others if cell.column == request.column)]
    rows = list(dict.fromkeys(cell.row for cell in cells))
    if request.row is not None and request.row not in rows:
        raise InputError(f"{recipe.name} has no row {request.row!r}; choose one of {', '.join(rows)}")
    if request.row is not None:
        cells = [cell for cell in cells if cell.row == request.row]
    if request.preset in METHOD_PRESETS:
        return [cell for cell in cells if cell.preset in (None, request.preset)]
    ours = [cell for cell in cells if cell.preset is None]
    return ours if ours and request.row is None and not is_listed else cells


def _places(request: Request, datasets: set[str]) -> Places:
    if request.data_dir is not None and not request.data_dir.is_dir():
        raise InputError(f"--data-dir {request.data_dir}: no such folder")
    return Places(
        runs=request.runs,
        results=request.results,
        data=None if request.data_dir is None else str(request.data_dir.resolve()),
        split_files=parse_split_files(tuple(request.split_files or ()), datasets),
    )


def parse_split_files(words: tuple[str, ...], datasets: set[str]) -> dict[str, str]:
    """`FILE` where one data set is run, `DATASET=FILE` where there are several."""
    files: dict[str, str] = {}
    for word in words:
        name, equals, file = word.partition("=")
        if not equals:
            if len(datasets) > 1:
                known = " ".join(f"--split-file {dataset}=FILE" for dataset in sorted(datasets))
                raise InputError(
                    f"--split-file {word}: several data sets are requested; say which one it is for: {known}"
                )
            (name,), file = datasets, word
        if name not in datasets:
            raise InputError(
                f"--split-file {word}: {name} is not requested; choose one of {', '.join(sorted(datasets))}"
            )
        if name in files:
            raise InputError(f"--split-file {word}: {name} is given twice; put all its lists into one folder")
        path = Path(file).expanduser()
        if not path.is_file() and not holds_published_lists(path):
            found = "a folder without lists" if path.is_dir() else "no such file"
            raise InputError(
                f"--split-file {word}: {found}; give an .npz file, or a folder with files such as"
                " 4000_balanced_labels/00.txt"
            )
        files[name] = str(path.resolve())
    return files


def _estimate(runs: list[PlannedRun]) -> str:
    costs = [cost_s(run.experiment) for run in runs]
    known = sum(cost for cost in costs if cost is not None)
    return f", about {duration(known)} on {MEASURED_ON}" if known else ""
