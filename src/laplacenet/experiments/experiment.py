"""An experiment: every setting of a run, in pieces owned by the rooms that they describe."""

import dataclasses
import types
import typing
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from laplacenet.augment import AugmentConfig
from laplacenet.graph import GraphConfig
from laplacenet.models import ModelConfig
from laplacenet.runtime import InputError
from laplacenet.training import TrainConfig


@dataclass(frozen=True)
class DataConfig:
    """Which data, and which of its labels may be seen.

    `name` is a data set's name, a folder or an `.npz` file. Labels come from `label_file` (names and labels), from
    `split_file` (row numbers; `split_key` where it holds several), or else `n_labeled` of them are drawn equally from
    every class by `split_seed` (the run's own seed if None).
    """

    name: str = "digits"
    folder: str | None = None
    size: int | None = None
    n_labeled: int | None = None
    split_file: str | None = None
    split_key: str | None = None
    split_seed: int | None = None
    label_file: str | None = None


@dataclass(frozen=True)
class Experiment:
    """Made by a recipe or by the command line; a run folder keeps the resolved one."""

    name: str = "custom"
    seed: int = 0
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    graph: GraphConfig = field(default_factory=GraphConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


def to_json(experiment: Experiment) -> dict[str, Any]:
    return dataclasses.asdict(experiment)


def from_json(content: Any, *, source: str) -> Experiment:
    """The experiment of an `experiment.json`; `source` names the file in what is said when it is not one."""
    if not isinstance(content, dict):
        raise InputError(f"{source}: not an experiment (a JSON object is expected)")
    experiment = Experiment()
    for key, value in content.items():
        if key not in _fields(Experiment):
            raise InputError(f"{source}: unknown entry {key!r}; an experiment has {', '.join(_fields(Experiment))}")
        if dataclasses.is_dataclass(getattr(experiment, key)):
            section = getattr(experiment, key)
            if not isinstance(value, dict):
                raise InputError(
                    f"{source}: {key} must be an object with the fields {', '.join(_fields(type(section)))}"
                )
            values = {
                name: _checked(type(section), name, entry, where=f"{source}: {key}") for name, entry in value.items()
            }
            value = dataclasses.replace(section, **values)
        else:
            value = _checked(Experiment, key, value, where=source)
        experiment = dataclasses.replace(experiment, **{key: value})
    return experiment


def override(experiment: Experiment, settings: Iterable[str]) -> Experiment:
    """Settings such as `train.steps=500`, as the command line gives them with --set."""
    for setting in settings:
        path, equals, text = setting.partition("=")
        section_name, dot, name = path.strip().partition(".")
        if not equals:
            raise InputError(f"--set {setting}: write section.field=value, for example train.steps=500")
        if not dot:
            value = _parsed(Experiment, section_name, text, where=f"--set {setting}")
            experiment = dataclasses.replace(experiment, **{section_name: value})
            continue
        section = getattr(experiment, section_name, None)
        if not dataclasses.is_dataclass(section) or isinstance(section, type):
            sections = [key for key in _fields(Experiment) if dataclasses.is_dataclass(getattr(experiment, key))]
            raise InputError(f"--set {setting}: unknown section {section_name!r}; choose one of {', '.join(sections)}")
        value = _parsed(type(section), name, text, where=f"--set {setting}")
        experiment = dataclasses.replace(experiment, **{section_name: dataclasses.replace(section, **{name: value})})
    return experiment


def _fields(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _field_type(kind: type, name: str, where: str) -> Any:
    hints = _fields(kind)
    if name not in hints or dataclasses.is_dataclass(hints[name]):
        simple = [key for key, hint in hints.items() if not dataclasses.is_dataclass(hint)]
        raise InputError(f"{where}: unknown field {name!r}; choose one of {', '.join(simple)}")
    return hints[name]


def _parsed(kind: type, name: str, text: str, *, where: str) -> Any:
    """A value from the command line, read as the field's type."""
    hint = _field_type(kind, name, where)
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if text.lower() == "none" and type(None) in options:
        return None
    for option in options:
        try:
            if option is bool:
                return {"true": True, "false": False, "on": True, "off": False}[text.lower()]
            if typing.get_origin(option) is tuple:
                return tuple(float(part) for part in text.strip("()[]").split(","))
            if option is not type(None):
                return option(text)
        except (ValueError, KeyError):
            continue
    raise InputError(f"{where}: {text!r} is not {_spoken(options)}")


def _checked(kind: type, name: str, value: Any, *, where: str) -> Any:
    """A value from JSON, refused if it is of another type than the field."""
    hint = _field_type(kind, name, where)
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    for option in options:
        if typing.get_origin(option) is tuple and isinstance(value, list):
            return tuple(value)
        if option is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if isinstance(option, type) and isinstance(value, option) and isinstance(value, bool) == (option is bool):
            return value
    raise InputError(f"{where}: {name} is {value!r}, not {_spoken(options)}")


def _spoken(options: tuple[Any, ...]) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "none"}
    return " or ".join(names.get(option, "numbers with commas between") for option in options)
