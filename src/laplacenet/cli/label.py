"""`laplacenet label`: from a folder of pictures, or embeddings, and a few labels to a label for each."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from laplacenet.cli.options import (
    CheckpointEvery,
    Device,
    Model,
    Overwrite,
    Settings,
    duration_of,
    existing,
    existing_run,
    refuse_beside_resume,
    typed_options,
)
from laplacenet.cli.output import say
from laplacenet.runtime.launch import read_launch
from laplacenet.runtime.run_folder import ANSWERS, is_ours_after_restart

if TYPE_CHECKING:
    from laplacenet.api import LabelingRun
    from laplacenet.cli.label_progress import TerminalProgress
    from laplacenet.labeling.result import Interval

Pictures = Annotated[
    Path | None,
    typer.Argument(callback=existing, help="A folder of pictures, or an .npz or .npy file of images or embeddings."),
]
Labels = Annotated[
    list[Path] | None,
    typer.Option(
        callback=existing,
        help="A file of given labels: file names and labels in .csv, .tsv or .jsonl; for arrays one label per row."
        " May be repeated.  [default: sub-folders, or the labels in the file]",
    ),
]
Out = Annotated[Path | None, typer.Option(help="The run folder.  [default: runs/NAME-labels]")]
Time = Annotated[
    float | None,
    typer.Option(
        "--for",
        metavar="TIME",
        parser=duration_of("--for"),
        help="Time limit, such as 90s, 4m or 2h. Time left after embedding is used for training."
        "  [default: 4m where a network is trained; with --resume that of the run]",
    ),
]
Test = Annotated[
    Path | None,
    typer.Option(callback=existing, help="True labels to test with: a folder, an array file, or a label file."),
]
Features = Annotated[
    str,
    typer.Option(
        metavar="auto|lite0|lite1|lite2|timm:NAME|FILE.onnx|scratch",
        help="Which network embeds the pictures of a folder: a pretrained one, or one trained on them alone (scratch).",
    ),
]
Weights = Annotated[Path | None, typer.Option(help="A file of weights for --features, in place of the published ones.")]
MergeClasses = Annotated[
    bool,
    typer.Option("--merge-classes", help="Merge classes whose names differ only in case, spaces or accents."),
]
Size = Annotated[int | None, typer.Option(help="Resize the pictures of a folder to this many pixels a side.")]
Flip = Annotated[
    bool,
    typer.Option(
        "--flip/--no-flip", help="Mirror pictures at random; turn it off if a mirror image may be another class."
    ),
]
Steps = Annotated[
    int | None, typer.Option(help="Training steps of the first network.  [default: as many as fit into the time]")
]
BatchSize = Annotated[int | None, typer.Option("--batch", help="Pictures per training step.")]
Prior = Annotated[
    str | None,
    typer.Option(
        metavar="shrunk|labeled|equal|A,B,…", help="The expected frequencies of the classes.  [default: shrunk]"
    ),
]
Suspects = Annotated[
    bool, typer.Option("--suspects/--no-suspects", help="Check the given labels of pictures for mistakes.")
]
Seed = Annotated[int | None, typer.Option(help="The random seed.  [default: 0]")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse files that cannot be read.")]
Resume = Annotated[Path | None, typer.Option(callback=existing_run, help="Resume the labeling in this run folder.")]


def label(
    pictures: Pictures = None,
    labels: Labels = None,
    out: Out = None,
    time_limit: Time = None,
    test: Test = None,
    features: Features = "auto",
    weights: Weights = None,
    merge_classes: MergeClasses = False,
    size: Size = None,
    model: Model = None,
    flip: Flip = True,
    steps: Steps = None,
    batch_size: BatchSize = None,
    prior: Prior = None,
    suspects: Suspects = True,
    settings: Settings = None,
    seed: Seed = None,
    strict: Strict = False,
    overwrite: Overwrite = False,
    resume: Resume = None,
    checkpoint_every: CheckpointEvery = 60.0,
    device: Device = "auto",
) -> None:
    """Label every picture of a folder, or every embedding of a file, from the few labels that are known.

    Writes labels.csv with a confidence for each label, an estimate of their accuracy, a report (report.html)
    and a model for new pictures. Pictures outside any sub-folder, and rows with label -1, are unlabeled. Exit code 3:
    the time limit was reached before the labeling was complete; go on with --resume.

    \b
    Examples:
      laplacenet label photos/
      laplacenet label photos/ --labels labels.csv --labels more.csv --for 15m
      laplacenet label embeddings.npz --labels labels.npy --out runs/mine
    """
    asked = locals()
    if resume is None and out is not None and is_restarted(out, device):
        asked = {name: asked[name] for name in ("time_limit", "checkpoint_every", "device")} | {"resume": out}
    elif resume is not None:
        more = ["labels"] if is_review(resume) else []  # answers in files join the others
        refuse_beside_resume(typed_options(label, asked), "time_limit", "checkpoint_every", "device", *more)
    label_and_say(asked)


def is_restarted(out: Path, device: str) -> bool:
    """Whether `torchrun` has started the command again and `out` holds its run; the first process decides for all."""
    if not read_launch().n_restarts:
        return False
    from laplacenet.runtime import choose_device, start_group

    return start_group(choose_device(device)).by_first(lambda: is_ours_after_restart(out))


def is_review(run: Path) -> bool:
    return (run / ANSWERS).is_file()


def label_and_say(asked: dict[str, Any]) -> None:
    """`asked` are arguments of `laplacenet.label`, which does the work; None stands for its default."""
    from laplacenet import api

    try:
        given = {name: value for name, value in asked.items() if value is not None}
        run = api.label(**given, progress=terminal_progress)
    except api.Interrupted as error:
        end(error.run, exit_code=error.exit_code)
    else:
        end(run)


def terminal_progress() -> "TerminalProgress":
    from laplacenet.cli.label_progress import TerminalProgress

    return TerminalProgress()


def end(run: "LabelingRun", *, exit_code: int = 0) -> None:
    """Print the result, or how to go on, and end with the exit code."""
    from laplacenet.labeling.pictures import describe_progress
    from laplacenet.runtime import TimeLimitError
    from laplacenet.runtime.launch import program

    if run.has_labels and exit_code == 0:
        say(*result_lines(run))
    reason = "interrupted" if exit_code else "time is up"
    got = describe_progress(run.stages)
    command = f"{program()} label --resume {shlex.quote(str(run.path))}"
    kept = "the labels so far are kept" if run.has_labels else "there are no labels yet"
    line = f"{reason} ({got}); {kept}; go on with: {command}"
    if exit_code:
        say(line, err=True)
        raise typer.Exit(exit_code)
    if run.is_out_of_time:
        raise TimeLimitError(line)


def result_lines(run: "LabelingRun") -> list[str]:
    from laplacenet.cli.wording import duration
    from laplacenet.runtime.wording import counted

    summary, estimate = run.data.summary, run.estimate
    n_given, n_suspect = int(run.is_given.sum()), int(run.data.is_suspect.sum())
    lines = [f"labels      {len(run.paths) - n_given} new, {n_given} given, {counted(len(run.class_names), 'class')}"]
    if estimate.accuracy is None:
        lines.append(f"accuracy    unknown. {estimate.method}")
    else:
        of = "" if n_given < len(run.paths) else " on new ones"
        by = f"estimated from {estimate.n} given labels that were held out"
        lines.append(f"accuracy    about {share(estimate.accuracy, estimate.level)}{of}, {by}")
    if estimate.test_accuracy is not None:
        lines.append(f"test        {share(estimate.test_accuracy, estimate.level)} on {estimate.n_test} test labels")
    if n_suspect:
        noun = "label looks wrong; it is" if n_suspect == 1 else "labels look wrong; they are"
        lines.append(f"suspect     {n_suspect} given {noun} marked in labels.csv")
    lines.append(f"time        {duration(summary.elapsed_s)}")
    return [*lines, f"run folder  {run.path}  (labels.csv, report.html, model.safetensors)"]


def share(found: "Interval", level: float = 0.95) -> str:
    """35 % (95 % confidence interval 18–57 %): more digits than that would say nothing."""
    interval = f"{100 * found.low:.0f}–{100 * found.high:.0f} %"
    return f"{100 * found.value:.0f} % ({100 * level:.0f} % confidence interval {interval})"
