"""Table IX as the benchmark measured it: the variants' epochs in one process, the only times that may be compared."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laplacenet.experiments.benchmark.epochs import BASELINE
from laplacenet.experiments.benchmark.record import BenchRecord, read_bench_records
from laplacenet.experiments.benchmark.rows import EpochRow

FOLDER = "bench"


@dataclass(frozen=True)
class SideBySide:
    """The rows of one record, and where they were measured."""

    rows: tuple[EpochRow, ...]
    provenance: dict[str, Any]

    @property
    def machine(self) -> str:
        return str(self.provenance["hardware"]["gpu"])

    def relative(self, variant: str) -> float | None:
        """A variant's time for equally many steps as a share of the baseline's; None where one was not measured."""
        times = {row.variant: row.step_ms for row in self.rows}
        return times[variant] / times[BASELINE] if {variant, BASELINE} <= times.keys() else None


def read_side_by_side(results: Path) -> SideBySide | None:
    folder = results / FOLDER
    return newest_side_by_side(read_bench_records(folder)) if any(folder.glob("*.json")) else None


def newest_side_by_side(records: Iterable[BenchRecord]) -> SideBySide | None:
    """From the newest record on a GPU that measured epochs; None where none did."""
    measured = [record for record in records if record.provenance["hardware"].get("gpu") and "epochs" in record.rows]
    if not measured:
        return None
    record = max(measured, key=lambda record: str(record.provenance["date"]))
    return SideBySide(tuple(row for row in record.rows["epochs"] if isinstance(row, EpochRow)), record.provenance)
