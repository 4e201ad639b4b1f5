"""`laplacenet methods`: what --method accepts."""

from pathlib import Path
from typing import Annotated

import typer


def methods(
    page: Annotated[
        bool, typer.Option("--page", help="Print the page of methods in Markdown: losses, settings, records.")
    ] = False,
    records: Annotated[Path, typer.Option(help="Where the page finds records of comparisons.")] = Path(
        "results/methods"
    ),
) -> None:
    """List the training methods: each name, what it does, and where it comes from.

    \b
    Examples:
      laplacenet methods
      laplacenet train digits --method fixmatch
    """
    from laplacenet.training import METHODS

    if page:
        from laplacenet.reports.methods_page import methods_page

        typer.echo(methods_page(records), nl=False)
        return
    width = max(map(len, METHODS))
    for name, method in METHODS.items():
        typer.echo(f"{name:{width}}  {method.summary} ({method.source})")
