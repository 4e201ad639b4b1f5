"""`laplacenet compare`: several methods on the same data for the same time or steps."""

from pathlib import Path
from typing import Annotated

import typer

from laplacenet.cli.options import (
    CheckpointEvery,
    Compile,
    DataDir,
    Device,
    Download,
    Model,
    Preset,
    Settings,
    duration_of,
    known_methods,
    options_as,
)
from laplacenet.cli.train import Data, Labels

Methods = Annotated[
    str,
    typer.Option(
        metavar="A,B,…", callback=known_methods, help="Which methods (laplacenet methods lists them), or all."
    ),
]
RunTime = Annotated[
    float | None,
    typer.Option(
        "--for", parser=duration_of("--for"), metavar="TIME", help="The training time of each run (90s, 5m, 1h)."
    ),
]
Steps = Annotated[int | None, typer.Option(min=1, help="The steps of each run, in place of --for.")]
Seeds = Annotated[int, typer.Option(help="How many runs of each method, each with a seed and labels of its own.")]
SplitKey = Annotated[
    str | None,
    typer.Option(
        help="Which split, where an .npz file or a folder holds several;"
        ' "4000/{split:02d}" takes another for each seed.'
    ),
]
Tune = Annotated[
    float | None,
    typer.Option(
        parser=duration_of("--tune"),
        metavar="TIME",
        help="First choose each method's learning rate by runs of this length.",
    ),
]
Rates = Annotated[str | None, typer.Option(metavar="A,B,…", help="The learning rates that --tune chooses among.")]
HeldOut = Annotated[int | None, typer.Option(help="How many of the labels to hold out and judge the rates by.")]
Finalists = Annotated[
    int | None, typer.Option(help="Run further seeds only of this many methods, the best on the first.")
]
Limit = Annotated[
    float | None,
    typer.Option(
        parser=duration_of("--limit"),
        metavar="TIME",
        help="Stop after this time in all; the same command continues later.",
    ),
]
Again = Annotated[
    bool,
    typer.Option("--again", help="Redo runs whose settings have changed since; the old ones are kept."),
]
Out = Annotated[Path | None, typer.Option(help="The folder of the comparison.  [default: runs/compare-DATA]")]
Record = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.json",
        help="Write the record to this file instead of record.json in --out; runs it holds are not made again.",
    ),
]


def compare(
    data: Data = None,
    methods: Methods = "supervised,fixmatch,laplacenet",
    labels: Labels = None,
    split_key: SplitKey = None,
    run_time: RunTime = None,
    steps: Steps = None,
    seeds: Seeds = 1,
    tune: Tune = None,
    rates: Rates = None,
    held_out: HeldOut = None,
    finalists: Finalists = None,
    model: Model = None,
    preset: Preset = None,
    settings: Settings = None,
    limit: Limit = None,
    out: Out = None,
    record: Record = None,
    again: Again = False,
    device: Device = "auto",
    compile_loss: Compile = False,
    data_dir: DataDir = None,
    download: Download = False,
    checkpoint_every: CheckpointEvery = 60.0,
) -> None:
    """Compare methods on the same data, labels and network, for equal minutes or equal steps.

    With --for the step time of each method is measured first, and each gets as many steps as fit: start-up and label
    passes count, tests do not. Give the same command again to continue an interrupted comparison. Ends with exit
    code 3 if --limit ran out first.

    \b
    Examples:
      laplacenet compare digits --labels 40 --for 30s --seeds 3
      laplacenet compare digits --methods uda,fixmatch --steps 600
        --set uda:method.temperature=0.5
      laplacenet compare cifar100 --methods fixmatch,laplacenet --for 5m
        --labels SPLITS.npz --split-key "4000/{split:02d}" --seeds 2
        --tune 1m --rates 0.01,0.03,0.1 --held-out 400 --limit 25m
    """
    asked = locals()
    from laplacenet.cli.choices import chosen_experiment, in_folder
    from laplacenet.cli.comparing import Request, chosen_comparison, work_together
    from laplacenet.experiments.compare import Workbench
    from laplacenet.runtime import choose_device
    from laplacenet.training import Execution

    base = in_folder(chosen_experiment(data, preset, labels=labels, split_key=None, model=model, seed=None), data_dir)
    comparison = chosen_comparison(base, options_as(Request, asked))
    execution = Execution(choose_device(device), compile=compile_loss, checkpoint_every_s=checkpoint_every)
    bench = Workbench(comparison, out or Path("runs") / f"compare-{base.name}", execution)
    work_together(bench, limit_s=limit, record=record, download=download, again=again)
