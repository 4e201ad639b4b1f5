"""What `laplacenet train` does: from its options to a run, new or resumed, and its result."""

from dataclasses import dataclass
from pathlib import Path

import torch

from laplacenet.cli.choices import ExperimentOptions, new_experiment
from laplacenet.cli.output import say
from laplacenet.cli.session import folder_of_run, keep_skipped, read_task, run_session, say_outcome, say_profile
from laplacenet.data import DATASET_NAMES
from laplacenet.experiments import Task, read_experiment
from laplacenet.experiments.fitting import fit_method
from laplacenet.experiments.presets import JUDGED_EVERY
from laplacenet.experiments.run import judged_every
from laplacenet.runtime import RunFolder, start_group
from laplacenet.runtime.monitor import reading_ends_at, time_left
from laplacenet.runtime.timeline import mark, timeline
from laplacenet.training import Execution, MethodConfig
from laplacenet.training.methods.presets import ORIGINAL


@dataclass(frozen=True)
class TrainOptions(ExperimentOptions):
    """All options of the command; times are in seconds."""

    out: Path | None
    overwrite: bool
    resume: Path | None
    compile_loss: bool
    download: bool
    time_limit: float | None
    checkpoint_every: float
    strict: bool
    judge_every: int | None
    profile: bool


def train_and_report(options: TrainOptions, device: torch.device, *, started_at: float) -> None:
    """Train to the end or the time limit, and print the result; `started_at` is by `time.monotonic`."""
    with timeline(is_on=options.profile) as line:
        ends_at = reading_ends_at(options.time_limit, started_at)
        execution = Execution(
            device,
            compile=options.compile_loss,
            checkpoint_every_s=options.checkpoint_every,
            judge_every=options.judge_every or usual_judge_every(options),
        )
        start_group(device)
        mark("importing")
        task, folder = (new_run if options.resume is None else resumed_run)(options, ends_at)
        mark("reading")
        limit_s = time_left(options.time_limit, started_at)
        outcome = run_session(task, folder, execution=execution, limit_s=limit_s)
        say_outcome(outcome, folder, title=task.experiment.name)
    if options.profile:
        say_profile(line.spans(), folder)


def usual_judge_every(options: TrainOptions) -> int:
    """That of the preset; a run that is resumed keeps what it began with."""
    if options.resume is not None:
        return judged_every(RunFolder.open(options.resume))
    return JUDGED_EVERY.get(options.preset or "", 1)


def new_run(options: TrainOptions, ends_at: float | None) -> tuple[Task, RunFolder]:
    experiment = new_experiment(options)
    task = read_task(experiment, download=options.download, is_strict=options.strict, ends_at=ends_at)
    if options.preset != ORIGINAL:
        task = fit_method(task, options.settings or [])
    folder = folder_of_run(
        options.out,
        name=f"{experiment.name}-{experiment.seed}",
        overwrite=options.overwrite,
        inputs=(None if options.data in DATASET_NAMES else options.data, *(options.labels or ())),
    )
    say_fitted(experiment.method, task.experiment.method)
    keep_skipped(task, folder)
    return task, folder


def say_fitted(chosen: MethodConfig, fitted: MethodConfig) -> None:
    """The settings that were adapted to the run's length and inputs: papers give them for other runs."""
    changed = [(name, old, vars(fitted)[name]) for name, old in vars(chosen).items() if vars(fitted)[name] != old]
    for name, old, new in changed:
        say(f"method.{name} is {new:.6g}, not {old:g}, to suit this run; --set method.{name} overrides it", err=True)


def resumed_run(options: TrainOptions, ends_at: float | None) -> tuple[Task, RunFolder]:
    assert options.resume is not None
    folder = RunFolder.open(options.resume)
    experiment = read_experiment(folder)
    return read_task(experiment, data_folder=options.data_dir, download=options.download, ends_at=ends_at), folder
