"""Table IX once more: the variants' epochs, measured side by side by the benchmark, relative to the baseline."""

from collections.abc import Sequence
from pathlib import Path

from laplacenet.experiments.benchmark import EpochRow, Record, read_records
from laplacenet.experiments.benchmark.epochs import BASELINE
from laplacenet.reports.tables import ABSENT, CellView, Ours, RowView, TableView

FOLDER = "bench"
COLUMNS = ("of the baseline's time for as many steps", "seconds an epoch")


def read_epochs_table(results: Path) -> TableView | None:
    """From the newest record on a GPU that measured them; None where none did."""
    if not any((results / FOLDER).glob("*.json")):
        return None
    return epochs_table(read_records(results / FOLDER))


def epochs_table(records: Sequence[Record]) -> TableView | None:
    measured = [record for record in records if record.provenance["hardware"].get("gpu") and "epochs" in record.rows]
    if not measured:
        return None
    record = max(measured, key=lambda record: str(record.provenance["date"]))
    rows = [row for row in record.rows["epochs"] if isinstance(row, EpochRow)]
    base = next((row for row in rows if row.variant == BASELINE), None)
    source = record.provenance
    return TableView(
        name="table-9",
        anchor="table-9-side-by-side",
        title="Table IX, side by side in one process",
        measure="relative time",
        columns=COLUMNS,
        rows=tuple(_row_view(row, base) for row in rows),
        note=f"{source['hardware']['gpu']}, commit {source['commit'][:12]}, {source['date'][:10]}: medians of epochs"
        f" over {rows[0].n_images:,} synthetic images, labels included. A larger batch takes fewer steps an epoch.",
    )


def _row_view(row: EpochRow, base: EpochRow | None) -> RowView:
    steps = f"{row.n_steps} steps"
    ratio = () if base is None else (Ours(f"{row.step_ms / base.step_ms:.2f}", steps),)
    return RowView(
        row.variant,
        is_ours=True,
        cells=(
            CellView(f"{row.published_ratio:.2f}", ratio),
            CellView(ABSENT, (Ours(f"{row.epoch_s:.2f}", steps),)),
        ),
    )
