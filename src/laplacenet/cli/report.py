"""`laplacenet report`: a run's page or curves, or the report on the paper from records."""

from pathlib import Path
from typing import Annotated

import typer

from laplacenet.cli.options import existing, typed_options, written_run
from laplacenet.cli.output import say


def report(
    run: Annotated[
        Path | None,
        typer.Argument(callback=existing, help="The folder of a run; or one that holds records, as --results."),
    ] = None,
    results: Annotated[Path, typer.Option(help="The folder that holds the records of runs.")] = Path("results"),
    out: Annotated[Path, typer.Option(help="The folder for the report on the paper.")] = Path("report"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files in --out that this command did not write.")
    ] = False,
) -> None:
    """Write the report page of a labeling run again, or the curves of a training run; else the report on the paper.

    The report on the paper shows its tables, figures and claims beside what is recorded, and recorded comparisons of
    methods, as one HTML page (report.html) and as Markdown (report.md); benchmarks become Markdown tables (bench.md).

    \b
    Examples:
      laplacenet report runs/photos-labels
      laplacenet report --results results --out report
    """
    asked = locals()
    from laplacenet.experiments.compare.folder import STATE, TABLE
    from laplacenet.reports.paper_page import write_report
    from laplacenet.runtime import InputError, require_apart
    from laplacenet.runtime.run_folder import looks_like_run

    if run is not None and looks_like_run(run):
        for option in typed_options(report, asked).keys() - {"run"}:
            raise InputError(f"--{option} is for the report on the paper; the page of a run is written to its folder")
        say(str(page_of(run)))
        return
    records = results if run is None else run
    if run is not None and next(run.rglob("*.json"), None) is None:
        raise InputError(f"{run}: neither a run folder nor a folder of records; laplacenet train and label make runs")
    if (records / STATE).is_file():
        remedy = "to report on it give that command --record results/methods/NAME.json as well"
        raise InputError(f"{records}: a comparison of laplacenet compare, whose table is {TABLE} there; {remedy}")
    require_apart(out, [records])
    if looks_like_run(out):
        raise InputError(f"--out {out}: is the folder of a run, which has its own report; choose another --out")
    say(str(write_report(records, out, overwrite=overwrite)))


def page_of(run: Path) -> Path:
    """The page of a labeling run; the curves of a training run."""
    from laplacenet.cli.session import CURVES
    from laplacenet.experiments import read_epochs, read_experiment
    from laplacenet.labeling.result import SUMMARY
    from laplacenet.reports.curves import draw_run
    from laplacenet.reports.labeling_page import write_labeling_page
    from laplacenet.runtime import InputError, RunFolder

    folder = RunFolder.open(written_run(run))
    if folder.has(SUMMARY) or "kind" in folder.read_experiment():
        return write_labeling_page(run)
    records = read_epochs(folder)
    if not records:
        raise InputError(f"{run}: nothing has been recorded yet; has the run begun?")
    draw_run(records, run / CURVES, title=read_experiment(folder).name)
    return run / CURVES
