"""The page of one method: idea, loss, settings, published and recorded numbers, from its docstrings and the records."""

import dataclasses
import functools
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
from laplacenet.experiments.paper.recipes import Cell, Recipe, find_recipe
from laplacenet.experiments.paper.records import read_records, record_path
from laplacenet.experiments.paper.rivals import RIVALS
from laplacenet.experiments.paper.series import RecordBook, Series, last_error, schedule
from laplacenet.reports.comparison_view import (
    DATA_NAMES,
    Grid,
    budget,
    data_and_labels,
    data_name,
    error_of,
    grouped,
    markdown_grid,
    model_name,
    spread_of,
)
from laplacenet.reports.recorded_comparison import RecordedComparison, read_recorded_comparisons
from laplacenet.reports.rendering import keep_together
from laplacenet.runtime import InputError
from laplacenet.training import METHODS, config_class, method_class
from laplacenet.training.methods.presets import EQUAL, ORIGINAL, PRESETS, on_cifar100

KEPT, READING, NUMBERS = "Kept between steps:", "Our reading:", "Published numbers:"
MADE = "<!-- made by `laplacenet methods --pages`; edit the method's docstrings instead -->"
UNPUBLISHED = "None in LaplaceNet's tables or in USB's."
RECIPES = ("table-3", "table-4", "table-5", "few-labels")
ROWS = {LAPLACENET: "laplacenet", SUPERVISED: "supervised", **RIVALS}
SOURCES: dict[str, dict[str, dict[str, Published]]] = {
    "Table III, 13-CNN": TABLE_3.rows,
    "Table IV, WRN-28-2": TABLE_4.rows,
    "Table V, ResNet-18": TABLE_5.rows,
    "USB, WRN-28-2": LATER,
    "USB or its paper, WRN-28-8": LATER_ON_WRN_28_8,
}
"""The tables are those of LaplaceNet's paper."""
PRESET_WORDS = {
    ORIGINAL: f"`--preset {ORIGINAL}` means its authors' settings",
    EQUAL: f"`--preset {EQUAL}` means the settings of LaplaceNet's Table IV",
}

UNIT_LENGTH = "The 13-CNN's features have length 1 (`model.unit_length`)."
NO_UNIT_LENGTH = f"{UNIT_LENGTH[:-1]} in LaplaceNet's paper; under this method they do not."


@dataclass(frozen=True)
class Records:
    """Recorded comparisons, which lie in `folder`, and the recorded cells of the paper's tables."""

    folder: Path
    comparisons: tuple[RecordedComparison, ...]
    book: RecordBook


def read_all_records(folder: Path) -> Records:
    """`folder` holds what `laplacenet compare --record` wrote, and the folder above it the records of `reproduce`."""
    cells = read_records(folder.parent) if folder.is_dir() else []
    return Records(folder, tuple(read_recorded_comparisons(folder)), RecordBook(cells))


def method_page(name: str, records: Records) -> str:
    """In Markdown. What stands under a heading comes from the docstrings of the method's module, class and settings."""
    method_class(name)
    if name not in METHODS:
        raise InputError(f"{name}: give the name of a method that comes with laplacenet; laplacenet methods lists them")
    method, text = METHODS[name], paragraphs_of(METHODS[name])
    parts = [
        f"# {name}\n\n{MADE}",
        f"{sentence(method.summary)} *{method.source}.*",
        *section("Idea", idea_of(method)),
        *section("Loss", "> " + text[0], *others(text)),
        *section("Kept between steps", *after(KEPT, text)),
        *section("Train it", *commands(name)),
        *section("Settings", *settings(name)),
        *section("Published test errors, %", published_table(name), *after(NUMBERS, text)),
        *section("Our test errors", recorded_table(name, records)),
        *section("Our reading", *after(READING, text)),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def section(title: str, *parts: str) -> list[str]:
    return [f"## {title}", *parts] if parts else []


def paragraphs_of(kind: type) -> list[str]:
    """Of a docstring, each as one line."""
    return [" ".join(part.split()) for part in inspect.cleandoc(kind.__doc__ or "").split("\n\n") if part.strip()]


def idea_of(method: type) -> str:
    """The text below the first line of the module's docstring."""
    module = inspect.getmodule(method)
    return " ".join(inspect.cleandoc((module and module.__doc__) or "").partition("\n\n")[2].split())


def after(beginning: str, paragraphs: Sequence[str]) -> list[str]:
    """The paragraphs that begin in this way, without it."""
    found = [text.removeprefix(beginning).strip() for text in paragraphs if text.startswith(beginning)]
    return [text[:1].upper() + text[1:] for text in found]


def others(paragraphs: Sequence[str]) -> list[str]:
    return [text for text in paragraphs[1:] if not text.startswith((KEPT, READING, NUMBERS))]


def commands(name: str) -> Iterator[str]:
    """One that runs anywhere, and those that need CIFAR."""
    command = f"laplacenet train digits --labels 40 --method {name}"
    yield f"<!-- tests add: --set train.steps=2 -->\n```console\n$ {command}\n```"
    presets = [preset for preset in PRESET_WORDS if PRESETS.get(name, {}).get(preset)]
    if presets:
        said = ", ".join(PRESET_WORDS[preset] for preset in presets)
        yield f"{said}, for example `laplacenet train cifar100 --method {name} --preset {presets[0]}`."


def settings(name: str) -> Iterator[str]:
    """The method's own settings, then those of training that a preset changes."""
    config = config_class(name)
    yield from explanations(config)
    presets = PRESETS.get(name, {})
    own = {f"method.{field}": default for field, default in own_fields(config).items()}
    yield markdown_grid(settings_grid(name, own))
    beside = {path: "" for preset in presets.values() for path in preset if path not in own}
    if beside:
        yield "What the presets also change; an empty cell leaves the setting as it is."
        yield markdown_grid(settings_grid(name, beside))
    yield UNIT_LENGTH if config.unit_length else NO_UNIT_LENGTH


def explanations(config: type) -> list[str]:
    """The docstring of the settings, and of those they build on whatever explains a field that it does not."""
    found = paragraphs_of(config)
    for kind in config.__mro__[1:]:
        if dataclasses.is_dataclass(kind):
            unexplained = [field for field in own_fields(config) if not explains(found, field)]
            found += [text for text in paragraphs_of(kind) if any(explains([text], name) for name in unexplained)]
    return found


def own_fields(config: type) -> dict[str, object]:
    """The settings with their defaults, but for the method's name."""
    assert dataclasses.is_dataclass(config)
    return {field.name: field.default for field in dataclasses.fields(config) if field.name != "name"}


def explains(paragraphs: Sequence[str], field: str) -> bool:
    return any(re.search(rf"`{field}[`=]", text) for text in paragraphs)


def settings_grid(name: str, defaults: Mapping[str, object]) -> Grid:
    """Without columns that would be empty."""
    columns = {
        "default": [shown(value) for value in defaults.values()],
        **{f"`{preset}`": [in_preset(name, preset, path) for path in defaults] for preset in (ORIGINAL, EQUAL)},
    }
    filled = {title: cells for title, cells in columns.items() if any(cells)}
    rows = tuple((f"`{path}`", *row) for path, row in zip(defaults, zip(*filled.values(), strict=True), strict=True))
    return Grid(("setting", *filled), rows)


def in_preset(name: str, preset: str, path: str) -> str:
    value, other = PRESETS.get(name, {}).get(preset, {}).get(path, ""), on_cifar100(name, preset).get(path)
    if other is None:
        return shown(value)
    return f"{shown(value)} (CIFAR-100: {shown(other)})" if value != "" else f"CIFAR-100: {shown(other)}"


def shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def published_errors(name: str) -> dict[str, dict[str, Published]]:
    """By source, then by data set and number of labels."""
    found = {}
    for source, rows in SOURCES.items():
        for row, numbers in rows.items():
            if ROWS.get(row) == name and numbers:
                found[source] = numbers
    return found


def published_table(name: str) -> str:
    """In percent, a column for each source."""
    errors = published_errors(name)
    if not errors:
        return UNPUBLISHED
    cells = sorted({cell for numbers in errors.values() for cell in numbers}, key=in_order)
    rows = [(cell_name(cell), *(str(numbers.get(cell, "")) for numbers in errors.values())) for cell in cells]
    return markdown_grid(Grid(("data, labels", *errors), tuple(rows)))


def in_order(cell: str) -> tuple[int, int]:
    data, _, labels = cell.partition("/")
    return list(DATA_NAMES).index(data), int(labels)


def cell_name(cell: str) -> str:
    """`cifar100/4000` as CIFAR-100, 4 000."""
    data, _, labels = cell.partition("/")
    return f"{data_name(data)}, {grouped(int(labels))}"


def recorded_table(name: str, records: Records) -> str:
    """The last network's error, with where it is recorded."""
    if not records.folder.is_dir():
        return f"Not known here: there is no folder `{records.folder}`. The project's repository has the records."
    found = (*reproduced(name, records), *under_presets(name, records), *compared(name, records))
    if not found:
        return "None recorded yet."
    rows = tuple(tuple(map(keep_together, numbers)) for *numbers, _ in found)
    files = ", ".join(files for *_, files in found)
    return markdown_grid(Grid(("data, labels", "training", "test error"), rows)) + f"\nRecorded in {files}.\n"


@functools.cache
def recipes() -> tuple[Recipe, ...]:
    """Made once for all pages."""
    return tuple(map(find_recipe, RECIPES))


def reproduced(name: str, records: Records) -> Iterator[tuple[str, ...]]:
    """The method's cells of the paper's tables that are recorded, each by its best schedule."""
    for recipe in recipes():
        for cell in [cell for cell in (*recipe.cells, *recipe.others) if cell.experiment.method.name == name]:
            series = records.book.series(cell.experiment)
            if series:
                yield from _recorded(cell, series[0], preset=cell.preset, results=records.folder.parent)


def under_presets(name: str, records: Records) -> Iterator[tuple[str, ...]]:
    """The same cells under a preset of LaplaceNet's, such as that of five minutes."""
    cells = {cell.experiment.name: cell for recipe in recipes() for cell in recipe.cells}
    for series in records.book.with_other_settings():
        key = series.records[0].key
        cell, (first, *others) = cells.get(key.name), key.overrides
        setting, _, preset = first.partition("=")
        if cell is not None and cell.experiment.method.name == name and setting == "preset" and not others:
            yield from _recorded(cell, series, preset=preset, results=records.folder.parent)


def _recorded(cell: Cell, series: Series, *, preset: str | None, results: Path) -> Iterator[tuple[str, ...]]:
    """The cell, how it was trained, its error and the files; nothing if every run diverged."""
    spread = series.spread(last_error)
    if spread is not None:
        laid = "" if preset is None else f", preset {preset}"
        files = ", ".join(file_name(record_path(results, one.key)) for one in series.records)
        yield (
            cell_name(cell.column),
            f"{model_name(cell.experiment.model.name)}, {schedule(series)}{laid}",
            f"{spread} %",
            files,
        )


def compared(name: str, records: Records) -> Iterator[tuple[str, ...]]:
    for record in records.comparisons:
        runs = record.runs_of(name)
        if runs:
            preset = "" if record.asked.preset is None else f", preset {record.asked.preset}"
            network = model_name(record.asked.base.model.name)
            training = f"{network}, n = {len(runs)}, {budget(record)}{preset}"
            error = error_of(runs[0]) if len(runs) == 1 else spread_of(runs)
            yield data_and_labels(record).removesuffix(" labels"), training, error, file_name(record.path)


def file_name(path: Path) -> str:
    """As it can be typed here, in Markdown."""
    here = Path.cwd()
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    return f"`{shown.as_posix()}`"


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def short_source(source: str) -> str:
    """Authors and year, such as Sohn et al., 2020; a source without a year as it is."""
    last = source.rpartition(";")[2].strip()
    year = re.search(r"\b(?:19|20)\d\d\b", last)
    return source if year is None else f"{last.split(',')[0]}, {year[0]}"
