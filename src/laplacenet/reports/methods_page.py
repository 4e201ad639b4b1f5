"""The pages of methods: an index with what is recorded, a page for each method, a picture for each comparison."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from laplacenet.reports.comparison import draw_comparison
from laplacenet.reports.comparison_view import (
    NOTHING,
    ComparisonView,
    Grid,
    budget,
    data_and_labels,
    error_of,
    markdown_grid,
    spread_of,
    title_of,
    view_comparison,
)
from laplacenet.reports.method_page import (
    Records,
    file_name,
    method_page,
    published_errors,
    read_all_records,
    reproduced,
    short_source,
)
from laplacenet.reports.recorded_comparison import RecordedComparison
from laplacenet.reports.rendering import keep_together, plain_cell
from laplacenet.reports.style import reduce_colors
from laplacenet.runtime import InputError, write_whole
from laplacenet.runtime.files import read_whole, require_folder
from laplacenet.training import METHODS

INDEX, FOLDER = "methods.md", "methods"
MADE_BY = b"<!-- made by `laplacenet methods"  # in every page, also those of earlier versions
COMMON_CELL, COMMON_NAME = "cifar100/4000", "CIFAR-100, 4 000"
"""The cell of the paper's tables that most methods have a published number for."""
USUAL_NETWORK = "13-CNN"
FAMILIES = {
    "Baselines": ("supervised", "network-labels"),
    "Labels from a graph": ("laplacenet", "lp", "mt-lp", "dag"),
    "Agreement between outputs": (
        *("pi-model", "temporal-ensembling", "mean-teacher", "vat", "sntg", "fast-swa", "ict", "dual-student"),
    ),
    "The network's own labels": ("tssdl", "pl-mixup", "mixmatch"),
    "Weak views label strong ones": (
        *("uda", "fixmatch", "flexmatch", "freematch", "softmatch", "adamatch", "simmatch"),
    ),
}

INTRODUCTION = """# Methods

<!-- made by `laplacenet methods --pages`; edit the methods' docstrings and the records instead -->

LaplaceNet and 23 other methods of semi-supervised learning train with the same engine, networks and views. Each has a
page: its idea, loss, settings, published errors and ours. `laplacenet methods NAME` prints that page in the terminal.
Train with any of them by `laplacenet train DATA --method NAME`, set them side by side with
[`laplacenet compare`](compare.md), or [add your own](add-a-method.md).
"""
COLUMNS_EXPLAINED = """All errors are test errors of the last network. "Published" is the error on CIFAR-100 with 4 000
labels where LaplaceNet's Table III (13-CNN) or IV (WRN-28-2) has one, with the 13-CNN unless another network is named.
These numbers come from different code, augmentation and budgets. "Ours" are our own runs: of the same cell of the
tables, and of the comparisons below, which train all methods under the same conditions. An error with ± is a mean and
its standard deviation over runs, one without it is that of a single run. Where the deviations of two methods overlap,
the numbers do not say which one is better; the [notebook](notebook.md) has more on the runs.
"""
NOTATION = """## How to read a loss

The losses keep the letters of the methods' papers. On all pages

| letter | meaning |
|---|---|
| x, y | a labeled image and its label |
| u | an unlabeled image |
| f, p | the network's logits, and p = softmax f |
| z | the network's features (in the Π-model's papers its output) |
| C | the number of classes |
| b, b_u | the images in a batch, and the unlabeled ones among them |
| w(t) | a weight that rises in the first part of training |
| CE, KL, H | cross-entropy, Kullback–Leibler divergence, entropy |
| [ … ] | 1 if the condition holds, else 0 |
| weak, strong | a view by flip and crop; a view by RandAugment and cutout |

Unlabeled batches hold no labeled images; some authors, such as FixMatch's, draw them from all images. Where an average
of the weights is tested, it begins as their plain mean, so that the first weights do not linger. "Our reading" says
where a method departs from its paper or its authors' code, or had to be completed.
"""


def write_methods_pages(out: Path, records: Path) -> list[Path]:
    """`methods.md`, and in `methods/` a page for each method and a picture of each comparison that has runs."""
    require_folder(out / FOLDER, option="--pages")
    known = read_all_records(records)
    pages = {Path(INDEX): methods_index(known)}
    pages |= {Path(FOLDER) / f"{name}.md": method_page(name, known) + FOOTER for name in METHODS}
    pictures = {out / picture_path(record): record for record in known.comparisons if record.has_curves}
    require_own_pages([out / path for path in pages], pictures)
    for path, text in pages.items():
        write_whole(out / path, text.encode())
    for path, record in pictures.items():
        draw_comparison(record.runs, path, title=title_of(record))
        reduce_colors(path)
    return [*(out / path for path in pages), *pictures]


def require_own_pages(pages: Sequence[Path], pictures: Iterable[Path]) -> None:
    """Refuse to overwrite pages that were not made here. Pictures count as made here if any of the pages exists."""
    remedy = "choose another folder or move it away"
    there = [page for page in pages if os.path.lexists(page)]
    for page in there:
        if not page.is_file() or MADE_BY not in read_whole(page):
            raise InputError(f"--pages: {page} was not made by this command; {remedy}")
    for picture in pictures:
        if os.path.lexists(picture) and not there:
            raise InputError(f"--pages: {picture} was not made by this command, whose pages are not there; {remedy}")


FOOTER = "\n[All methods](../methods.md) · [how to read a loss](../methods.md#how-to-read-a-loss)\n"


def methods_index(records: Records) -> str:
    comparisons = [comparison_section(record) for record in records.comparisons]
    table = markdown_grid(index_grid(records))
    return "\n".join([INTRODUCTION, "## All methods\n", COLUMNS_EXPLAINED, table, *comparisons, NOTATION])


def index_grid(records: Records) -> Grid:
    """A row for each method, below a row for each family."""
    compared = [record for record in records.comparisons if record.runs]
    columns = (
        *("method and what it does", f"published: {COMMON_NAME} labels", f"ours: {COMMON_NAME} labels"),
        *(f"ours: {data_and_labels(record)}, {budget(record)}" for record in compared),
    )
    rows: list[tuple[str, ...]] = []
    for family, names in FAMILIES.items():
        rows.append((f"**{family}**", *("" for _ in columns[1:])))
        rows += [tuple(_index_cells(name, records, compared)) for name in names]
    return Grid(tuple(map(keep_together, columns)), tuple(rows))


def _index_cells(name: str, records: Records, compared: list[RecordedComparison]) -> Iterator[str]:
    method = METHODS[name]
    yield f"[{name}]({FOLDER}/{name}.md): {method.summary}; *{short_source(method.source)}*"
    yield keep_together(", ".join(_published(name))) or NOTHING
    yield keep_together(", ".join(_reproduced(name, records))) or NOTHING
    for record in compared:
        runs = record.runs_of(name)
        yield keep_together(error_of(runs[0]) if len(runs) == 1 else spread_of(runs))


def _published(name: str) -> Iterator[str]:
    for source, numbers in published_errors(name).items():
        if COMMON_CELL in numbers:
            yield f"{numbers[COMMON_CELL]} %{_network(source.rpartition(', ')[2])}"


def _reproduced(name: str, records: Records) -> Iterator[str]:
    for cell, training, error, _ in reproduced(name, records):
        network, _, schedule = training.partition(", ")
        if cell == COMMON_NAME:
            yield f"{error}{_network(network)} ({schedule})"


def _network(name: str) -> str:
    return "" if name == USUAL_NETWORK else f" with {name}"


def comparison_section(record: RecordedComparison) -> str:
    """The picture and the table first, then what is missing and how it was made."""
    view = view_comparison(record)
    parts = [f"## {view.title}", " ".join(map(plain_cell, view.facts))]
    if record.has_curves:
        parts.append(f"![Mean test error of each method over its training time]({picture_path(record).as_posix()})")
    if view.results is not None:
        parts.append(keep_together(markdown_grid(view.results)))
    parts += missing_list(view)
    parts += list(map(plain_cell, view.protocol))
    if view.tuning is not None:
        parts += [
            "Tuning: error on the held-out labels with each learning rate.",
            keep_together(markdown_grid(view.tuning)),
        ]
    command = " ".join(record.command.split()).replace("`", "'")
    parts.append(f"Record: {file_name(record.path)}, made by `{command}`.")
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def missing_list(view: ComparisonView) -> list[str]:
    if not view.missing:
        return []
    items = "\n".join(f"- {plain_cell(text)}" for text in view.missing)
    return [f"**Not recorded yet:**\n\n{items}"]


def picture_path(record: RecordedComparison) -> Path:
    return Path(FOLDER) / f"{record.name}.png"
