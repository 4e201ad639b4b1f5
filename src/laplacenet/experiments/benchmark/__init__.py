"""The benchmark: the step, the views, the pseudo-label pass and the graph at scale, each beside its rivals."""

from laplacenet.experiments.benchmark.measurements import Measurement, measurements, taken
from laplacenet.experiments.benchmark.record import (
    Missing,
    Record,
    empty_record,
    read_record,
    read_records,
    with_result,
    write_record,
)
from laplacenet.experiments.benchmark.rows import (
    SECTIONS,
    GraphRow,
    PassRow,
    PropagationRow,
    Row,
    StepRow,
    StreamRow,
    ViewsRow,
)
from laplacenet.experiments.benchmark.settings import BenchSettings, StepCase, full_settings, quick_settings

__all__ = [
    "SECTIONS",
    "BenchSettings",
    "GraphRow",
    "Measurement",
    "Missing",
    "PassRow",
    "PropagationRow",
    "Record",
    "Row",
    "StepCase",
    "StepRow",
    "StreamRow",
    "ViewsRow",
    "empty_record",
    "full_settings",
    "measurements",
    "quick_settings",
    "read_record",
    "read_records",
    "taken",
    "with_result",
    "write_record",
]
