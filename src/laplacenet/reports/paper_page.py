"""The report on the paper from records alone: one self-contained HTML page, and Markdown."""

import base64
import logging
import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from laplacenet.experiments.benchmark import read_bench_records, read_side_by_side
from laplacenet.experiments.benchmark.side_by_side import FOLDER as BENCH
from laplacenet.experiments.paper.claims import Claim, numbers, statements
from laplacenet.experiments.paper.comparisons import Finding, Verdict
from laplacenet.experiments.paper.moons_record import FOLDER, PICTURE, MoonsRecord, read_moons
from laplacenet.experiments.paper.recipes import RECIPES, find_recipe
from laplacenet.experiments.paper.records import Record, read_records, record_path
from laplacenet.experiments.paper.series import RecordBook, belongs_to, has_labels_of, last_error, minutes, schedule
from laplacenet.experiments.paper.variants import n_labels_asked
from laplacenet.reports.bench_table import markdown_tables
from laplacenet.reports.comparison import comparison_figure
from laplacenet.reports.comparison_view import Grid, title_of, view_comparison
from laplacenet.reports.epoch_table import epochs_table
from laplacenet.reports.paper_figures import STYLE, error_curves, figure_4, inline_svg, png
from laplacenet.reports.recorded_comparison import RecordedComparison, read_recorded_comparisons
from laplacenet.reports.rendering import keep_together, plain_cell, template
from laplacenet.reports.tables import ABSENT, figure_table, machine, paper_tables
from laplacenet.runtime import InputError, write_whole

log = logging.getLogger(__name__)
COMPARISONS = "methods"
HTML, MARKDOWN, BENCH_MARKDOWN = "report.html", "report.md", "bench.md"
OWN_TITLE = b"<title>LaplaceNet: the paper's experiments</title>"
"""Only this page has it."""
MARKS = {
    Verdict.REPRODUCED: "✓",
    Verdict.DIRECTION: "↗",
    Verdict.NOT_RUN: "·",
    Verdict.CONTRADICTED: "✗",
}
FIGURES = ("figure-3", "figure-4", "class-weighting")
CURVES = ("table-8", *FIGURES)
REM_PER_INCH = 3.9  # two thirds of its own size
HEADLINE_TABLES = ("table-3", "table-4", "table-6")
ERROR_TABLES = (*HEADLINE_TABLES, "table-5", "table-7", "table-8", "few-labels")  # where two have a number, the first


@dataclass(frozen=True)
class Judged:
    """A claim with its finding."""

    claim: Claim
    finding: Finding

    @property
    def mark(self) -> str:
        return MARKS[self.finding.verdict]

    @property
    def kind(self) -> str:
        """The verdict's name as the page's style sheet knows it."""
        return self.finding.verdict.name.lower().replace("_", "-")


@dataclass(frozen=True)
class Drawing:
    """A picture that stands below a table."""

    name: str
    title: str
    figure: Figure

    @property
    def legible_rem(self) -> int:
        """The least width at which its letters can be read; on a narrower page it is scrolled."""
        return round(REM_PER_INCH * self.figure.get_figwidth())


def write_report(results: Path, out: Path, *, overwrite: bool = False) -> Path:
    """`report.html` (all in one file), `report.md` with its pictures, and `bench.md`; gives the page's path.

    An earlier report is replaced; other files by these names only with `overwrite`.
    """
    book = RecordBook(read_records(results), moons=read_moons(results), epochs=read_side_by_side(results))
    for record in book.records:
        if why := _why_left_out(record):
            log.warning("%s: is left out of the tables (%s)", record_path(results, record.key), why)
    picture = results / FOLDER / PICTURE
    moons_png = picture.read_bytes() if book.moons is not None and picture.is_file() else None
    comparisons = read_recorded_comparisons(results / COMPARISONS)
    has_benchmarks = any((results / BENCH).glob("*.json"))
    content = report_content(book) | {"comparisons": [view_comparison(record) for record in comparisons]}
    content["n_records"] += len(comparisons)
    if content["n_records"] == 0 and not has_benchmarks and next(results.rglob("*.json"), None) is not None:
        makers = f"laplacenet reproduce and bench write them, and compare --record {results / COMPARISONS}/NAME.json"
        raise InputError(f"{results}: none of the .json files there is a record; {makers}")
    _make_folder(out)
    content["drawings"] |= {record.name: [comparison_drawing(record)] for record in comparisons if record.has_curves}
    drawn = [drawing for drawings in content["drawings"].values() for drawing in drawings]
    svgs = {drawing.name: inline_svg(drawing.figure, name=drawing.name) for drawing in drawn}
    pictures = {drawing.name: png(drawing.figure) for drawing in drawn}
    if moons_png is not None:
        pictures[FOLDER] = moons_png
    moons_uri = moons_png and f"data:image/png;base64,{base64.b64encode(moons_png).decode()}"
    page = template("paper.html.j2", **FILTERS).render(**content, svgs=svgs, moons_uri=moons_uri)
    markdown = template("paper.md.j2", **FILTERS).render(**content, drawn=set(pictures))
    files = {HTML: page.encode(), MARKDOWN: markdown.encode()}
    files |= {f"{name}.png": picture_png for name, picture_png in pictures.items()}
    if has_benchmarks:
        files[BENCH_MARKDOWN] = markdown_tables(read_bench_records(results / BENCH)).encode()
    if not overwrite:
        _require_free(out, files)
    for name, written in files.items():  # the page first: by it the folder is known as a report's
        write_whole(out / name, written)
    return out / HTML


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {out}: cannot be made ({error.strerror}); name a folder") from error


def _require_free(out: Path, names: Iterable[str]) -> None:
    """Refuse a folder with files by these names, unless it holds an earlier report."""
    page = out / HTML
    if page.is_file() and OWN_TITLE in page.read_bytes():
        return
    taken = [name for name in names if os.path.lexists(out / name)]
    if taken:
        said = f"holds {taken[0]}, which is not part of an earlier report"
        raise InputError(f"--out {out}: {said}; choose another or --overwrite")


def report_content(book: RecordBook) -> dict[str, Any]:
    judged = [Judged(claim, claim.judge(book)) for claim in statements()]
    judged_numbers = [Judged(claim, claim.judge(book)) for claim in numbers()]
    counts = Counter(one.finding.verdict for one in [*judged, *judged_numbers])
    return {
        "headline": headline(book),
        "statements": judged,
        "numbers": judged_numbers,
        "counts": [(verdict.value, verdict.name.lower().replace("_", "-"), counts[verdict]) for verdict in Verdict],
        "tables": [*paper_tables(book), *([] if book.epochs is None else [epochs_table(book.epochs)])],
        "figures": [figure_table(find_recipe(name), book) for name in FIGURES],
        "drawings": drawings(book),
        "moons": moons_rows(book.moons),
        "other_settings": other_settings(book),
        "runs": [run_row(record) for record in book.records],
        "n_records": len(book.records) + (book.moons is not None) + (book.epochs is not None),
    }


def other_settings(book: RecordBook) -> Grid | None:
    """A row for each preset or setting under which a cell of the paper was run; None where none was."""
    recipes = [find_recipe(name) for name in ERROR_TABLES]
    cells = [cell for recipe in recipes for cell in (*recipe.cells, *recipe.others)]
    published = {cell.experiment.name: str(cell.published) for cell in reversed(cells) if cell.published is not None}
    rows = [
        (
            series.records[0].key.name,
            ", ".join(series.records[0].key.overrides),
            published.get(series.records[0].key.name, ABSENT),
            str(series.spread(last_error) or ABSENT),
            schedule(series),
            str(series.spread(minutes) or ABSENT),
            ", ".join(dict.fromkeys(_commit(record) for record in series.records)),
        )
        for series in book.with_other_settings()
    ]
    columns = ("experiment", "settings", "published error, %", "ours, %", "runs", "minutes of training", "commit")
    return Grid(columns, tuple(rows)) if rows else None


def moons_rows(moons: MoonsRecord | None) -> list[tuple[str, str]]:
    """Figure 2's methods and their test accuracy."""
    if moons is None:
        return []
    names = {"supervised": "all labels", "network": "network pseudo-labels", "graph": "graph pseudo-labels"}
    rows = []
    for method, name in names.items():
        mean, std = moons.spread(method)
        rows.append((name, f"{mean:.1f}" + ("" if std is None else f" ± {std:.1f}") + f" (n = {len(moons.runs)})"))
    return rows


def drawings(book: RecordBook) -> dict[str, list[Drawing]]:
    """What there is to draw, by the anchor of the table that it stands below."""
    points = figure_4(book)
    drawn = {"figure-4": [] if points is None else [Drawing("figure-4", find_recipe("figure-4").title, points)]}
    for name in CURVES:
        recipe = find_recipe(name)
        curves = error_curves(book, recipe)
        if curves is not None:
            title = f"{recipe.title}: error along the way"
            drawn.setdefault(name, []).append(Drawing(f"{name}-curves", title, curves))
    return drawn


def comparison_drawing(record: RecordedComparison) -> Drawing:
    """Its name serves in a page's ids: no sign of a file's name may break out of them."""
    name, title = re.sub(r"[^\w-]", "-", f"methods-{record.name}"), title_of(record)
    with mpl.rc_context(STYLE):
        figure = comparison_figure(record.runs, title="")
    return Drawing(name, f"{title}: test error over training time", figure)


def run_row(record: Record) -> dict[str, str]:
    """A line about one run: whose, how long, what came out, and of which code."""
    key, outcome = record.key, record.outcome
    errors = [f"{100 * error:.2f}" for error in (outcome.test_error, outcome.best_test_error) if error is not None]
    result = " / ".join(errors) or "–"
    return {
        "name": key.name + (f" with {', '.join(key.overrides)}" if key.overrides else ""),
        "split": f"{key.split} ({key.split_source})",
        "steps": f"{key.base_steps:,}".replace(",", " "),
        "result": result if record.diverged_at_step is None else f"diverged after step {record.diverged_at_step}",
        "hours": f"{outcome.total_s / 3600:.2f}",
        "machine": machine(record.provenance),
        "commit": _commit(record),
        "counts": _counts(record),
    }


def _commit(record: Record) -> str:
    return str(record.provenance.get("commit", "unknown"))[:12]


def _why_left_out(record: Record) -> str:
    asked, given = n_labels_asked(record.experiment.data), record.outcome.n_labeled
    return "" if has_labels_of(record, record.experiment) else f"{given} labels instead of {asked}"


def _counts(record: Record) -> str:
    """Whether it does, and if not, why."""
    recipes = [find_recipe(name) for name in RECIPES]
    cells = [cell for recipe in recipes for cell in (*recipe.cells, *recipe.others)]
    if any(belongs_to(record, cell.experiment) for cell in cells):
        return "yes"
    why = _why_left_out(record) or "other settings than the paper's"
    return f"no, {why}"


def headline(book: RecordBook) -> str:
    """LaplaceNet's error rates that are recorded, published beside ours, as a Markdown table."""
    lines = [
        "| data, labels | network | published error, % | ours, % |",
        "|---|---|---|---|",
    ]
    seen = set()
    for name in HEADLINE_TABLES:
        for cell in find_recipe(name).cells:
            experiment = cell.experiment
            series = book.series(experiment)
            spread = series[0].spread(last_error) if series else None
            if experiment.method.name == "laplacenet" and spread is not None and experiment.name not in seen:
                seen.add(experiment.name)
                ours = f"**{spread}** ({schedule(series[0])})"
                lines.append(f"| {cell.column} | {experiment.model.name} | {cell.published} | {ours} |")
    if not seen:
        lines.append("| nothing recorded yet | | | |")
    return "\n".join(lines) + "\n"


FILTERS = {"cell": plain_cell, "keep_together": keep_together}
