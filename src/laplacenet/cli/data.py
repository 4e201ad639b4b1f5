"""`laplacenet data`: what a data set holds."""

from typing import Annotated

import typer

from laplacenet.cli.options import DataDir, Download, data_or_path
from laplacenet.cli.output import say


def data(
    name: Annotated[
        str,
        typer.Argument(
            callback=data_or_path, metavar="DATA", help="A data set's name, a folder of pictures or an .npz file."
        ),
    ] = "digits",
    size: Annotated[
        int | None, typer.Option(help="Resize the pictures of a folder to this many pixels a side.")
    ] = None,
    prepare: Annotated[
        bool,
        typer.Option(
            "--prepare", help="Decode the pictures of a folder once, into a file that later commands read instead."
        ),
    ] = False,
    data_dir: DataDir = None,
    download: Download = False,
) -> None:
    """Describe a data set: counts, size, channel statistics, classes, files that could not be read.

    With `--prepare`, the pictures of a folder are decoded into a file in the folder LAPLACENET_CACHE, or else in the
    user's cache folder. `train`, `label` and `embed` use it automatically, as long as no picture changes; there may be
    more pictures than fit into memory. An interrupted command continues where it stopped.

    \b
    Examples:
      laplacenet data
      laplacenet data two-moons
      laplacenet data photos/ --prepare
    """
    if prepare:
        prepare_pictures(name, size=size)
    from laplacenet.cli.progress import reading
    from laplacenet.data import describe, load_dataset

    with reading(name, is_live=not download) as tally:
        dataset = load_dataset(name, folder=data_dir, size=size, download=download, monitor=tally)
    say(*str(describe(dataset)).split("\n"))


def prepare_pictures(name: str, *, size: int | None) -> None:
    from pathlib import Path

    from laplacenet.cli.progress import counter
    from laplacenet.data.collection import prepare_folder
    from laplacenet.runtime import InputError

    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise InputError(f"--prepare: {name} is not a folder; only a folder of pictures can be prepared")
    with counter(f"preparing {folder.name}") as tally:
        n, side = prepare_folder(folder, size=size, monitor=tally)
    typer.echo(f"prepared {n} pictures of {side}×{side}")
