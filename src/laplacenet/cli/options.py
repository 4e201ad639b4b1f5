"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Device = Annotated[str, typer.Option(help="Where to compute: auto, cpu, cuda or cuda:N.")]
Model = Annotated[
    str | None,
    typer.Option(
        help="The network: 13-cnn, wrn-28-2, wrn-28-8, resnet-18, resnet-50, small-cnn, patch-cnn or mlp."
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
        " digits, cifar10, cifar100, mini-imagenet, two-moons or pictures.",
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Delete the run that lies there and begin anew.")]
TimeLimit = Annotated[
    str | None,
    typer.Option("--for", metavar="TIME", help="Stop after this time (90s, 9m, 2h) with a checkpoint to resume from."),
]

CheckpointEvery = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="Save a checkpoint this often (90s, 9m, 2h): what a crash costs at most. The result is the same.",
    ),
]


def refuse_beside_resume(settings: dict[str, object]) -> None:
    """Refuse settings of a fresh run by name: a resumed one would pass over them. None and False are not given."""
    from laplacenet.runtime import InputError

    given = [name for name, value in settings.items() if value is not None and value is not False]
    if given:
        raise InputError(f"--resume takes all settings from its run folder; leave out {', '.join(given)}")


def time_limit_s(text: str | None) -> float | None:
    """Of --for; None where it was not given."""
    return None if text is None else seconds(text, option="--for")


def seconds(text: str, *, option: str) -> float:
    """`90s`, `9m`, `2h` or a plain number of seconds; a refusal names the option."""
    from laplacenet.runtime import InputError

    number, unit = (text[:-1], text[-1]) if text[-1:] in ("s", "m", "h") else (text, "s")
    try:
        duration = float(number) * {"s": 1, "m": 60, "h": 3600}[unit]
    except ValueError:
        duration = -1.0
    if not 0 < duration < float("inf"):
        raise InputError(f"{option} {text}: give a time such as 90s, 9m or 2h")
    return duration
