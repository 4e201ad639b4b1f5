"""The page of methods: idea, loss, settings and recorded numbers of each, from the code and the records themselves."""

import dataclasses
import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from laplacenet.evaluation.spread import mean_and_std
from laplacenet.experiments.finished_runs import read_finished_run
from laplacenet.experiments.paper.published import (
    LAPLACENET,
    LATER,
    LATER_ON_WRN_28_8,
    SUPERVISED,
    TABLE_3,
    TABLE_4,
    TABLE_5,
    Published,
)
from laplacenet.experiments.paper.recipes import find_recipe
from laplacenet.experiments.paper.records import read_records
from laplacenet.experiments.paper.rivals import RIVALS
from laplacenet.experiments.paper.series import RecordBook, last_error, schedule
from laplacenet.reports.comparison import markdown_table
from laplacenet.runtime import InputError, read_json
from laplacenet.training import METHODS, config_class, method_class
from laplacenet.training.methods.presets import EQUAL, ORIGINAL, PRESETS, on_cifar100

INTRODUCTION = """# Methods

<!-- made by `laplacenet methods --page`; edit the methods' docstrings instead -->

Train any of them with `laplacenet train DATA --method NAME`, with its authors' settings by `--preset original`, or on
the terms of LaplaceNet's Table IV by `--preset equal`; set them side by side with `laplacenet compare`. To write your
own, see [Add a method](add-a-method.md).

`laplacenet methods NAME` prints one section of this page. Published numbers are test errors in percent; they come from
different code bases, augmentations and budgets. Recorded ones are ours.

In the losses x is a labeled image with label y, u an unlabeled one, f the network's logits and p = softmax f, z its
features, C the number of classes, b the number of images in a batch (b_u of them unlabeled), CE the cross-entropy, H
the entropy, and w(t) a weight that rises at the beginning. Unlabeled batches hold no labeled images; some authors, such
as FixMatch's, draw them from all. A network that is tested as an average of weights begins as their plain mean, so that
the first weights do not linger. "Our reading" says where a method departs from its paper or its authors' code, or had
to be completed.
"""
UNPUBLISHED = "- Published: nothing in LaplaceNet's tables or in USB's."
UNRECORDED = "- Recorded: nothing yet."
RECIPES = ("table-3", "table-4", "table-5", "few-labels")


def methods_page(records: Path) -> str:
    """`records` holds what `laplacenet compare --record` wrote, and the folder above it the records of `reproduce`."""
    contents, book = _records(records)
    tables = [_side_by_side(content) for content in contents if content["runs"]]
    return "\n".join([INTRODUCTION, *tables, *(_section(name, contents, book) for name in METHODS)])


def method_section(name: str, records: Path) -> str:
    """One method's section of the page."""
    method_class(name)
    if name not in METHODS:
        raise InputError(f"{name}: give the name of a method that comes with laplacenet; laplacenet methods lists them")
    return _section(name, *_records(records))


def _records(folder: Path) -> tuple[list[dict[str, Any]], RecordBook]:
    contents = [read_json(path) for path in sorted(folder.glob("*.json"))] if folder.is_dir() else []
    return contents, RecordBook(read_records(folder.parent) if folder.parent.is_dir() else [])


def _side_by_side(record: dict[str, Any]) -> str:
    """A comparison as its own table."""
    runs = [read_finished_run(entry, source="record") for entry in record["runs"]]
    n_labeled = next((run.outcome.n_labeled for run in runs if run.outcome is not None), None)
    labels = "" if n_labeled is None else f", {n_labeled} labels"
    return f"## Side by side: {_name(record)}{labels}, {_budget(record)}\n\n{markdown_table(runs)}"


def _name(record: dict[str, Any]) -> str:
    return str(record["comparison"]["base"]["name"])


def _budget(record: dict[str, Any]) -> str:
    for_s = record["comparison"].get("for_s")
    return f"{record['runs'][0]['steps']} steps" if for_s is None else f"{for_s / 60:g} min of training"


def _section(name: str, records: Sequence[dict[str, Any]], book: RecordBook) -> str:
    method, config = METHODS[name], config_class(name)
    lines = [f"## {name}", "", f"{_sentence(method.summary)} *{method.source}.*", "", f"**Loss.** {_text(method)}"]
    if _text(config):
        lines += ["", f"**Settings.** {_text(config)}"]
    published = list(_published(name)) or [UNPUBLISHED]
    recorded = [*_reproduced(name, book), *_numbers(name, records)] or [UNRECORDED]
    return "\n".join([*lines, "", *_settings(name), "", *published, *recorded]) + "\n"


def _reproduced(name: str, book: RecordBook) -> Iterator[str]:
    """The method's cells of the paper's tables that are recorded, each by its best schedule."""
    for recipe in map(find_recipe, RECIPES):
        for cell in [cell for cell in (*recipe.cells, *recipe.others) if cell.experiment.method.name == name]:
            series = book.series(cell.experiment)
            spread = series[0].spread(last_error) if series else None
            if spread is not None:
                of_cell = f"{recipe.name}, {cell.column.replace('/', ', ')} labels, {cell.experiment.model.name}"
                settings = "" if cell.preset is None else f", {cell.preset} settings"
                yield f"- Recorded ({of_cell}{settings}): {spread} % test error ({schedule(series[0])})."


def _settings(name: str) -> Iterator[str]:
    """The method's own settings first, then those of training that a preset changes."""
    presets = PRESETS.get(name, {})
    default = {f"method.{field.name}": field.default for field in dataclasses.fields(config_class(name))}
    default.pop("method.name")
    rows = {**default, **{path: "" for preset in presets.values() for path in preset if path not in default}}
    yield f"| setting | default | {ORIGINAL} | {EQUAL} |"
    yield "|---|---|---|---|"
    for path, value in rows.items():
        original, equal = (_in_preset(name, preset, path) for preset in (ORIGINAL, EQUAL))
        yield f"| `{path}` | {_value(value)} | {original} | {equal} |"


def _in_preset(name: str, preset: str, path: str) -> str:
    shown = _value(PRESETS.get(name, {}).get(preset, {}).get(path, ""))
    other = on_cifar100(name, preset).get(path)
    return shown if other is None else f"{shown} (CIFAR-100: {_value(other)})".strip()


ROWS = {LAPLACENET: "laplacenet", SUPERVISED: "supervised", **RIVALS}
SOURCES: tuple[tuple[str, dict[str, dict[str, Published]]], ...] = (
    ("LaplaceNet's Table III, 13-CNN", TABLE_3.rows),
    ("LaplaceNet's Table IV, WRN-28-2", TABLE_4.rows),
    ("LaplaceNet's Table V, ResNet-18", TABLE_5.rows),
    ("USB, WRN-28-2", LATER),
    ("USB or the method's paper, WRN-28-8", LATER_ON_WRN_28_8),
)


def _published(name: str) -> Iterator[str]:
    """A line for each source: test error in percent by data set and number of labels."""
    for source, rows in SOURCES:
        for row, numbers in rows.items():
            if ROWS.get(row) == name and numbers:
                shown = "; ".join(f"{column.replace('/', ', ')} labels: {number}" for column, number in numbers.items())
                yield f"- Published ({source}): {shown}."


def _numbers(name: str, records: Sequence[dict[str, Any]]) -> Iterator[str]:
    for record in records:
        runs = [run for run in record["runs"] if run["method"] == name and run["test_error"] is not None]
        if runs:
            mean, deviation = mean_and_std([100 * run["test_error"] for run in runs])
            spread = "" if deviation is None else f" ± {deviation:.2f}"
            n_labeled = runs[0]["outcome"]["n_labeled"]
            counted = f"1 run, {_budget(record)}" if len(runs) == 1 else f"{len(runs)} runs, {_budget(record)} each"
            yield f"- Recorded on {_name(record)} with {n_labeled} labels: {mean:.2f}{spread} % test error ({counted})."


def _text(kind: type) -> str:
    return inspect.cleandoc(kind.__doc__ or "")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value)
