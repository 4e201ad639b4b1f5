"""`laplacenet reproduce figure-2`: the two moons, trained on and drawn again."""

import os
from collections.abc import Sequence
from pathlib import Path

import typer

from laplacenet.cli.output import say
from laplacenet.experiments.paper.figure_two import figure_two, figure_two_record, mean_accuracies
from laplacenet.experiments.paper.moons_record import FOLDER, PICTURE, RECORD, read_moons
from laplacenet.runtime import InputError, choose_device, provenance, write_json
from laplacenet.runtime.files import require_folder

NAMES = {"supervised": "supervised, all labels", "network": "network pseudo-labels", "graph": "graph pseudo-labels"}


def reproduce_figure_two(results: Path, seeds: Sequence[int]) -> None:
    """Seconds on a CPU for each seed; the picture shows the first, the accuracies are means.

    A record that lacks one of the seeds is made again with its own and the new ones, so that one version of the code
    stands behind all its numbers; so is one without its pictures.
    """
    path = results / FOLDER / RECORD
    pictures = [path.with_name(PICTURE), path.with_name(PICTURE).with_suffix(".svg")]
    known = recorded_seeds(results, pictures)
    if known.issuperset(seeds) and all(picture.exists() for picture in pictures):
        say(f"recorded already: {path}")
        return
    from laplacenet.reports.moons import draw_moons  # brings matplotlib, which the other figures and tables do without

    require_folder(results, option="--results")
    figures = [figure_two(seed) for seed in sorted(known.union(seeds))]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, figure_two_record(figures, provenance=provenance(choose_device("cpu"))))
    draw_moons(figures[0], pictures)
    typer.echo("test accuracy" + (f", mean of {len(figures)} seeds" if len(figures) > 1 else ""))
    for method, (mean, std) in mean_accuracies(figures).items():
        spread = "" if std is None else f" ± {100 * std:.1f}"
        typer.echo(f"  {NAMES[method]:24}  {100 * mean:5.1f}{spread} %")
    say(f"pictures  {', '.join(map(str, pictures))}")
    say(f"record    {path}")


def recorded_seeds(results: Path, pictures: Sequence[Path]) -> set[int]:
    """The seeds in the record. Refuses to replace a file that is no such record, or pictures that have none."""
    path, remedy = results / FOLDER / RECORD, "move it away or choose another --results"
    if os.path.lexists(path):
        try:
            record = read_moons(results)
        except InputError as error:
            raise InputError(f"{error}; {remedy}") from error
        if record is None:
            raise InputError(f"{path}: is not a file; {remedy}")
        return {run.seed for run in record.runs}
    for picture in pictures:
        if os.path.lexists(picture):
            raise InputError(f"{picture}: has no record beside it; {remedy}")
    return set()
