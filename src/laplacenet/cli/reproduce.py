"""`laplacenet reproduce`: the paper's tables and figures by name."""

from pathlib import Path
from typing import Annotated

import typer

from laplacenet.cli.options import CheckpointEvery, Compile, DataDir, Device, Preset, Settings, TimeLimit

Name = Annotated[str | None, typer.Argument(help="table-3 to table-9, figure-2 to figure-4, class-weighting, or all.")]
Show = Annotated[bool, typer.Option("--list", help="Show every cell, its cost and what is recorded of it.")]
Column = Annotated[str | None, typer.Option(help="One column only, such as cifar100/4000.")]
Row = Annotated[str | None, typer.Option(help="One row only, such as LaplaceNet.")]
Splits = Annotated[str, typer.Option(help="Which label splits: 0, 0-4 or 0,2,3.")]
Steps = Annotated[
    int | None, typer.Option(help="A shorter schedule in place of the paper's 250 000 steps; recorded as such.")
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
RUNS = Path("runs")


def reproduce(
    name: Name = None,
    show: Show = False,
    column: Column = None,
    row: Row = None,
    splits: Splits = "0",
    steps: Steps = None,
    data_dir: DataDir = None,
    split_file: SplitFile = None,
    preset: Preset = None,
    settings: Settings = None,
    time_limit: TimeLimit = None,
    checkpoint_every: CheckpointEvery = 60.0,
    runs: Runs = RUNS,
    results: Results = Path("results"),
    device: Device = "auto",
    compile_loss: Compile = False,
) -> None:
    """Reproduce the paper's tables and figures.

    Recorded runs are skipped and interrupted ones resume from their checkpoint: repeat the same command, here or on
    another machine with the same run folders. `all` works through everything, the most informative runs first. Ends
    with exit code 3 if --for ran out before every run was recorded.

    \b
    Examples:
      laplacenet reproduce --list
      laplacenet reproduce all --list
      laplacenet reproduce table-3 --column cifar100/4000 --splits 0-4 --data-dir DIR --split-file FILE
      laplacenet reproduce figure-3 --steps 25000 --for 9m
      laplacenet reproduce all --for 25m --split-file cifar10=FILE --split-file cifar100=FILE
    """
    from laplacenet.cli.figure_two import reproduce_figure_two
    from laplacenet.cli.reproduction import (
        FIGURE_2,
        Request,
        list_request,
        parse_splits,
        refuse_unused,
        work_through,
    )
    from laplacenet.runtime import InputError, choose_device, read_launch, start_group
    from laplacenet.training import Execution

    options: dict[str, object] = {"--column": column, "--row": row, "--steps": steps, "--data-dir": data_dir}
    options |= {"--split-file": split_file, "--preset": preset, "--set": settings, "--for": time_limit}
    options |= {"--splits": splits != "0", "--checkpoint-every": checkpoint_every != 60.0, "--runs": runs != RUNS}
    options |= {"--device": device != "auto", "--compile": compile_loss}
    refuse_unused(name, [option for option, value in options.items() if value])
    request = Request(
        name=name,
        column=column,
        row=row,
        splits=splits,
        steps=steps,
        preset=preset,
        settings=tuple(settings or ()),
        data_dir=data_dir,
        split_files=tuple(split_file or ()),
        runs=runs,
        results=results,
    )
    if read_launch().size > 1 and (show or name == FIGURE_2):
        raise InputError("--list and figure-2 take one process; leave out torchrun")
    if show:
        list_request(request)
        return
    if name == FIGURE_2:
        reproduce_figure_two(results, parse_splits(splits))
        return
    if name is None:
        raise InputError("what shall be reproduced? Name a table or figure, or all; --list shows them")
    execution = Execution(choose_device(device), compile=compile_loss, checkpoint_every_s=checkpoint_every)
    start_group(execution.device)
    work_through(request, execution=execution, limit_s=time_limit)
