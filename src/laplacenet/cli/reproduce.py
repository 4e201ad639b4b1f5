"""`laplacenet reproduce`: the paper's tables and figures by name."""

from pathlib import Path
from typing import Annotated

import typer

from laplacenet.cli.options import CheckpointEvery, Device, NoCompile, Settings, TimeLimit

Name = Annotated[str | None, typer.Argument(help="table-3 to table-9, figure-2 to figure-4, class-weighting, or all.")]
Show = Annotated[bool, typer.Option("--list", help="Show every cell, its cost and what is recorded of it.")]
Cell = Annotated[str | None, typer.Option(help="One column only, such as cifar100/4000.")]
Row = Annotated[str | None, typer.Option(help="One row only, such as LaplaceNet.")]
Splits = Annotated[str, typer.Option(help="Which label splits: 0, 0-4 or 0,2,3.")]
Steps = Annotated[
    int | None, typer.Option(help="A shorter schedule in place of the paper's 250 000 steps; recorded as such.")
]
Data = Annotated[
    Path | None, typer.Option(help="The folder that holds the data sets.  [default: $LAPLACENET_DATA or data]")
]
SplitFile = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[DATASET=]FILE",
        help="Published splits (.npz with keys such as 4000/00); may be repeated. Without it splits are drawn.",
    ),
]
Runs = Annotated[Path, typer.Option(help="Where run folders go.")]
Results = Annotated[Path, typer.Option(help="Where records go.")]


def reproduce(
    name: Name = None,
    show: Show = False,
    cell: Cell = None,
    row: Row = None,
    splits: Splits = "0",
    steps: Steps = None,
    data: Data = None,
    split_file: SplitFile = None,
    settings: Settings = None,
    time_limit: TimeLimit = None,
    checkpoint_every: CheckpointEvery = 60.0,
    runs: Runs = Path("runs"),
    results: Results = Path("results"),
    device: Device = "auto",
    no_compile: NoCompile = False,
) -> None:
    """Make the paper's tables and figures again.

    What is recorded is skipped, what was cut off goes on from its checkpoint: give the same command again, here or on
    another machine with the same run folders. `all` works through everything in the order of what it is worth.

    \b
    Examples:
      laplacenet reproduce --list
      laplacenet reproduce all --list
      laplacenet reproduce table-3 --cell cifar100/4000 --splits 0-4 --data DIR --split-file FILE
      laplacenet reproduce figure-3 --steps 25000 --for 9m
      laplacenet reproduce all --for 25m --split-file cifar10=FILE --split-file cifar100=FILE
    """
    from laplacenet.cli.reproduction import Asked, list_asked, reproduce_figure_2, work_through
    from laplacenet.runtime import InputError, choose_device
    from laplacenet.training import Execution

    asked = Asked(
        name=name,
        column=cell,
        row=row,
        splits=splits,
        steps=steps,
        settings=tuple(settings or ()),
        data=data,
        split_files=tuple(split_file or ()),
        runs=runs,
        results=results,
    )
    if show:
        list_asked(asked)
        return
    if name is None:
        raise InputError("what shall be reproduced? Name a table or figure, or all; --list shows them")
    execution = Execution(choose_device(device), compile=not no_compile, checkpoint_every_s=checkpoint_every)
    if name == "figure-2":
        reproduce_figure_2(asked)
    else:
        work_through(asked, execution=execution, limit_s=time_limit)
