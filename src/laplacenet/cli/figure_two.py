"""`laplacenet reproduce figure-2`: the two moons, trained on and drawn again."""

import os
from collections.abc import Sequence
from pathlib import Path

import typer

from laplacenet.cli.output import say
from laplacenet.experiments.paper.figure_two import figure_two, figure_two_record, mean_accuracies
from laplacenet.experiments.paper.moons_record import FOLDER, PICTURE, RECORD, MoonsRecord, read_moons
from laplacenet.runtime import InputError, choose_device, provenance, write_json
from laplacenet.runtime.files import require_folder

NAMES = {"supervised": "supervised, all labels", "network": "network pseudo-labels", "graph": "graph pseudo-labels"}


def reproduce_figure_two(results: Path, seeds: Sequence[int]) -> None:
    """Seconds on a CPU for each seed; the picture shows the first, the accuracies are means.

    A record that lacks one of the seeds is made again with its own and the new ones, so that one version of the code
    stands behind all its numbers.
    """
    path = results / FOLDER / RECORD
    known = recorded_seeds(results)
    if known.issuperset(seeds):
        say(f"recorded already: {path}")
        return
    from laplacenet.reports.moons import draw_moons  # brings matplotlib, which the other figures and tables do without

    require_folder(results, option="--results")
    picture = path.with_name(PICTURE)
    if not path.is_file() and os.path.lexists(picture):
        raise InputError(f"{picture}: has no record beside it; move it away or choose another --results")
    figures = [figure_two(seed) for seed in sorted(known.union(seeds))]
    path.parent.mkdir(parents=True, exist_ok=True)
    pictures = [picture, picture.with_suffix(".svg")]
    draw_moons(figures[0], pictures)
    typer.echo("test accuracy" + (f", mean of {len(figures)} seeds" if len(figures) > 1 else ""))
    for method, (mean, std) in mean_accuracies(figures).items():
        spread = "" if std is None else f" ± {100 * std:.1f}"
        typer.echo(f"  {NAMES[method]:24}  {100 * mean:5.1f}{spread} %")
    say(f"pictures  {', '.join(map(str, pictures))}")
    write_json(path, figure_two_record(figures, provenance=provenance(choose_device("cpu"))))
    say(f"record    {path}")


def recorded_seeds(results: Path) -> set[int]:
    """The seeds of a valid record; one that cannot be read is ignored with a warning."""
    record: MoonsRecord | None = None
    try:
        record = read_moons(results)
    except InputError as error:
        say(f"made again: {error}", err=True)
    return set() if record is None else {run.seed for run in record.runs}
