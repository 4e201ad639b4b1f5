"""`laplacenet label`: from a folder of pictures, or embeddings, and a few labels to a label for each."""

from pathlib import Path
from typing import Annotated

import typer

from laplacenet.cli.options import (
    Device,
    Model,
    Overwrite,
    Settings,
    duration_of,
    existing,
    existing_run,
    refuse_beside_resume,
)

Pictures = Annotated[
    Path | None,
    typer.Argument(callback=existing, help="A folder of pictures, or an .npz or .npy file of images or embeddings."),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        callback=existing,
        help="The given labels: file names and labels in .csv, .tsv or .jsonl; for arrays a label a row."
        "  [default: sub-folders, or the labels in the file]",
    ),
]
Out = Annotated[Path | None, typer.Option(help="The run folder.  [default: runs/NAME-labels]")]
Time = Annotated[
    float | None,
    typer.Option(
        "--for",
        metavar="TIME",
        parser=duration_of("--for"),
        help="Time for everything, 90s, 4m or 2h.  [default: 4m for pictures]",
    ),
]
Test = Annotated[
    Path | None,
    typer.Option(callback=existing, help="True labels to judge by: a folder, an array file, or a label file."),
]
Size = Annotated[int | None, typer.Option(help="Bring the pictures of a folder to this many pixels a side.")]
NoFlip = Annotated[bool, typer.Option("--no-flip", help="A mirror image may be another class.")]
Steps = Annotated[int | None, typer.Option(help="Steps to train before the estimate, however long.")]
Batch = Annotated[int | None, typer.Option(help="Pictures in a step.")]
Prior = Annotated[
    str | None,
    typer.Option(
        metavar="shrunk|labeled|equal|A,B,…", help="How frequent the classes are taken to be.  [default: shrunk]"
    ),
]
NoSuspects = Annotated[
    bool, typer.Option("--no-suspects", help="Do not look for wrong labels among those given with pictures.")
]
Seed = Annotated[int | None, typer.Option(help="The seed of everything random.  [default: 0]")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse files that cannot be read.")]
Resume = Annotated[Path | None, typer.Option(callback=existing_run, help="Go on with the labeling in this run folder.")]


def label(
    pictures: Pictures = None,
    labels: Labels = None,
    out: Out = None,
    time_limit: Time = None,
    test: Test = None,
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
    device: Device = "auto",
) -> None:
    """Label every picture of a folder, or every embedding of a file, from the few labels that are known.

    Writes labels.csv with a confidence for each label, an honest estimate of their accuracy, a page to look at
    (report.html) and a model for new pictures. Pictures outside any sub-folder, and rows with label -1, are unknown.

    \b
    Examples:
      laplacenet label photos/
      laplacenet label photos/ --labels labels.csv --for 15m --no-flip
      laplacenet label embeddings.npz --labels labels.npy --out runs/mine
    """
    from laplacenet.cli.label_sitting import label_afresh, label_on, page, say_outcome
    from laplacenet.labeling.settings import CollectionConfig, LabelingSettings, TimeConfig
    from laplacenet.runtime import InputError, choose_device
    from laplacenet.training import Execution

    # each stage has a network of its own, and would spend its time on compiling
    execution = Execution(choose_device(device), compile=False)
    if resume is not None:
        fresh: dict[str, object] = {"pictures": pictures, "--labels": labels, "--out": out, "--test": test}
        fresh |= {"--size": size, "--model": model, "--no-flip": no_flip, "--steps": steps, "--batch": batch}
        fresh |= {"--prior": prior, "--no-suspects": no_suspects, "--set": settings, "--seed": seed}
        refuse_beside_resume(fresh | {"--strict": strict, "--overwrite": overwrite})
        folder = label_on(resume, time_limit, execution=execution)
    elif pictures is None:
        raise InputError("nothing to label; name a folder of pictures or a file of embeddings, or --resume a run")
    else:
        asked = LabelingSettings(
            name=pictures.resolve().stem,
            seed=seed or 0,
            prior=prior or "shrunk",
            collection=CollectionConfig(
                located(pictures), located_or_none(labels), located_or_none(test), size, strict
            ),
            time=TimeConfig(time_limit, suspects=not no_suspects),
        )
        texts = [*as_settings(model, no_flip=no_flip, steps=steps, batch=batch), *(settings or [])]
        folder = label_afresh(asked, texts, out, overwrite=overwrite, execution=execution)
    page(folder)
    say_outcome(folder)


def located(path: Path) -> str:
    """In full, so that the run folder finds its data from anywhere."""
    return str(path.expanduser().resolve())


def located_or_none(path: Path | None) -> str | None:
    return None if path is None else located(path)


def as_settings(model: str | None, *, no_flip: bool, steps: int | None, batch: int | None) -> list[str]:
    """The options that are short for settings, as --set takes them."""
    texts = [] if model is None else [f"model.name={model}"]
    texts += ["augment.flip=off"] if no_flip else []
    texts += [] if steps is None else [f"train.steps={steps}"]
    return texts + ([] if batch is None else [f"train.batch_size={batch}", f"train.labeled_batch_size={batch // 2}"])
