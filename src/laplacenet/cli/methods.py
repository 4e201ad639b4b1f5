"""`laplacenet methods`: what --method accepts."""

import re
from pathlib import Path
from typing import Annotated

import typer

from laplacenet.cli.output import say

RECORDS = Path("results/methods")
COMMENT = re.compile(r"^<!--.*?-->\n+", re.MULTILINE)
"""What a page in the documentation says to those who edit or test it."""


def methods(
    name: Annotated[
        str | None,
        typer.Argument(help="One method: its idea, loss, settings, published and recorded errors.", show_default=False),
    ] = None,
    pages: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write the documentation's pages of methods and their pictures into this folder, as Markdown.",
        ),
    ] = None,
    records: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="The folder that holds records of laplacenet compare.  [default: results/methods]"
        ),
    ] = None,
) -> None:
    """List the training methods: each name, what it does, and where it comes from. With a name, describe that method.

    \b
    Examples:
      laplacenet methods
      laplacenet methods fixmatch
      laplacenet train digits --method fixmatch
    """
    from laplacenet.runtime import InputError

    if name is not None and pages is not None:
        raise InputError("--pages writes the pages of all methods; leave out NAME")
    if records is not None and not records.is_dir():
        raise InputError(f"--records {records}: no such folder")
    records = records or RECORDS
    if pages is not None:
        from laplacenet.reports.methods_page import write_methods_pages

        index, *others = write_methods_pages(pages, records)
        n_pages = sum(path.suffix == index.suffix for path in others)
        say(f"{index}; in {others[0].parent}: {n_pages} pages, pictures of comparisons: {len(others) - n_pages}")
    elif name is not None:
        from laplacenet.reports.method_page import method_page, read_all_records

        show_page(COMMENT.sub("", method_page(name, read_all_records(records))))
    else:
        list_methods()


def show_page(text: str) -> None:
    """Set for reading in a terminal; as Markdown where it goes into a file or another program."""
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    if console.is_terminal:
        console.print(Markdown(text))
    else:
        typer.echo(text, nl=False)


def list_methods() -> None:
    """A line for each with its source; in a terminal with authors and year only, broken where it is too long."""
    from rich.console import Console
    from rich.table import Table

    from laplacenet.training import METHODS

    console, width = Console(), max(map(len, METHODS))
    if not console.is_terminal:
        for name, method in METHODS.items():
            typer.echo(f"{name:{width}}  {method.summary} ({method.source})")
        return
    from laplacenet.reports.method_page import short_source

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for name, method in METHODS.items():
        table.add_row(name, f"{method.summary} [dim]({short_source(method.source)})[/dim]")
    console.print(table, highlight=False)
