"""`laplacenet report`: from records to pages that people read."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    results: Annotated[Path, typer.Option(help="The folder that holds the records of runs.")] = Path("results"),
    out: Annotated[Path, typer.Option(help="The folder for the report.")] = Path("report"),
    headline: Annotated[
        bool, typer.Option("--headline", help="Print the headline rows as a Markdown table instead.")
    ] = False,
) -> None:
    """The paper's tables, figures and claims beside what was recorded: one HTML page, and Markdown.

    \b
    Example:
      laplacenet report --results results --out report
    """
    from laplacenet.experiments.records import read_records
    from laplacenet.reports.paper_page import headline as headline_rows
    from laplacenet.reports.paper_page import write_report

    if headline:
        typer.echo(headline_rows(read_records(results)), nl=False)
        return
    typer.echo(write_report(results, out))
