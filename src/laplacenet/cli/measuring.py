"""The output of the benchmark: what is being measured, then the table."""

import dataclasses
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from laplacenet.cli.progress import Display
from laplacenet.experiments.benchmark import (
    BenchRecord,
    BenchSettings,
    empty_record,
    full_settings,
    measurements,
    quick_settings,
    take_measurement,
    with_result,
    write_bench_record,
)
from laplacenet.reports.bench_table import COLUMNS, origin, table_lines
from laplacenet.runtime import InputError
from laplacenet.training import Execution


def chosen_settings(execution: Execution, *, quick: bool, only: str | None, sizes: str | None) -> BenchSettings:
    """What the options ask for."""
    settings = quick_settings(execution.device) if quick else full_settings(execution.device)
    if only is not None:
        settings = dataclasses.replace(settings, sections=tuple(name.strip() for name in only.split(",")))
    if sizes is not None:
        try:
            graph_sizes = tuple(int(size) for size in sizes.split(","))
        except ValueError as error:
            raise InputError(f"--sizes {sizes}: give whole numbers, such as 10000,100000") from error
        settings = dataclasses.replace(settings, graph_sizes=graph_sizes, scale_sizes=graph_sizes)
    return settings


def measure(settings: BenchSettings, execution: Execution, folder: Path) -> tuple[BenchRecord, Path]:
    """One measurement after another, each said when it begins and written when it ends."""
    record = empty_record(settings, execution.device)
    write_bench_record(record, folder)  # a folder that cannot be written to is refused before the work
    began_at = time.perf_counter()
    n = len(measurements(settings, execution))
    with Display(Console(stderr=True), "measuring", n=n) as display:
        every = measurements(settings, execution, report=lambda stage: display.update(state=stage, is_notable=True))
        for number, measurement in enumerate(every):
            display.update(state=measurement.name, n_done=number, is_notable=True)
            result = take_measurement(measurement, execution)
            record = with_result(record, measurement.section, result, elapsed_s=time.perf_counter() - began_at)
            write_bench_record(record, folder)
    record = dataclasses.replace(record, is_complete=True)
    return record, write_bench_record(record, folder)


def show(record: BenchRecord) -> None:
    """The table on stdout: within the terminal, or as wide as it likes where there is none."""
    table = Table(*COLUMNS, title=origin(record), caption=f"measured in {record.elapsed_s:.0f} s")
    for line in table_lines(record):
        table.add_row(*line.cells)
    console = Console()
    console.print(table, markup=False) if console.is_terminal else Console(width=240).print(table, markup=False)
