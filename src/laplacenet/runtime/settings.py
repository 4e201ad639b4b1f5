"""Settings as JSON and as `section.field=value`: every value is read as its field's type or refused.

Settings are a frozen dataclass of plain values and of sections, which are such dataclasses themselves.
"""

import dataclasses
import json
import types
import typing
from collections.abc import Iterable
from typing import Any, TypeVar

from laplacenet.runtime.errors import InputError

Settings = TypeVar("Settings")
LARGEST_INTEGER = 2**1023  # that a float can hold


def to_json(settings: Any) -> dict[str, Any]:
    """As a JSON file holds them: a tuple is a list there."""
    content: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(settings)))
    return content


def from_json(settings: Settings, content: Any, *, source: str) -> Settings:
    """The settings with what `content` says in place of their own; `source` names the file when it is at fault."""
    kind = type(settings)
    name = kind.__name__.lower()
    if not isinstance(content, dict):
        raise InputError(f"{source}: not an {name} (a JSON object is expected)")
    known = _hints(kind)
    for key, value in content.items():
        if key not in known:
            raise InputError(f"{source}: unknown entry {key!r}; an {name} has {', '.join(known)}")
        if key in _sections(kind):
            entry = _section(known[key], value, where=f"{source}: {key}")
        else:
            entry = _checked(kind, key, value, where=source)
        settings = _with(settings, {key: entry})
    return settings


def override(settings: Settings, texts: Iterable[str]) -> Settings:
    """Settings such as `train.steps=500`, as the command line gives them with --set.

    All of a section are put in at once: two that only fit together may come in any order.
    """
    kind = type(settings)
    changes: dict[str, dict[str, Any]] = {section: {} for section in _sections(kind)}
    for text in texts:
        path, equals, value = text.partition("=")
        section, dot, name = path.strip().partition(".")
        where = f"--set {text}"
        if not equals:
            raise InputError(f"{where}: write section.field=value, for example train.steps=500")
        if not dot:
            settings = _with(settings, {section: _parsed(kind, section, value, where=where)})
        elif section not in changes:
            raise InputError(f"{where}: unknown section {section!r}; choose one of {', '.join(changes)}")
        else:
            changes[section][name] = _parsed(type(getattr(settings, section)), name, value, where=where)
    changed: Settings = _with(settings, {name: _with(getattr(settings, name), new) for name, new in changes.items()})
    return changed


def _section(kind: type, content: Any, *, where: str) -> Any:
    if not isinstance(content, dict):
        raise InputError(f"{where} must be an object with the fields {', '.join(_hints(kind))}")
    values = {name: _checked(kind, name, value, where=where) for name, value in content.items()}
    try:
        return kind(**values)
    except InputError as error:  # settings know their names, not the file that they come from
        raise InputError(f"{where}: {error}") from error


def _with(settings: Any, values: dict[str, Any]) -> Any:
    return dataclasses.replace(settings, **values)


def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _sections(kind: type) -> list[str]:
    return [name for name, hint in _hints(kind).items() if dataclasses.is_dataclass(hint)]


def _options(kind: type, name: str, where: str) -> tuple[Any, ...]:
    """The types that a field accepts."""
    hints = _hints(kind)
    if name not in hints or dataclasses.is_dataclass(hints[name]):
        simple = [key for key, hint in hints.items() if not dataclasses.is_dataclass(hint)]
        raise InputError(f"{where}: unknown field {name!r}; choose one of {', '.join(simple)}")
    hint = hints[name]
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def _parsed(kind: type, name: str, text: str, *, where: str) -> Any:
    """A value from the command line, read as the field's type."""
    options = _options(kind, name, where)
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
    options = _options(kind, name, where)
    for option in options:
        if typing.get_origin(option) is tuple and isinstance(value, list) and all(map(_is_number, value)):
            return tuple(float(part) for part in value)
        if option is float and _is_number(value):
            return float(value)
        if isinstance(option, type) and isinstance(value, option) and isinstance(value, bool) == (option is bool):
            return value
    raise InputError(f"{where}: {name} is {value!r}, not {_spoken(options)}")


def _is_number(value: Any) -> bool:
    """One that a float can hold: JSON's integers have no end."""
    is_whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST_INTEGER
    return is_whole or isinstance(value, float)


def _spoken(options: tuple[Any, ...]) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "none"}
    return " or ".join(names.get(option, "numbers with commas between") for option in options)
