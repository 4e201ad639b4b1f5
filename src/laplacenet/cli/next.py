"""`laplacenet next`: which pictures to label by hand next."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laplacenet.cli.options import written_run
from laplacenet.cli.out_files import OverwriteFile, require_free, write_out
from laplacenet.cli.output import say, write_data

if TYPE_CHECKING:
    from laplacenet.labeling.result import Labeling

FORMATS = ("csv", "label-studio")


def next(
    run: Annotated[Path, typer.Argument(callback=written_run, help="The folder of a run of label or review.")],
    n: Annotated[int, typer.Option("-n", min=1, help="How many.")] = 50,
    suspects: Annotated[
        bool, typer.Option("--suspects", help="List the given labels most likely to be wrong instead.")
    ] = False,
    form: Annotated[
        str,
        typer.Option("--format", metavar="csv|label-studio", help="A table to fill in, or Label Studio's import file."),
    ] = "csv",
    url_prefix: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where Label Studio finds the pictures.  [default: /data/local-files/?d=]"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A .csv or .json file to write in place of standard output.")] = None,
    overwrite: OverwriteFile = False,
) -> None:
    """List the pictures whose labels would help most, first those that are uncertain and like many others.

    Each is unlike those before it, and no copy of a picture with a given label is listed.

    The column `label` is empty: fill it in, and give the file to `label` as another --labels. A shorter list is the
    beginning of a longer one.

    \b
    Examples:
      laplacenet next runs/photos-labels -n 50 --out next.csv
      laplacenet next runs/photos-labels --suspects
      laplacenet next runs/photos-labels --format label-studio --out tasks.json
    """
    from laplacenet.api import LabelingRun
    from laplacenet.runtime import InputError

    if form not in FORMATS:
        raise InputError(f"--format {form}: choose one of {', '.join(FORMATS)}")
    if url_prefix is not None and form == "csv":
        raise InputError("--url-prefix is where Label Studio finds pictures; give --format label-studio with it")
    if out is not None:
        require_free(out, suffixes=(".csv",) if form == "csv" else (".json",), overwrite=overwrite)
    found = LabelingRun(run)
    from laplacenet.labeling.acquisition import as_csv, next_entries, suspect_entries

    labeling = found.data
    rows = suspect_entries(labeling, n) if suspects else next_entries(labeling, n)
    text = as_csv(labeling, rows) if form == "csv" else studio_tasks(labeling, rows, url_prefix)
    if out is None:
        write_data([text])
    else:
        write_out(out, text.encode())
        say(f"{len(rows)} in {out}")


def studio_tasks(labeling: "Labeling", rows: list[tuple[int, int, str]], url_prefix: str | None) -> str:
    """The tasks as JSON; the labeling interface for Label Studio goes to stderr."""
    from laplacenet.labeling.label_studio import LOCAL_FILES, labeling_config, tasks

    found = tasks(labeling, rows, prefix=LOCAL_FILES if url_prefix is None else url_prefix)
    if url_prefix is None:
        typer.echo(
            "pictures are expected below LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT, with"
            " LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true; or give --url-prefix",
            err=True,
        )
    typer.echo("the project's labeling interface (Settings, Labeling Interface, Code):", err=True)
    say(*labeling_config(labeling.summary.class_names).rstrip("\n").split("\n"), err=True)
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"
