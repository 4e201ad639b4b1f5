"""The benchmark: the step, the views, the pseudo-label pass, the graph at scale, each beside its rivals; Table IX."""

from laplacenet.experiments.benchmark.measurements import Measurement, measurements, take_measurement
from laplacenet.experiments.benchmark.record import (
    BenchRecord,
    Missing,
    empty_record,
    read_bench_record,
    read_bench_records,
    with_result,
    write_bench_record,
)
from laplacenet.experiments.benchmark.rows import (
    SECTIONS,
    EpochRow,
    GraphRow,
    LoopRow,
    MethodRow,
    PassRow,
    PropagationRow,
    Row,
    ScaleRow,
    SearchRow,
    StepRow,
    StreamRow,
    ViewsRow,
)
from laplacenet.experiments.benchmark.settings import BenchSettings, StepCase, full_settings, quick_settings
from laplacenet.experiments.benchmark.side_by_side import SideBySide, newest_side_by_side, read_side_by_side

__all__ = [
    "SECTIONS",
    "BenchRecord",
    "BenchSettings",
    "EpochRow",
    "GraphRow",
    "LoopRow",
    "Measurement",
    "MethodRow",
    "Missing",
    "PassRow",
    "PropagationRow",
    "Row",
    "ScaleRow",
    "SearchRow",
    "SideBySide",
    "StepCase",
    "StepRow",
    "StreamRow",
    "ViewsRow",
    "empty_record",
    "full_settings",
    "measurements",
    "newest_side_by_side",
    "quick_settings",
    "read_bench_record",
    "read_bench_records",
    "read_side_by_side",
    "take_measurement",
    "with_result",
    "write_bench_record",
]
