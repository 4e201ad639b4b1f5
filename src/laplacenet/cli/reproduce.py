"""`laplacenet reproduce`: the paper's tables and figures by name."""

from pathlib import Path
from typing import Annotated

import typer

from laplacenet.cli.options import (
    CheckpointEvery,
    Compile,
    DataDir,
    Device,
    JudgeEvery,
    Preset,
    Settings,
    TimeLimit,
    one_of,
    options_as,
    typed_options,
)


def known_splits(given: str) -> str:
    """A callback."""
    parse_splits(given)
    return given


MOST_DIGITS = 4


def parse_splits(text: str) -> list[int]:
    """`0`, `0-4` or `0,2,3`."""
    from laplacenet.runtime import InputError

    splits: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise InputError(f"--splits {text}: give numbers such as 0, 0-4 or 0,2,3")
        if max(len(first), len(last)) > MOST_DIGITS:
            raise InputError(f"--splits {text}: give numbers up to {10**MOST_DIGITS - 1}")
        splits += range(int(first), int(last if dash else first) + 1)
    if not splits:
        raise InputError(f"--splits {text}: no split is named; give numbers such as 0, 0-4 or 0,2,3")
    return list(dict.fromkeys(splits))


RECIPES = (
    *("figure-2", "table-3", "table-4", "table-5", "table-6", "table-7", "table-8", "table-9"),
    *("figure-3", "figure-4", "class-weighting", "few-labels", "all"),
)
Name = Annotated[
    str | None,
    typer.Argument(
        callback=one_of(RECIPES, what="table or figure"),
        help="table-3 to table-9, figure-2 to figure-4, class-weighting, few-labels, or all.",
    ),
]
Show = Annotated[bool, typer.Option("--list", help="Show every cell, its cost and what is recorded of it.")]
Column = Annotated[str | None, typer.Option(help="One column only, such as cifar100/4000.")]
Row = Annotated[str | None, typer.Option(help="One row only, such as LaplaceNet.")]
Splits = Annotated[str, typer.Option(callback=known_splits, help="Which label splits: 0, 0-4 or 0,2,3.")]
Steps = Annotated[
    int | None, typer.Option(help="A shorter schedule in place of the paper's 250 000 steps; recorded as such.")
]
SplitFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--split-file",
        metavar="[DATASET=]FILE",
        help="Published splits: an .npz file with keys such as 4000/00, or a folder of lists such as"
        " 4000_balanced_labels/00.txt. May be repeated. Without it splits are drawn.",
    ),
]
Runs = Annotated[Path, typer.Option(help="Where run folders go.")]
Results = Annotated[Path, typer.Option(help="Where records go.")]


def reproduce(
    name: Name = None,
    show: Show = False,
    column: Column = None,
    row: Row = None,
    splits: Splits = "0",
    steps: Steps = None,
    data_dir: DataDir = None,
    split_files: SplitFiles = None,
    preset: Preset = None,
    settings: Settings = None,
    time_limit: TimeLimit = None,
    checkpoint_every: CheckpointEvery = 60.0,
    judge_every: JudgeEvery = None,
    runs: Runs = Path("runs"),
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
      laplacenet reproduce table-4 --list
      laplacenet reproduce table-3 --column cifar100/4000 --splits 0-4
        --data-dir DIR --split-file FILE
      laplacenet reproduce table-3 --column cifar100/4000 --row LaplaceNet
        --preset fast --splits 1 --split-file FILE --results my_results
      laplacenet reproduce figure-3 --steps 25000 --for 9m
      laplacenet reproduce all --for 25m --split-file cifar10=FILE
        --split-file cifar100=FILE
    """
    asked = locals()
    if not show and name not in (None, "figure-2"):
        from laplacenet.runtime.device import choose_device, wake_up

        wake_up(choose_device(device))  # meanwhile everything else is imported and read
    from laplacenet.cli.reproduction import Request, list_request, make, refuse_unused

    refuse_unused(name, typed_options(reproduce, asked).values())
    request = options_as(Request, asked)
    if show:
        list_request(request)
    else:
        make(request)
