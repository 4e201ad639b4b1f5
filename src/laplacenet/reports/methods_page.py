"""The page of methods: idea, loss, settings and recorded numbers of each, from the code and the records themselves."""

import dataclasses
import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from laplacenet.evaluation.spread import mean_and_std
from laplacenet.runtime import read_json
from laplacenet.training import METHODS, config_class
from laplacenet.training.methods.presets import EQUAL, ORIGINAL, PRESETS

INTRODUCTION = """# Methods

<!-- made by `laplacenet methods --page`; edit the methods' docstrings instead -->

Train any of them with `laplacenet train DATA --method NAME`, with its authors' settings by `--preset original`, or on
the terms of LaplaceNet's Table IV by `--preset equal`; set them side by side with `laplacenet compare`. To write your
own, see [Add a method](add-a-method.md).
"""


def methods_page(records: Path) -> str:
    """`records` holds what `laplacenet compare --record` wrote; without it the page has no numbers."""
    contents = [read_json(path) for path in sorted(records.glob("*.json"))] if records.is_dir() else []
    return "\n".join([INTRODUCTION, *(_section(name, contents) for name in METHODS)])


def _section(name: str, records: Sequence[dict[str, Any]]) -> str:
    method, config = METHODS[name], config_class(name)
    lines = [f"## {name}", "", f"{_sentence(method.summary)} *{method.source}.*", "", _text(method)]
    if _text(config):
        lines += ["", f"Settings: {_text(config)}"]
    return "\n".join([*lines, "", *_settings(name), *_numbers(name, records)]) + "\n"


def _settings(name: str) -> Iterator[str]:
    """The method's own settings first, then those of training that a preset changes."""
    presets = PRESETS.get(name, {})
    default = {f"method.{field.name}": field.default for field in dataclasses.fields(config_class(name))}
    default.pop("method.name")
    rows = {**default, **{path: "" for preset in presets.values() for path in preset if path not in default}}
    yield f"| setting | default | {ORIGINAL} | {EQUAL} |"
    yield "|---|---|---|---|"
    for path, value in rows.items():
        cells = [value, *(presets.get(preset, {}).get(path, "") for preset in (ORIGINAL, EQUAL))]
        yield f"| `{path}` | {' | '.join(map(_value, cells))} |"


def _numbers(name: str, records: Sequence[dict[str, Any]]) -> Iterator[str]:
    for record in records:
        runs = [run for run in record["runs"] if run["method"] == name and run["test_error"] is not None]
        if runs:
            mean, deviation = mean_and_std([100 * run["test_error"] for run in runs])
            spread = "" if deviation is None else f" ± {deviation:.2f}"
            base, steps = record["comparison"]["base"]["name"], runs[0]["steps"]
            n_labeled = runs[0]["outcome"]["n_labeled"]
            counted = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
            of_runs = f"{counted}, {steps} steps"
            yield ""
            yield f"Recorded on {base} with {n_labeled} labels: {mean:.2f}{spread} % test error ({of_runs})."


def _text(kind: type) -> str:
    return inspect.cleandoc(kind.__doc__ or "")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value)
