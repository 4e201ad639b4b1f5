"""Table IX once more: the variants' epochs, measured side by side by the benchmark, relative to the baseline."""

from laplacenet.experiments.benchmark import EpochRow, SideBySide
from laplacenet.reports.tables import ABSENT, CellView, Ours, RowView, TableView

COLUMNS = ("of the baseline's time for as many steps", "seconds an epoch")


def epochs_table(measured: SideBySide) -> TableView:
    source = measured.provenance
    return TableView(
        name="table-9",
        anchor="table-9-side-by-side",
        title="Table IX, side by side in one process",
        measure="relative time",
        columns=COLUMNS,
        rows=tuple(_row_view(row, measured.relative(row.variant)) for row in measured.rows),
        note=f"{measured.machine}, commit {source['commit'][:12]}, {source['date'][:10]}: medians of epochs over"
        f" {measured.rows[0].n_images:,} synthetic images, labels included. A larger batch takes fewer steps an epoch.",
    )


def _row_view(row: EpochRow, relative: float | None) -> RowView:
    steps = f"{row.n_steps} steps"
    ratio = () if relative is None else (Ours(f"{relative:.2f}", steps),)
    return RowView(
        row.variant,
        is_ours=True,
        cells=(
            CellView(f"{row.published_ratio:.2f}", ratio),
            CellView(ABSENT, (Ours(f"{row.epoch_s:.2f}", steps),)),
        ),
    )
