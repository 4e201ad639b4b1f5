"""`laplacenet train`: one run, from a data set and a few labels to a run folder."""

import time
from pathlib import Path
from typing import Annotated

import typer

from laplacenet.cli.options import (
    CheckpointEvery,
    Compile,
    DataDir,
    Device,
    Download,
    JudgeEvery,
    Model,
    Overwrite,
    Preset,
    Settings,
    TimeLimit,
    data_or_path,
    existing_run,
    known_method,
    options_as,
    refuse_beside_resume,
    typed_options,
)

Data = Annotated[
    str | None,
    typer.Argument(
        callback=data_or_path, help="A data set's name, a folder of pictures or an .npz file.  [default: digits]"
    ),
]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        metavar="N|FILE",
        help="How many labels to use, equally many of each class; or which: row numbers in .npz, .txt or .csv, "
        "a folder of published lists, or file names and labels in .csv, .tsv or .jsonl, which may be repeated."
        "  [default: the preset's number; of your own data, all]",
    ),
]
SplitKey = Annotated[
    str | None, typer.Option(help="Which split, where an .npz file or a folder holds several, such as 4000/00.")
]
MethodName = Annotated[
    str | None,
    typer.Option(
        "--method",
        callback=known_method,
        help="How to train: a name that laplacenet methods lists, or your own module:Class.  [default: laplacenet]",
    ),
]
Pretrained = Annotated[
    bool,
    typer.Option("--pretrained", help="Start --model lite0, lite1 or lite2 from its published weights (ImageNet)."),
]
Seed = Annotated[int | None, typer.Option(help="The random seed.  [default: 0]")]
Out = Annotated[Path | None, typer.Option(help="The run folder.  [default: runs/NAME-SEED]")]
Resume = Annotated[Path | None, typer.Option(callback=existing_run, help="Resume the run in this folder.")]
Profile = Annotated[
    bool, typer.Option("--profile", help="Print where the time went, and write it to profile.json in the run folder.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop if any picture of a folder cannot be read.")]
BESIDE_RESUME = (
    *("device", "compile_loss", "data_dir", "download"),
    *("checkpoint_every", "judge_every", "time_limit", "profile"),
)
"""Options that --resume accepts; all others are settings of the run, which its folder has."""


def train(
    data: Data = None,
    labels: Labels = None,
    split_key: SplitKey = None,
    method: MethodName = None,
    model: Model = None,
    pretrained: Pretrained = False,
    preset: Preset = None,
    settings: Settings = None,
    seed: Seed = None,
    out: Out = None,
    overwrite: Overwrite = False,
    resume: Resume = None,
    device: Device = "auto",
    compile_loss: Compile = False,
    data_dir: DataDir = None,
    download: Download = False,
    time_limit: TimeLimit = None,
    checkpoint_every: CheckpointEvery = 60.0,
    strict: Strict = False,
    judge_every: JudgeEvery = None,
    profile: Profile = False,
) -> None:
    """Train LaplaceNet, or another method, on a data set with few labels.

    A run that was stopped by --for, Ctrl-C or a crash is resumed from its last checkpoint with --resume.

    \b
    Settings: --set graph.k=20, --set method.n_views=5, …

    \b
    Examples:
      laplacenet train digits --labels 40
      laplacenet train digits --method fixmatch --seed 5
      laplacenet train digits --labels 100 --seed 1 --set train.lr=0.05
      laplacenet train photos/ --model lite0 --pretrained --set model.pixels=128
      laplacenet train photos/ --for 20m --checkpoint-every 5m
      laplacenet train --resume runs/photos-0
    """
    asked, started_at = locals(), time.monotonic()  # before the imports, which take seconds
    if resume is not None:
        refuse_beside_resume(typed_options(train, asked), *BESIDE_RESUME)
    from laplacenet.runtime.device import choose_device, wake_up

    chosen_device = choose_device(device)
    wake_up(chosen_device)  # meanwhile everything else is imported and read
    from laplacenet.cli.training import TrainOptions, train_and_report

    train_and_report(options_as(TrainOptions, asked), chosen_device, started_at=started_at)
