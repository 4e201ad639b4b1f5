"""One sitting before a labeling: read, choose, train or ask the graph, and say what came of it."""

import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Console

from laplacenet.cli.label_progress import StageDisplay
from laplacenet.cli.progress import Watch, print_line, reading, warn
from laplacenet.cli.session import fresh_folder
from laplacenet.cli.wording import duration, percent
from laplacenet.data import SKIPPED
from laplacenet.data.names import in_one_line
from laplacenet.labeling.choosing import chosen_size, settings_for
from laplacenet.labeling.embeddings import choices as graph_choices
from laplacenet.labeling.embeddings import run_on_embeddings
from laplacenet.labeling.job import Job, read_job
from laplacenet.labeling.result import SUMMARY, Interval, Labeling, load_labeling
from laplacenet.labeling.run import DEFAULT_LIMIT_S, begin, picture_run, planned, read_settings, require_trainable
from laplacenet.labeling.settings import LabelingSettings
from laplacenet.labeling.stages import LabelingContext
from laplacenet.reports.labeling_page import write_labeling_page
from laplacenet.runtime import Interruption, RunFolder
from laplacenet.training import Execution


def label_afresh(
    settings: LabelingSettings, texts: Sequence[str], out: Path | None, *, overwrite: bool, execution: Execution
) -> RunFolder:
    """`texts` are settings as --set takes them."""
    started_at, console = time.monotonic(), Console(stderr=True)
    size = chosen_size(settings.collection, execution.device)
    job = read(replace(settings, collection=replace(settings.collection, size=size)))
    settings = settings_for(job, texts, execution.device)
    if job.are_pictures and settings.time.limit_s is None and not any("train.steps" in text for text in texts):
        settings = replace(settings, time=replace(settings.time, limit_s=DEFAULT_LIMIT_S))
    job = replace(job, settings=settings)
    collection = settings.collection
    inputs = (collection.pictures, collection.labels, collection.test)
    folder = fresh_folder(out, name=f"{settings.name}-labels", overwrite=overwrite, inputs=inputs)
    say_notes(job, console)
    with folder.locked():
        if job.are_pictures:
            label_pictures(job, folder, execution=execution, started_at=started_at, is_fresh=True)
        else:
            begin(job, folder, execution)
            print_line(console, "chose: " + " ".join(graph_choices(job)))
            run_on_embeddings(job, folder, execution=execution, started_at=started_at)
    return folder


def label_on(path: Path, limit_s: float | None, *, execution: Execution) -> RunFolder:
    """Go on with the labeling in this folder; `limit_s` is the time that it is given from now on."""
    started_at, folder = time.monotonic(), RunFolder.open(path)
    settings = read_settings(folder)
    if settings.time.limit_s is not None or limit_s is not None:
        settings = replace(settings, time=replace(settings.time, limit_s=limit_s or DEFAULT_LIMIT_S))
    job = read(settings)
    with folder.locked():
        if job.are_pictures:
            label_pictures(job, folder, execution=execution, started_at=started_at, is_fresh=False)
        else:
            run_on_embeddings(job, folder, execution=execution, started_at=started_at)
    return folder


def read(settings: LabelingSettings) -> Job:
    with reading(settings.collection.pictures) as tally:
        return read_job(settings, tally)


def label_pictures(job: Job, folder: RunFolder, *, execution: Execution, started_at: float, is_fresh: bool) -> None:
    """Train and label; on an interruption say how it goes on and end with the signal's exit code."""
    console = Console(stderr=True)
    with Interruption() as interruption:
        context = LabelingContext(job, folder, execution, Watch(interruption), started_at)
        require_trainable(context)
        context, step_s = planned(context)
        if is_fresh:
            begin(context.job, folder, execution)
        run = picture_run(context, step_s=step_s)
        print_line(console, "chose: " + " ".join(run.choices))
        with StageDisplay(console, ends_at=run.ends_at) as display:
            for record in run.epochs():
                display.show(record)
    is_complete = folder.has(SUMMARY) and bool(folder.read(SUMMARY)["is_complete"])
    if interruption.signal is not None and not is_complete:
        page(folder)
        command = f"laplacenet label --resume {shlex.quote(str(folder.path))}"
        print_line(console, f"interrupted; what was found so far is kept in {folder.path}; go on with: {command}")
        raise typer.Exit(interruption.exit_code)


def say_notes(job: Job, console: Console) -> None:
    skipped = job.collection.skipped
    if skipped:
        first = f"{in_one_line(skipped[0].path)}: {in_one_line(skipped[0].reason)}"
        warn(console, f"{len(skipped)} files were skipped and are listed in {SKIPPED}; the first, {first}")
    for note in job.notes:
        warn(console, note)


def page(folder: RunFolder) -> None:
    if folder.has(SUMMARY):
        write_labeling_page(folder.path)


def say_outcome(folder: RunFolder) -> None:
    labeling = load_labeling(folder.path)
    for line in outcome_lines(labeling):
        typer.echo(line)
    typer.echo(f"run folder  {folder.path}  (labels.csv, report.html, model.safetensors)")


def outcome_lines(labeling: Labeling) -> list[str]:
    summary, estimate = labeling.summary, labeling.summary.estimate
    n_given, n_suspect = int(labeling.is_given.sum()), int(labeling.is_suspect.sum())
    lines = [f"labels      {len(labeling) - n_given} found, {n_given} given, {len(summary.class_names)} classes"]
    if estimate.accuracy is None:
        lines.append(f"accuracy    unknown. {estimate.method}")
    else:
        by = f"judged by {estimate.n} given labels that were hidden"
        lines.append(f"accuracy    about {told(estimate.accuracy, estimate.level)}, {by}")
    if estimate.test_accuracy is not None:
        lines.append(f"test        {told(estimate.test_accuracy, estimate.level)} on {estimate.n_test} test labels")
    if n_suspect:
        lines.append(f"suspect     {n_suspect} given labels look wrong; they are marked in labels.csv")
    lines.append(f"time        {duration(summary.elapsed_s)}")
    return lines


def told(share: Interval, level: float) -> str:
    return (
        f"{percent(share.value)} (between {percent(share.low)} and {percent(share.high)} with {level:.0%} confidence)"
    )
