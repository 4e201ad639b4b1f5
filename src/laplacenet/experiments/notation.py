"""Experiments as JSON and as `section.field=value`."""

from collections.abc import Iterable, Mapping
from typing import Any

from laplacenet.experiments.experiment import Experiment, with_own_embedding
from laplacenet.runtime import InputError, settings
from laplacenet.runtime.decoding import Choices
from laplacenet.runtime.settings import to_json
from laplacenet.training import MethodConfig, config_class

__all__ = ["by_path", "from_json", "override", "to_json", "with_later_settings"]

MOVED = ("n_views", "mixup_alpha", "supervised_passes", "class_weighting")
"""Settings of a method that older experiments have in the section `train`."""
FORMER_SOURCES = {"graph": "laplacenet", "network": "network-labels", "none": "supervised"}
"""What `train.label_source` was called, as methods."""


def chosen_config(content: dict[str, Any]) -> type[MethodConfig]:
    name = content.get("name", "laplacenet")
    if not isinstance(name, str):
        raise InputError(f"method.name = {name!r}; expected the name of a method")
    return config_class(name)


CHOOSE: Choices = {MethodConfig: chosen_config}


def from_json(content: Any, *, source: str) -> Experiment:
    """The experiment of an `experiment.json` or of a record; `source` names the file where it is not one."""
    return settings.from_json(Experiment(), upgraded(content), source=source, choose=CHOOSE)


def with_later_settings(content: Any, *, source: str) -> dict[str, Any]:
    """An experiment as it is written now: settings that are newer than its file have their defaults.

    One whose default is not what was done before has the value that `later_setting` gave it for that.
    """
    return to_json(from_json(content, source=source))


def by_path(content: dict[str, Any]) -> dict[str, Any]:
    """The settings of an experiment as JSON, by names such as `train.steps`."""
    return {
        f"{section}.{name}" if isinstance(part, dict) else section: value
        for section, part in content.items()
        for name, value in (part.items() if isinstance(part, dict) else [("", part)])
    }


def override(experiment: Experiment, texts: Iterable[str], *, fixed: Mapping[str, str] | None = None) -> Experiment:
    """The experiment with settings such as `train.steps=500` or `method.n_views=5`; `fixed` as in `settings`."""
    texts = list(texts)
    for text in texts:
        section, _, name = text.partition("=")[0].strip().partition(".")
        if section == "train" and name in MOVED:
            raise InputError(f"--set {text}: {name} belongs to the method; write method.{name}=…")
        if section == "train" and name == "label_source":
            methods = " or ".join(FORMER_SOURCES.values())
            raise InputError(f"--set {text}: choose a method instead, with --method {methods}")
    changed = settings.override(experiment, texts, fixed=fixed, choose=CHOOSE)
    named = {text.partition("=")[0].strip() for text in texts}
    is_decided = "model.unit_length" in named or not named & {"method.name", "model.name"}
    return changed if is_decided else with_own_embedding(changed)


def upgraded(content: Any) -> Any:
    """An experiment that was written before methods had a section of their own, as it is written now."""
    train = content.get("train") if isinstance(content, dict) else None
    if not isinstance(train, dict) or not train.keys() & {*MOVED, "label_source"}:
        return content
    source = train.get("label_source", "graph")
    name = str(FORMER_SOURCES.get(source, source))
    known = config_class(name).__dataclass_fields__
    method = {"name": name, **{field: train[field] for field in MOVED if field in train and field in known}}
    kept = {field: value for field, value in train.items() if field not in (*MOVED, "label_source")}
    return {**content, "train": kept, "method": method}
