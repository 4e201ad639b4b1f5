"""`laplacenet reproduce figure-2`: the two moons, drawn and counted again."""

from pathlib import Path

import typer

NAMES = {"supervised": "supervised, all labels", "network": "network pseudo-labels", "graph": "graph pseudo-labels"}


def reproduce_figure_two(*, seeds: int, out: Path, record: Path | None) -> None:
    """Draws the first seed's figure; with several seeds the accuracies are means."""
    from laplacenet.experiments.paper.figure_two import figure_two, figure_two_record, mean_accuracies
    from laplacenet.reports.moons import draw_moons
    from laplacenet.runtime import InputError, choose_device, provenance, write_json

    if seeds < 1:
        raise InputError(f"--seeds {seeds}: give at least 1")
    figures = [figure_two(seed) for seed in range(seeds)]
    pictures = [out / "figure-2.png", out / "figure-2.svg"]
    draw_moons(figures[0], pictures)
    typer.echo("test accuracy" + (f", mean of {seeds} seeds" if seeds > 1 else ""))
    for method, (mean, std) in mean_accuracies(figures).items():
        spread = "" if std is None else f" ± {100 * std:.1f}"
        typer.echo(f"  {NAMES[method]:24}  {100 * mean:5.1f}{spread} %")
    typer.echo(f"pictures  {', '.join(map(str, pictures))}")
    if record is not None:
        record.parent.mkdir(parents=True, exist_ok=True)
        write_json(record, figure_two_record(figures, provenance=provenance(choose_device("cpu"))))
        typer.echo(f"record    {record}")
