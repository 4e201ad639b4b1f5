"""Options that several commands share, and what is checked of them before torch is imported."""

import os
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer

Given = TypeVar("Given", Path | None, Sequence[Path])
DEVICES = re.compile(r"auto|cpu|cuda(:\d+)?")


def existing(given: Given) -> Given:
    """A callback: files and folders that are read must be there."""
    from laplacenet.runtime import InputError

    paths = [given] if isinstance(given, Path) else given or []
    for path in paths:
        if not path.expanduser().exists():
            raise InputError(f"{path}: no such file or folder")
    return given


def existing_run(given: Path | None) -> Path | None:
    """A callback: a run folder must be one."""
    from laplacenet.runtime import RunFolder

    if given is not None:
        RunFolder.open(given)
    return given


def written_run(given: Path) -> Path:
    """A callback: a run folder whose files are read; those of a review may be older than its answers."""
    from laplacenet.runtime import InputError
    from laplacenet.runtime.run_folder import ANSWERS

    existing_run(given)
    answers, labels = given / ANSWERS, given / "labeling.json"
    if not answers.is_file():
        return given
    command = f"laplacenet label --resume {shlex.quote(str(given))}"
    if not labels.is_file():
        raise InputError(f"{given}: a review whose labels were not written yet; write them with: {command}")
    if answers.stat().st_mtime_ns > labels.stat().st_mtime_ns:
        typer.echo(f"warning: {given} has newer answers than labels; write the labels anew with: {command}", err=True)
    return given


def data_or_path(given: str | None) -> str | None:
    """A callback: the name of a data set, which is looked up later, or a path, which must be there."""
    from laplacenet.runtime import InputError

    if given is not None and os.sep in given and not Path(given).expanduser().exists():
        raise InputError(f"no data set, folder or file called {given!r}")
    return given


def known_device(given: str) -> str:
    """A callback: whether the device exists is known later."""
    from laplacenet.runtime import InputError

    if not DEVICES.fullmatch(given):
        raise InputError(f"unknown device {given!r}; choose auto, cpu, cuda or cuda:N")
    return given


def duration_of(option: str) -> Callable[[str], float]:
    """A parser of durations for this option."""
    from laplacenet.runtime.durations import parse_duration

    return lambda text: parse_duration(text, option=option)


Device = Annotated[str, typer.Option(callback=known_device, help="Where to compute: auto, cpu, cuda or cuda:N.")]
Model = Annotated[
    str | None,
    typer.Option(
        help="The network: 13-cnn, wrn-28-2, wrn-28-8, resnet-18, resnet-50, small-cnn, patch-cnn, mlp,"
        " or EfficientNet-Lite: lite0, lite1, lite2."
        "  [default: one that suits the data]"
    ),
]
DataDir = Annotated[
    Path | None, typer.Option(help="The folder that holds named data sets.  [default: $LAPLACENET_DATA or data]")
]
Download = Annotated[bool, typer.Option("--download", help="Fetch CIFAR if it is not there.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.FIELD=VALUE", help="Another value for one setting; may be repeated."),
]
Compile = Annotated[
    bool, typer.Option("--compile", help="On a GPU, compile the loss: 25 s at the start for 2 % of a step's time.")
]
Preset = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Lay other defaults over those of the data:"
        " digits, cifar10, cifar100, mini-imagenet, two-moons, pictures or fast;"
        " original (the method's own paper) or equal (the protocol of LaplaceNet's Table IV).",
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the run in --out; all other files stay.")]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--for",
        metavar="TIME",
        parser=duration_of("--for"),
        help="Stop after this time (90s, 9m, 2h) with a checkpoint to resume from; the exit code is then 3.",
    ),
]

CheckpointEvery = Annotated[
    float,
    typer.Option(
        metavar="TIME",
        parser=duration_of("--checkpoint-every"),
        show_default=False,
        help="Save a checkpoint this often (90s, 9m, 2h): what a crash costs at most. The result is the same."
        "  [default: 60s]",
    ),
]


def refuse_beside_resume(settings: dict[str, object]) -> None:
    """Refuse settings of a fresh run by name: a resumed one would pass over them. None and False are not given."""
    from laplacenet.runtime import InputError

    given = [name for name, value in settings.items() if value is not None and value is not False]
    if given:
        raise InputError(f"--resume takes all settings from its run folder; leave out {', '.join(given)}")
