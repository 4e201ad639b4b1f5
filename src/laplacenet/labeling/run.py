"""A labeling's run folder: begun with its settings, or opened again to go on."""

import time
from dataclasses import replace
from pathlib import Path

import torch

from laplacenet.data import SKIPPED, write_skipped
from laplacenet.labeling.choosing import picture_choices
from laplacenet.labeling.inputs import InputRecord, input_changes
from laplacenet.labeling.job import Job
from laplacenet.labeling.picture_run import PictureRun
from laplacenet.labeling.result import SUMMARY, read_labeling_file
from laplacenet.labeling.settings import LabelingSettings
from laplacenet.labeling.stage_plan import (
    SHARES,
    StagePlan,
    hidden_folds,
    measure_threads,
    reporting_s,
    steps_within,
    threads_to_try,
)
from laplacenet.labeling.stages import LabelingContext
from laplacenet.models import require_fit
from laplacenet.runtime import InputError, NullMonitor, RunFolder, provenance
from laplacenet.runtime.run_folder import EXPERIMENT, PROVENANCE
from laplacenet.runtime.settings import from_json, to_json
from laplacenet.training import Execution

DEFAULT_LIMIT_S = 240.0
PASSES_PER_STAGE = 2
"""Labelings of all rows that a short stage makes: before its first epoch and at its end."""


def begin(job: Job, folder: RunFolder, execution: Execution) -> None:
    """Write down what is done; `experiment.json` last, with which a run begins to exist."""
    if job.collection.skipped:
        write_skipped(folder.path / SKIPPED, job.collection.skipped)
    record_inputs(job, folder, execution)
    folder.write(EXPERIMENT, to_json(job.settings))


def record_inputs(job: Job, folder: RunFolder, execution: Execution) -> None:
    """Where the labels come from: the pictures and given labels, each by its checksum."""
    origin = {"seed": job.settings.seed, "data": to_json(InputRecord.of(job))}
    folder.write_sealed(PROVENANCE, provenance(execution.device) | origin)


def read_settings(folder: RunFolder) -> LabelingSettings:
    """Of a run of label, or of another command that labels, whose `kind` says so."""
    content = folder.read(EXPERIMENT)
    if not isinstance(content, dict) or "kind" not in content:
        raise InputError(f"{folder.path}: is no labeling; go on with laplacenet train --resume {folder.path}")
    return from_json(LabelingSettings(), content, source=str(folder.path / EXPERIMENT))


def require_same_inputs(job: Job, folder: RunFolder) -> None:
    """Refuse to go on with other pictures or labels than the run began with: what it learned would not fit them."""
    if changes := input_changes_of(job, folder):
        raise InputError(
            f"{folder.path}: not the inputs that this run began with ({changes});"
            " restore them, or label them as they are now into another --out"
        )


def full_plan(context: LabelingContext) -> StagePlan:
    job = context.job
    return StagePlan(context, hidden_folds(job.given, seed=job.settings.seed))


def input_changes_of(job: Job, folder: RunFolder) -> str | None:
    """How the inputs differ from those that the run began with, in words."""
    return input_changes(folder.read_sealed(PROVENANCE).get("data"), job, source=str(folder.path / PROVENANCE))


def plan_steps(context: LabelingContext) -> tuple[LabelingContext, float | None]:
    """The context with its threads and steps, and what a step takes.

    Steps that were asked for are taken as they are, with None for their time; otherwise as many as fit into the time.
    """
    settings, limit_s = context.job.settings, context.job.settings.time.limit_s
    if settings.time.steps is not None or limit_s is None:
        steps = settings.time.steps or settings.train.steps
        settings = replace(settings, threads=settings.threads or torch.get_num_threads())
        return with_settings(context, replace(settings, train=replace(settings.train, steps=steps))), None
    numbers = [settings.threads] if settings.threads else threads_to_try(context)
    threads, step_s, pass_s = measure_threads(context, numbers)
    settings = replace(settings, threads=threads)
    context = with_settings(context, settings)
    left_s = context.started_at + limit_s - time.monotonic() - reporting_s(len(context.rows))
    passes_s = len(full_plan(context).names) * PASSES_PER_STAGE * pass_s
    if settings.time.suspects and passes_s > left_s / 2 and not context.path("").exists():
        settings = replace(settings, time=replace(settings.time, suspects=False))  # the labels themselves come first
    steps = min(steps_within(max(0.0, left_s) * SHARES["estimate"], step_s), StagePlan(context, None).most_steps)
    return with_settings(context, replace(settings, train=replace(settings.train, steps=steps))), step_s


def with_settings(context: LabelingContext, settings: LabelingSettings) -> LabelingContext:
    return replace(context, job=replace(context.job, settings=settings))


def require_trainable(job: Job, execution: Execution) -> None:
    """Refuse a network that cannot read these pictures, and a crop larger than they are, before anything is written."""
    settings, nowhere = job.settings, RunFolder(Path())
    context = LabelingContext(job, nowhere, execution, NullMonitor(), 0.0)
    height, width = context.rows.images.shape[2:]
    settings.augment.pad_for(height, width)
    example = context.views.plain(context.rows.images[:1])
    require_fit(context.description().build(), example, name=settings.model.name)


def picture_run(context: LabelingContext, *, step_s: float | None, why: tuple[str, ...] = ()) -> PictureRun:
    limit_s = context.job.settings.time.limit_s
    return PictureRun(
        context,
        (*why, *picture_choices(context.job, step_s=step_s)),
        step_s=step_s,
        ends_at=None if limit_s is None else context.started_at + limit_s,
        elapsed_before_s=elapsed_before_s(context.folder),
    )


def elapsed_before_s(folder: RunFolder) -> float:
    """The time of earlier sessions, as far as it was written down; a damaged file will be written anew."""
    try:
        return read_labeling_file(folder.path).summary.elapsed_s if folder.has(SUMMARY) else 0.0
    except InputError:
        return 0.0
