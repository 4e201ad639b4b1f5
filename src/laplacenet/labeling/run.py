"""A labeling's run folder: begun with its settings, or opened again to go on."""

import time
from dataclasses import replace

from laplacenet.data import SKIPPED, data_hash, write_skipped
from laplacenet.labeling.choosing import picture_choices
from laplacenet.labeling.job import Job
from laplacenet.labeling.picture_run import PictureRun
from laplacenet.labeling.result import SUMMARY
from laplacenet.labeling.settings import KIND, LabelingSettings
from laplacenet.labeling.stage_plan import REPORTING_S, SHARES, StagePlan, fastest_threads, steps_within
from laplacenet.labeling.stages import LabelingContext
from laplacenet.models import require_fit
from laplacenet.runtime import InputError, RunFolder, provenance
from laplacenet.runtime.run_folder import EXPERIMENT, PROVENANCE
from laplacenet.runtime.settings import from_json, to_json
from laplacenet.training import Execution, TrainConfig

DEFAULT_LIMIT_S = 240.0


def begin(job: Job, folder: RunFolder, execution: Execution) -> None:
    """Write down what is done; `experiment.json` last, with which a run begins to exist."""
    if job.collection.skipped:
        write_skipped(folder.path / SKIPPED, job.collection.skipped)
    origin = {"seed": job.settings.seed, "data": {"name": job.settings.name, "rows": data_hash(job.collection.rows)}}
    folder.write_sealed(PROVENANCE, provenance(execution.device) | origin)
    folder.write(EXPERIMENT, to_json(job.settings))


def read_settings(folder: RunFolder) -> LabelingSettings:
    content = folder.read(EXPERIMENT)
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise InputError(f"{folder.path}: is no labeling; go on with laplacenet train --resume {folder.path}")
    return from_json(LabelingSettings(), content, source=str(folder.path / EXPERIMENT))


def planned(context: LabelingContext) -> tuple[LabelingContext, float | None]:
    """The context with the number of steps that fit its time, and what a step takes; where steps were asked for, none.

    An asked-for number is any but the paper's, which no run in minutes could mean.
    """
    job = context.job
    limit_s = job.settings.time.limit_s
    if limit_s is None or job.settings.train.steps != TrainConfig.steps:
        return context, None
    _, step_s = fastest_threads(context)
    left_s = context.started_at + limit_s - time.monotonic() - REPORTING_S
    steps = min(steps_within(max(0.0, left_s) * SHARES["estimate"], step_s), StagePlan(context, None).most_steps)
    settings = replace(job.settings, train=replace(job.settings.train, steps=steps))
    return replace(context, job=replace(job, settings=settings)), step_s


def require_trainable(context: LabelingContext) -> None:
    """Refuse a network that cannot read these pictures, and a crop larger than they are, before anything is written."""
    settings = context.job.settings
    height, width = context.rows.images.shape[2:]
    settings.augment.pad_for(height, width)
    example = context.views.plain(context.rows.images[:1])
    require_fit(context.description().build(), example, name=settings.model.name)


def picture_run(context: LabelingContext, *, step_s: float | None) -> PictureRun:
    limit_s = context.job.settings.time.limit_s
    ends_at = None if limit_s is None else context.started_at + limit_s
    return PictureRun(
        context, picture_choices(context.job, step_s=step_s), step_s, ends_at, elapsed_before_s(context.folder)
    )


def elapsed_before_s(folder: RunFolder) -> float:
    """The time of earlier sessions, as far as it was written down."""
    return float(folder.read(SUMMARY)["elapsed_s"]) if folder.has(SUMMARY) else 0.0
