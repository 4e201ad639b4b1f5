"""A labeling as one self-contained HTML page: accuracy, confidence, suspect labels, and what to label next."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from laplacenet.labeling.acquisition import as_csv, next_entries
from laplacenet.labeling.outcome import N_NEXT, read_gallery
from laplacenet.labeling.result import SOURCES, Interval, Labeling, load_labeling
from laplacenet.labeling.stages import read_curves
from laplacenet.reports.labeling_figures import confidence_chart, loss_chart, reliability_chart, shares_chart
from laplacenet.reports.labeling_map import HEIGHT as MAP_HEIGHT
from laplacenet.reports.labeling_map import WIDTH as MAP_WIDTH
from laplacenet.reports.labeling_map import map_view
from laplacenet.reports.labeling_pictures import Gallery, class_tiles, next_tiles, suspect_tiles
from laplacenet.reports.labeling_tables import ClassRow, class_rows, confusion
from laplacenet.reports.paper_figures import inline_svg
from laplacenet.reports.rendering import template
from laplacenet.runtime import write_whole
from laplacenet.runtime.wording import in_number

PAGE = "report.html"
N_OPEN = 12  # classes up to which all pictures are shown at once
N_LISTED, N_LEAST = 20, 10  # more classes than this are folded away, the least accurate shown before them


def write_labeling_page(folder: Path) -> Path:
    """Write `report.html` from the files of the run folder; returns its path."""
    content = page_content(load_labeling(folder), read_gallery(folder), read_curves(folder), run=folder)
    page = template("labeling.html.j2", **FILTERS).render(**content)
    write_whole(folder / PAGE, page.encode())
    return folder / PAGE


def page_content(labeling: Labeling, gallery: Gallery, curves: list[dict[str, Any]], *, run: Path) -> dict[str, Any]:
    summary, rows = labeling.summary, class_rows(labeling)
    noun = "picture" if summary.kind == "pictures" else "row"
    calibration, asked = summary.calibration, next_entries(labeling, N_NEXT)
    return {
        "summary": summary,
        "noun": noun,
        "thing": f"{noun}s",
        "sources": source_counts(labeling),
        "n": len(labeling),
        "n_given": int(labeling.is_given.sum()),
        "n_suspect": int(labeling.is_suspect.sum()),
        "mean_confidence": mean_confidence(labeling),
        "classes": rows,
        "least_accurate": least_accurate(rows),
        "is_many": len(rows) > N_LISTED,
        "is_open": len(rows) <= N_OPEN,
        "widest": max(max(row.given, row.found, row.prior) for row in rows),
        "reliability": drawn(
            "reliability", reliability_chart(calibration) if calibration and calibration.bins else None
        ),
        "confidence": drawn("confidence", confidence_chart(labeling)),
        "losses": drawn("loss", loss_chart(curves)),
        "n_stages": len({entry["stage"] for entry in curves}),
        "shares": drawn("shares", shares_chart(curves, labeling)),
        "suspects": suspect_tiles(labeling, gallery),
        "next": next_tiles(labeling, gallery, asked),
        "next_csv": as_csv(labeling, asked),
        "tiles": [class_tiles(labeling, gallery, label) for label in range(len(rows))],
        "has_pictures": bool(gallery),
        "map": map_view(labeling),
        "confusion": confusion(labeling),
        "commands": commands(run, summary.kind, is_complete=summary.is_complete),
        "elapsed": elapsed(summary.elapsed_s),
        "map_size": (MAP_WIDTH, MAP_HEIGHT),
    }


def drawn(name: str, figure: Figure | None) -> Markup | None:
    """A chart as part of the page; its only text is numbers and the names of its axes."""
    return None if figure is None else Markup(inline_svg(figure, name=name))


def least_accurate(rows: list[ClassRow]) -> list[ClassRow]:
    judged = [(row.accuracy.value, row) for row in rows if row.accuracy is not None]
    return [row for _, row in sorted(judged, key=lambda pair: pair[0])[:N_LEAST]]


def source_counts(labeling: Labeling) -> list[tuple[str, int]]:
    return [(name, int((labeling.sources == place).sum())) for place, name in enumerate(SOURCES)]


def mean_confidence(labeling: Labeling) -> float | None:
    """Of the new labels; None if all were given."""
    found = labeling.confidence[~labeling.is_given]
    return float(found.mean()) if len(found) else None


def commands(run: Path, kind: str, *, is_complete: bool) -> list[tuple[str, str]]:
    """Commands for the next steps."""
    where = shlex.quote(str(run))
    new = "new_pictures/" if kind == "pictures" else "new_embeddings.npy"
    lines = [] if is_complete else [("resume the run", f"laplacenet label --resume {where}")]
    lines += [
        ("list what to label next", f"laplacenet next {where} -n 50 --out next.csv"),
        (
            f"label new {'pictures' if kind == 'pictures' else 'rows'}",
            f"laplacenet predict {where} {new} --out predictions.csv",
        ),
    ]
    if kind == "pictures":
        lines.append(("export the network", f"laplacenet export {where}"))
    return [*lines, ("write this page again", f"laplacenet report {where}")]


def elapsed(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def shown(text: object) -> str:
    """A name that is safe in a page: control characters become visible symbols or a replacement character."""
    return "".join(_shown_sign(sign) for sign in str(text))


def _shown_sign(sign: str) -> str:
    code = ord(sign)
    if sign in "\n\r\t":
        return "↵" if sign != "\t" else "⇥"
    if code < 0x20 or code == 0x7F:
        return chr(0x2421 if code == 0x7F else 0x2400 + code)
    return "\ufffd" if 0x80 <= code < 0xA0 or 0xD800 <= code < 0xE000 or code & 0xFFFE == 0xFFFE else sign


def shown_lines(text: str) -> str:
    return "\n".join(shown(line) for line in text.split("\n"))


def percent(share: float) -> str:
    return f"{100 * share:.0f}\u202f%"


def within(interval: Interval) -> str:
    return f"{100 * interval.low:.0f}–{100 * interval.high:.0f}\u202f%"


def count(n: int) -> str:
    return f"{n:,}".replace(",", "\u202f")


def counted(n: int, noun: str) -> str:
    return f"{count(n)} {in_number(n, noun)}"


FILTERS: dict[str, Callable[..., str]] = {
    "shown": shown,
    "shown_lines": shown_lines,
    "percent": percent,
    "within": within,
    "count": count,
    "counted": counted,
}
