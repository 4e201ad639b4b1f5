"""The benchmark's table: one line a measurement, ours beside alternatives."""

from collections.abc import Iterable
from dataclasses import dataclass

from laplacenet.experiments.benchmark import (
    BenchRecord,
    EpochRow,
    GraphRow,
    LoopRow,
    MethodRow,
    Missing,
    PartsRow,
    PassRow,
    PropagationRow,
    Row,
    ScaleRow,
    SearchRow,
    StepRow,
    StreamRow,
    ViewsRow,
)
from laplacenet.experiments.benchmark.epochs import BASELINE

SHOWN_S = 5e-4  # shorter parts of an epoch are left out
COLUMNS = ("what", "ours", "beside it", "ratio", "peak memory", "remarks")


@dataclass(frozen=True)
class TableLine:
    """Cells as text, in the order of COLUMNS."""

    what: str
    ours: str
    beside: str = ""
    ratio: str = ""
    memory: str = ""
    remarks: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.what, self.ours, self.beside, self.ratio, self.memory, self.remarks)


def table_lines(record: BenchRecord) -> list[TableLine]:
    """Every measurement of a record, then what is missing and why."""
    passes = [row for row in record.rows.get("labels", ()) if isinstance(row, PassRow)]
    ours = next((row for row in passes if row.way == "ours"), None)
    epochs = [row for row in record.rows.get("epochs", ()) if isinstance(row, EpochRow)]
    base = next((row for row in epochs if row.variant == BASELINE), None)
    lines = [row_line(row, our_pass=ours, base=base) for rows in record.rows.values() for row in rows]
    return lines + [missing_line(entry) for entry in record.missing]


def row_line(row: Row, *, our_pass: PassRow | None, base: EpochRow | None) -> TableLine:
    match row:
        case StepRow():
            return step_line(row)
        case ViewsRow():
            return views_line(row)
        case PassRow():
            return pass_line(row, our_pass)
        case PropagationRow():
            return propagation_line(row)
        case SearchRow():
            return search_line(row)
        case GraphRow():
            return graph_line(row)
        case ScaleRow():
            return scale_line(row)
        case StreamRow():
            return stream_line(row)
        case EpochRow():
            return epoch_line(row, base)
        case MethodRow():
            return method_line(row)
        case LoopRow():
            return loop_line(row)
        case PartsRow():
            return parts_line(row)


def step_line(row: StepRow) -> TableLine:
    return TableLine(
        what=f"step, {row.model}, b = {row.batch_size}, {row.n_views} views",
        ours=milliseconds(row.step_ms),
        beside=f"bare {milliseconds(row.bare_ms)}",
        ratio=f"{row.ratio:.2f} of bare",
        memory=gibibytes(row.peak_bytes),
        remarks=joined(
            [
                f"medians of {row.n_steps}",
                f"{milliseconds(row.whole_ms)} over {row.n_whole_steps} on end with drawing",
                f"the host draws {milliseconds(row.draw_ms)}",
                f"{row.images_per_s:,.0f} images/s",
                f"compiled in {row.compile_s:.0f} s" if row.compile_s else "",
            ]
        ),
    )


def views_line(row: ViewsRow) -> TableLine:
    torchvision = "" if row.torchvision_per_s is None else f"torchvision {row.torchvision_per_s:,.0f} a core"
    drawn = f"drawn at {row.drawn_per_s:,.0f}/s"
    return TableLine(
        what=f"strong views, {row.side} px",
        ours=f"{row.ours_per_s:,.0f}/s",
        beside=f"Pillow {row.pillow_per_s:,.0f}/s a core",
        ratio=f"{row.ratio:.1f} × {cores(row.n_cores)} of Pillow",
        remarks=joined([f"medians of {row.n_repeats}", drawn, torchvision, row.note]),
    )


def pass_line(row: PassRow, ours: PassRow | None) -> TableLine:
    what = f"pseudo-labels, n = {row.n:,}, C = {row.n_classes}"
    remarks = joined([stages(row.stages), f"{100 * row.accuracy:.1f} % right", row.note])
    memory = gibibytes(row.peak_bytes)
    if row.way.startswith("ours"):
        return TableLine(f"{what}{row.way[4:]}", format_seconds(row.total_s), memory=memory, remarks=remarks)
    return TableLine(
        what=what,
        ours="" if ours is None else format_seconds(ours.total_s),
        beside=f"{row.way} {format_seconds(row.total_s)}",
        ratio="" if ours is None else f"{row.total_s / ours.total_s:.1f} × as fast",
        memory=f"{memory} (theirs)",
        remarks=remarks,
    )


def propagation_line(row: PropagationRow) -> TableLine:
    faster = f"{row.spreading_s / row.exact_s:.1f} × as fast, {row.spreading_s / row.approximate_s:.1f} × with IVF"
    accuracies = (row.exact_accuracy, row.approximate_accuracy, row.spreading_accuracy)
    ours, by_ivf, theirs = (f"{100 * accuracy:.1f} %" for accuracy in accuracies)
    return TableLine(
        what=f"{row.n_labeled} labels spread, {row.data}, n = {row.n:,}, d = {row.d}",
        ours=f"{format_seconds(row.exact_s)}; {format_seconds(row.approximate_s)} with IVF",
        beside=f"LabelSpreading {format_seconds(row.spreading_s)}",
        ratio=faster,
        remarks=joined(
            [
                f"medians of {row.n_repeats}",
                "" if row.recall is None else f"recall {row.recall:.3f}",
                f"right {ours}, {by_ivf} with IVF, {theirs} LabelSpreading",
            ]
        ),
    )


def search_line(row: SearchRow) -> TableLine:
    return TableLine(
        what=f"neighbors by IVF, n = {row.n:,}, d = {row.d}, k = {row.k}",
        ours=format_seconds(row.ours_s),
        beside=f"faiss's inverted lists {format_seconds(row.faiss_s)}",
        ratio=f"{row.ratio:.1f} × as fast",
        remarks=joined(
            [
                f"recall {row.ours_recall:.3f}, faiss {row.faiss_recall:.3f} with {row.n_probes} lists probed",
                f"faiss timed on {row.n_queries:,} of the points" if row.n_queries < row.n else "",
            ]
        ),
    )


def graph_line(row: GraphRow) -> TableLine:
    search = "exact" if row.recall is None else f"recall {row.recall:.3f}"
    return TableLine(
        what=f"graph, n = {row.n:,}, d = {row.d}, k = {row.k}, C = {row.n_classes}",
        ours=format_seconds(row.total_s),
        ratio="" if row.exponent is None else f"time ~ n^{row.exponent:.2f}",
        memory=gibibytes(row.peak_bytes),
        remarks=joined([search, stages(row.stages), f"{row.n_iterations} iterations", f"purity {row.purity:.2f}"]),
    )


def scale_line(row: ScaleRow) -> TableLine:
    search = "exact" if row.recall is None else f"recall {row.recall:.3f}"
    exact, by_ivf = (
        f"{100 * accuracy:.2f} % right in {format_seconds(seconds)}"
        for accuracy, seconds in (
            (row.sample_exact_accuracy, row.sample_exact_s),
            (row.sample_approximate_accuracy, row.sample_approximate_s),
        )
    )
    return TableLine(
        what=f"graph at scale, n = {row.n:,}, d = {row.d}, k = {row.k}, C = {row.n_classes}",
        ours=format_seconds(row.total_s),
        memory=gibibytes(row.peak_bytes),
        remarks=joined(
            [
                search,
                stages(row.stages),
                f"{row.n_iterations} iterations",
                f"{100 * row.accuracy:.2f} % right",
                f"{row.sample_n:,} of the points: exact graph {exact}, by IVF {by_ivf}",
            ]
        ),
    )


def stream_line(row: StreamRow) -> TableLine:
    return TableLine(
        what=f"streamed step, {row.model}, b = {row.batch_size}, {row.n_views} views",
        ours=milliseconds(row.streamed_whole_ms),
        beside=f"resident {milliseconds(row.resident_whole_ms)}",
        ratio=f"{row.ratio:.2f} of resident",
        remarks=f"means of {row.n_steps}, drawing included; medians {milliseconds(row.streamed_ms)}"
        f" and {milliseconds(row.resident_ms)}",
    )


def epoch_line(row: EpochRow, base: EpochRow | None) -> TableLine:
    return TableLine(
        what=f"an epoch, {row.variant}, {row.model}, n = {row.n_images:,}",
        ours=format_seconds(row.epoch_s),
        beside=f"paper's hours {row.published_ratio:.2f} of its baseline",
        ratio="" if base is None else f"{row.step_ms / base.step_ms:.2f} of the baseline, step by step",
        remarks=joined(
            [
                f"medians of {row.n_repeats}",
                f"{row.n_steps} steps",
                f"{milliseconds(row.step_ms)} a step with its share of the labels",
                f"labels {format_seconds(row.label_s)}",
                stages({name: value for name, value in row.parts.items() if value >= SHOWN_S}),
            ]
        ),
    )


def method_line(row: MethodRow) -> TableLine:
    return TableLine(
        what=f"step of {row.method}, {row.model}, {row.labeled_batch_size} of {row.batch_size} labeled",
        ours=milliseconds(row.step_ms),
        beside=f"bare passes {milliseconds(row.bare_ms)}",
        ratio=f"{row.ratio:.2f} of bare",
        memory=gibibytes(row.peak_bytes),
        remarks=joined([row.passes, f"medians of {row.n_steps}", f"{milliseconds(row.whole_ms)} with drawing"]),
    )


def loop_line(row: LoopRow) -> TableLine:
    return TableLine(
        what=f"{row.method}, {row.model}, {row.labeled_batch_size} + {row.unlabeled_batch_size} images",
        ours=f"{row.ours_per_s:.1f} steps/s",
        beside=f"plain PyTorch loop {row.plain_per_s:.1f} steps/s",
        ratio=f"{row.ratio:.1f} × as fast",
        remarks=f"{row.n_workers} workers with torchvision's RandAugment; means of {row.n_plain_steps} of its steps",
    )


def parts_line(row: PartsRow) -> TableLine:
    """The sum over all layers beside its least time; the remarks have the kinds of work and the three worst parts."""
    least_ms = sum(map(row.least_ms, row.parts))
    kinds = [
        f"{kind} {milliseconds(ms)} (at least {milliseconds(least)})" for kind, (ms, least) in row.by_kind().items()
    ]
    lost = sorted(row.parts, key=lambda part: row.least_ms(part) - part.ms)[:3]
    worst = [f"{p.layer} {p.kind} {milliseconds(p.ms)} (at least {milliseconds(row.least_ms(p))})" for p in lost]
    rates = f"{row.product_flop_per_s / 1e12:.3g} TFLOP/s and {row.copy_bytes_per_s / 1e12:.2g} TB/s"
    return TableLine(
        what=f"the bare step in parts, {row.model}, {row.n_images} images",
        ours=f"{milliseconds(row.sum_ms)} (whole step {milliseconds(row.whole_ms)})",
        beside=f"at least {milliseconds(least_ms)} at {rates}",
        ratio=f"{row.sum_ms / least_ms:.2f} of the least",
        remarks=joined([", ".join(kinds), "most is lost in " + ", ".join(worst), f"medians of {row.n_repeats}"]),
    )


def missing_line(entry: Missing) -> TableLine:
    return TableLine(what=entry.name, ours="not measured", remarks=entry.reason)


def markdown_tables(records: Iterable[BenchRecord]) -> str:
    """One table a record under a line that says on what and by which commit."""
    return "\n\n".join(markdown_table(record) for record in records) + "\n"


def markdown_table(record: BenchRecord) -> str:
    rows = [COLUMNS, ("---",) * len(COLUMNS), *(line.cells for line in table_lines(record))]
    body = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
    return f"{origin(record)}\n\n{body}"


def origin(record: BenchRecord) -> str:
    """Hardware, versions, commit and date in one line."""
    source = record.provenance
    hardware = source["hardware"]
    machine = hardware.get("gpu") or f"CPU, {threads(hardware['threads'])}"
    unfinished = "" if record.is_complete else "; not finished"
    return (
        f"{machine}, torch {source['libraries']['torch']}, Python {source['python']},"
        f" commit {source['commit'][:7]}, {source['date'][:10]}, load {source['load']:.1f} at the start{unfinished}"
    )


def milliseconds(value: float) -> str:
    return f"{value:.2f} ms" if value < 100 else f"{value:,.0f} ms"


def format_seconds(value: float) -> str:
    return f"{value:.3f} s" if value < 1 else f"{value:,.1f} s"


def gibibytes(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:.2f} GiB"


def cores(n: int) -> str:
    return "one core" if n == 1 else f"{n} cores"


def threads(n: int) -> str:
    return "one thread" if n == 1 else f"{n} threads"


def stages(parts: dict[str, float]) -> str:
    return ", ".join(f"{name} {format_seconds(value)}" for name, value in parts.items())


def joined(parts: Iterable[str]) -> str:
    return "; ".join(part for part in parts if part)
