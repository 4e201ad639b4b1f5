"""`laplacenet data`: what a data set holds."""

from typing import Annotated

import typer

from laplacenet.cli.options import DataDir, Download, data_or_path


def data(
    name: Annotated[
        str,
        typer.Argument(
            callback=data_or_path, metavar="DATA", help="A data set's name, a folder of pictures or an .npz file."
        ),
    ] = "digits",
    size: Annotated[int | None, typer.Option(help="Bring the pictures of a folder to this many pixels a side.")] = None,
    data_dir: DataDir = None,
    download: Download = False,
) -> None:
    """Describe a data set: counts, size, channel statistics, classes, files that could not be read.

    \b
    Examples:
      laplacenet data
      laplacenet data two-moons
    """
    from laplacenet.cli.progress import reading
    from laplacenet.data import describe, load_dataset

    with reading(name, is_live=not download) as tally:
        dataset = load_dataset(name, folder=data_dir, size=size, download=download, monitor=tally)
    typer.echo(str(describe(dataset)))
