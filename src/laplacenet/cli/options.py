"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Device = Annotated[str, typer.Option(help="Where to compute: auto, cpu, cuda or cuda:N.")]
DataDir = Annotated[
    Path | None, typer.Option(help="The folder that holds named data sets  [default: $LAPLACENET_DATA or data].")
]
Download = Annotated[bool, typer.Option("--download", help="Fetch CIFAR if it is not there.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.FIELD=VALUE", help="Another value for one setting; may be repeated."),
]
NoCompile = Annotated[bool, typer.Option("--no-compile", help="On a GPU, begin at once with uncompiled code.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Delete the run that lies there and begin anew.")]
TimeLimit = Annotated[
    str | None,
    typer.Option("--for", metavar="TIME", help="Stop after this time (90s, 9m, 2h) with a checkpoint to resume from."),
]


def seconds(text: str | None) -> float | None:
    """`90s`, `9m`, `2h` or a plain number of seconds."""
    from laplacenet.runtime import InputError

    if text is None:
        return None
    number, unit = (text[:-1], text[-1]) if text[-1:] in ("s", "m", "h") else (text, "s")
    try:
        duration = float(number) * {"s": 1, "m": 60, "h": 3600}[unit]
    except ValueError:
        duration = -1.0
    if not 0 < duration < float("inf"):
        raise InputError(f"--for {text}: give a time such as 90s, 9m or 2h")
    return duration
