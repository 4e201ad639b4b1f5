"""Which measurements a benchmark consists of, and taking one so that its failure spoils no other."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from laplacenet.experiments.benchmark.clock import release_memory
from laplacenet.experiments.benchmark.epochs import measure_epochs, variants
from laplacenet.experiments.benchmark.graph_scale import measure_graph
from laplacenet.experiments.benchmark.labels import (
    measure_authors_way,
    measure_label_spreading,
    measure_our_pass,
    measure_our_pass_with_features,
)
from laplacenet.experiments.benchmark.methods import measure_loop, measure_method
from laplacenet.experiments.benchmark.parts import measure_parts
from laplacenet.experiments.benchmark.propagation import DATA, measure_propagation
from laplacenet.experiments.benchmark.record import Missing
from laplacenet.experiments.benchmark.rows import Row
from laplacenet.experiments.benchmark.scale import measure_scale
from laplacenet.experiments.benchmark.search import measure_search
from laplacenet.experiments.benchmark.settings import BenchSettings
from laplacenet.experiments.benchmark.steps import measure_step
from laplacenet.experiments.benchmark.streaming import measure_streaming
from laplacenet.experiments.benchmark.views import measure_views
from laplacenet.runtime import InputError
from laplacenet.training import Execution


@dataclass(frozen=True)
class Measurement:
    """One row to be."""

    section: str
    name: str
    take: Callable[[], Row]


def measurements(
    settings: BenchSettings, execution: Execution, *, report: Callable[[str], None] = lambda _: None
) -> list[Measurement]:
    """Everything that the settings ask for, in the order of the sections; `report` hears of the stages of long ones."""
    device, n = execution.device, settings.pass_size
    every = [
        *(
            Measurement("steps", f"the step: {case.name}", partial(measure_step, case, settings, execution))
            for case in settings.cases
        ),
        *(
            Measurement("views", f"views: {side} px", partial(measure_views, side, settings, device))
            for side in settings.view_sides
        ),
        Measurement("labels", f"pseudo-labels: ours, n = {n}", partial(measure_our_pass, settings, device)),
        *_with_features(settings, execution),
        Measurement("labels", f"pseudo-labels: the authors' way, n = {n}", partial(measure_authors_way, settings)),
        Measurement("labels", f"pseudo-labels: LabelSpreading, n = {n}", partial(measure_label_spreading, settings)),
        *(
            Measurement("propagation", f"propagation: {data}", partial(measure_propagation, data, settings))
            for data in DATA
        ),
        *_searches(settings, device),
        *(
            Measurement("graph", f"the graph: n = {size}", partial(measure_graph, size, settings, device))
            for size in settings.graph_sizes
        ),
        *(
            Measurement("stream", f"streaming: {case.name}", partial(measure_streaming, case, settings, execution))
            for case in settings.cases[:1]
        ),
        *(
            Measurement("epochs", f"an epoch: {variant.row}", partial(measure_epochs, variant, settings, execution))
            for variant in variants()
        ),
        *(
            Measurement("methods", f"the step: {case.method}", partial(measure_method, case, settings, execution))
            for case in settings.method_cases
        ),
        Measurement(
            "loop",
            f"a plain loop: {settings.loop_case.method}",
            partial(measure_loop, settings.loop_case, settings, execution),
        ),
        *(
            Measurement("parts", f"the step in parts: {case.name}", partial(measure_parts, case, settings, execution))
            for case in settings.cases[:2]
        ),
        *(
            Measurement(
                "scale", f"the graph at scale: n = {size}", partial(measure_scale, size, settings, device, report)
            )
            for size in settings.scale_sizes
        ),
    ]
    return [measurement for measurement in every if measurement.section in settings.sections]


def _with_features(settings: BenchSettings, execution: Execution) -> list[Measurement]:
    """On a CPU the forward pass of so many images would take longer than all the rest."""
    if execution.device.type == "cpu":
        return []
    take = partial(measure_our_pass_with_features, settings, execution)
    return [Measurement("labels", f"pseudo-labels: ours with features, n = {settings.pass_size}", take)]


def _searches(settings: BenchSettings, device: torch.device) -> list[Measurement]:
    """On a GPU every search is exact."""
    sizes = settings.search_sizes if device.type == "cpu" else ()
    return [Measurement("search", f"the search: n = {n}", partial(measure_search, n, settings)) for n in sizes]


def take_measurement(measurement: Measurement, execution: Execution) -> Row | Missing:
    """The row, or why there is none: whatever goes wrong with one measurement, the others are still made."""
    release_memory(execution.device)
    try:
        return measurement.take()
    except InputError as error:
        return Missing(measurement.section, measurement.name, str(error))
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return Missing(measurement.section, measurement.name, reason)
