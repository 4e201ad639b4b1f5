"""`laplacenet label`: from a folder of pictures, or embeddings, and a few labels to a label for each."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
)
from laplacenet.cli.output import say

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
        help="Time limit, such as 90s, 4m or 2h. With pretrained features, time that they leave goes into training, too."
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
        help="Who looks at the pictures of a folder: a pretrained network, or one trained on them alone (scratch).",
    ),
]
Weights = Annotated[Path | None, typer.Option(help="A file of weights for --features, in place of its own.")]
MergeClasses = Annotated[
    bool,
    typer.Option("--merge-classes", help="Make one class of names that differ only in case, spaces or accents."),
]
Size = Annotated[int | None, typer.Option(help="Resize the pictures of a folder to this many pixels a side.")]
NoFlip = Annotated[bool, typer.Option("--no-flip", help="Do not mirror pictures: a mirror image may be another class.")]
Steps = Annotated[
    int | None, typer.Option(help="Training steps of the first network.  [default: as many as fit into the time]")
]
Batch = Annotated[int | None, typer.Option(help="Pictures per training step.")]
Prior = Annotated[
    str | None,
    typer.Option(
        metavar="shrunk|labeled|equal|A,B,…", help="How frequent the classes are expected to be.  [default: shrunk]"
    ),
]
NoSuspects = Annotated[
    bool, typer.Option("--no-suspects", help="Do not look for wrong labels among those given with pictures.")
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
    no_flip: NoFlip = False,
    steps: Steps = None,
    batch: Batch = None,
    prior: Prior = None,
    no_suspects: NoSuspects = False,
    settings: Settings = None,
    seed: Seed = None,
    strict: Strict = False,
    overwrite: Overwrite = False,
    resume: Resume = None,
    checkpoint_every: CheckpointEvery = 60.0,
    device: Device = "auto",
) -> None:
    """Label every picture of a folder, or every embedding of a file, from the few labels that are known.

    Writes labels.csv with a confidence for each label, an estimate of their accuracy, a page to look at (report.html)
    and a model for new pictures. Pictures outside any sub-folder, and rows with label -1, are unlabeled. Exit code 3:
    the time was up before the labeling was complete; --resume goes on.

    \b
    Examples:
      laplacenet label photos/
      laplacenet label photos/ --labels labels.csv --labels more.csv --for 15m --no-flip
      laplacenet label embeddings.npz --labels labels.npy --out runs/mine
    """
    from laplacenet import api
    from laplacenet.runtime.run_folder import ANSWERS

    if resume is not None:
        is_review = (resume / ANSWERS).is_file()  # answers in files join the others
        fresh: dict[str, object] = {"pictures": pictures, "--labels": None if is_review else labels}
        fresh |= {"--out": out, "--test": test}
        fresh |= {"--size": size, "--model": model, "--no-flip": no_flip, "--steps": steps, "--batch": batch}
        fresh |= {"--features": None if features == "auto" else features, "--weights": weights}
        fresh |= {"--merge-classes": merge_classes}
        fresh |= {"--prior": prior, "--no-suspects": no_suspects, "--set": settings, "--seed": seed}
        refuse_beside_resume(fresh | {"--strict": strict, "--overwrite": overwrite})
    try:
        run = api.label(
            pictures,
            labels,
            out=out,
            time_limit=time_limit,
            test=test,
            features=features,
            weights=weights,
            merge_classes=merge_classes,
            size=size,
            model=model,
            flip=not no_flip,
            steps=steps,
            batch_size=batch,
            prior=prior or "shrunk",
            suspects=not no_suspects,
            settings=settings or (),
            seed=seed or 0,
            strict=strict,
            overwrite=overwrite,
            device=device,
            checkpoint_every=checkpoint_every,
            resume=resume,
            progress=terminal_progress,
        )
    except api.Interrupted as error:
        end(error.run, exit_code=error.exit_code)
    else:
        end(run)


def terminal_progress() -> "TerminalProgress":
    from laplacenet.cli.label_progress import TerminalProgress

    return TerminalProgress()


def end(run: "LabelingRun", *, exit_code: int = 0) -> None:
    """Say what came of it, or how to go on, and end with the exit code."""
    from laplacenet.runtime import TimeLimitError

    if run.has_labels and exit_code == 0:
        say(*result_lines(run))
    reason = "interrupted" if exit_code else "time is up"
    got = "; ".join(map(str, run.stages))
    command = f"laplacenet label --resume {shlex.quote(str(run.path))}"
    kept = "the labels so far are kept" if run.has_labels else "there are no labels yet"
    line = f"{reason} ({got}); {kept}; go on with: {command}"
    if exit_code:
        say(line, err=True)
        raise typer.Exit(exit_code)
    if run.is_out_of_time:
        raise TimeLimitError(line)


def result_lines(run: "LabelingRun") -> list[str]:
    from laplacenet.cli.wording import duration

    summary, estimate = run.data.summary, run.estimate
    n_given, n_suspect = int(run.is_given.sum()), int(run.data.is_suspect.sum())
    lines = [f"labels      {len(run.paths) - n_given} found, {n_given} given, {len(run.class_names)} classes"]
    if estimate.accuracy is None:
        lines.append(f"accuracy    unknown. {estimate.method}")
    else:
        by = f"estimated from {estimate.n} given labels that were hidden"
        lines.append(f"accuracy    about {share(estimate.accuracy, estimate.level)}, {by}")
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
