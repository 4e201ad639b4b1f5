"""`laplacenet bench`: the speed of everything on this machine, beside alternatives."""

from pathlib import Path
from typing import Annotated

import typer

from laplacenet.cli.options import Compile, Device
from laplacenet.cli.output import say


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: two minutes on two cores.")] = False,
    only: Annotated[
        str | None,
        typer.Option(
            metavar="SECTIONS",
            help="Some of steps,views,labels,propagation,search,graph,stream,epochs,methods,loop,parts,scale."
            "  [default: all but parts and scale]",
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,…",
            help="Points in the graphs.  [default: 10000,100000,1000000; scale: 10000000, on a CPU 3000000]",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for the record.")] = Path("results/bench"),
    device: Device = "auto",
    compile_loss: Compile = False,
) -> None:
    """Measure how fast training, views, pseudo-labels and the graph are on this machine, each beside alternatives.

    Also: an epoch of each of the paper's variants (Table IX), every method's step beside its bare forward and backward
    passes, FixMatch beside a plain PyTorch loop, and (`parts`) the step's layers one by one, each beside the least time
    that its arithmetic and its memory allow. No data is needed. The record is written after every measurement,
    so an interrupted benchmark keeps what it has. `laplacenet report` turns the records in results/bench into Markdown
    tables.

    \b
    Examples:
      laplacenet bench --quick
      laplacenet bench --only graph --sizes 10000,100000
      laplacenet bench --only methods,loop
      laplacenet bench --only parts
      laplacenet bench --only scale --sizes 10000000
    """
    from laplacenet.cli.measuring import chosen_settings, measure, show
    from laplacenet.runtime import choose_device
    from laplacenet.training import Execution

    execution = Execution(choose_device(device), compile=compile_loss)
    record, path = measure(chosen_settings(execution, quick=quick, only=only, sizes=sizes), execution, out)
    show(record)
    say(f"record  {path}")
