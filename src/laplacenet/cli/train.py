"""`laplacenet train`: one run, from a data set and a few labels to a run folder."""

from pathlib import Path
from typing import Annotated

import typer

from laplacenet.cli.options import DataDir, Device, Download, NoCompile, Overwrite, Settings, TimeLimit, seconds

Data = Annotated[
    str | None, typer.Argument(help="A data set's name, a folder of pictures or an .npz file.  [default: digits]")
]
Labels = Annotated[
    str | None,
    typer.Option(
        metavar="N|FILE",
        help="How many labels to show, as many of each class; or which: row numbers in .npz, .txt or .csv, "
        "or file names and labels in .csv, .tsv or .jsonl.",
    ),
]
SplitKey = Annotated[str | None, typer.Option(help="Which split, where an .npz file holds several.")]
Model = Annotated[str | None, typer.Option(help="The network's name.")]
Recipe = Annotated[str | None, typer.Option(help="Begin with the settings of this name.")]
Seed = Annotated[int | None, typer.Option(help="Of everything random.  [default: 0]")]
Out = Annotated[Path | None, typer.Option(help="The run folder.  [default: runs/NAME-SEED]")]
Resume = Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")]
Strict = Annotated[bool, typer.Option("--strict", help="Stop if any picture of a folder cannot be read.")]


def train(
    data: Data = None,
    labels: Labels = None,
    split_key: SplitKey = None,
    model: Model = None,
    recipe: Recipe = None,
    settings: Settings = None,
    seed: Seed = None,
    out: Out = None,
    overwrite: Overwrite = False,
    resume: Resume = None,
    device: Device = "auto",
    no_compile: NoCompile = False,
    data_dir: DataDir = None,
    download: Download = False,
    time_limit: TimeLimit = None,
    strict: Strict = False,
) -> None:
    """Train LaplaceNet on a data set of which a few labels are shown.

    \b
    Recipes: digits, cifar10, cifar100, mini-imagenet, two-moons, pictures.
    Settings: --set train.steps=500, --set graph.k=20, --set augment.flip=off, …;
    the baseline without pseudo-labels is --set train.label_source=none.

    \b
    Examples:
      laplacenet train digits --labels 40
      laplacenet train digits --labels 100 --seed 1 --set train.lr=0.05 --out runs/hundred
    """
    from laplacenet.cli.choices import chosen_experiment, in_folder
    from laplacenet.cli.sitting import fresh_folder, say_outcome, sit_through
    from laplacenet.data import SKIPPED, refuse_skipped, write_skipped
    from laplacenet.experiments import override, prepare, read_experiment
    from laplacenet.runtime import InputError, RunFolder, choose_device
    from laplacenet.training import Execution

    execution = Execution(choose_device(device), compile=not no_compile)
    limit_s = seconds(time_limit)
    if resume is not None:
        flags = overwrite or strict or None
        of_a_fresh_run = (data, labels, split_key, model, recipe, settings, seed, out, flags)
        if any(option is not None for option in of_a_fresh_run):
            raise InputError("--resume takes all settings from its run folder; leave out those of a fresh run")
        folder = RunFolder.open(resume)
        task = prepare(read_experiment(folder), data_folder=data_dir, download=download)
    else:
        experiment = chosen_experiment(data, recipe, labels=labels, split_key=split_key, model=model, seed=seed)
        experiment = override(in_folder(experiment, data_dir), settings or [])
        task = prepare(experiment, download=download)
        if strict:
            refuse_skipped(task.dataset.skipped)
        folder = fresh_folder(out, name=f"{experiment.name}-{experiment.seed}", overwrite=overwrite)
        if task.dataset.skipped:
            write_skipped(folder.path / SKIPPED, task.dataset.skipped)
    outcome = sit_through(task, folder, execution=execution, limit_s=limit_s)
    if outcome is not None:
        say_outcome(outcome, folder)
