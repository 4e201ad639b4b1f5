"""`laplacenet methods`: what --method accepts."""

from pathlib import Path
from typing import Annotated

import typer


def methods(
    name: Annotated[
        str | None,
        typer.Argument(help="One method: its loss, settings, published and recorded numbers.", show_default=False),
    ] = None,
    page: Annotated[
        bool, typer.Option("--page", help="Print the page of methods in Markdown: losses, settings, records.")
    ] = False,
    records: Annotated[Path, typer.Option(help="Where the page finds records of comparisons.")] = Path(
        "results/methods"
    ),
) -> None:
    """List the training methods: each name, what it does, and where it comes from. With a name, describe that method.

    \b
    Examples:
      laplacenet methods
      laplacenet methods fixmatch
      laplacenet train digits --method fixmatch
    """
    from laplacenet.training import METHODS

    if name is not None:
        from laplacenet.reports.methods_page import method_section

        typer.echo(method_section(name, records), nl=False)
        return
    if page:
        from laplacenet.reports.methods_page import methods_page

        typer.echo(methods_page(records), nl=False)
        return
    width = max(map(len, METHODS))
    for known, method in METHODS.items():
        typer.echo(f"{known:{width}}  {method.summary} ({method.source})")
