"""Settings as JSON and as `section.field=value`: every value is read as its field's type or refused.

Settings are a frozen dataclass of plain values and of sections, which are such dataclasses themselves. A section may be
typed as a base class; then `choose` says, as for `decode`, which dataclass its content stands for.
"""

import dataclasses
import enum
import json
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar

from laplacenet.runtime.decoding import (
    Choices,
    Decoder,
    article,
    fields_of,
    former_values,
    hints_of,
    options_of,
    spoken,
)
from laplacenet.runtime.errors import InputError

Settings = TypeVar("Settings")
Changes = dict[str, tuple[str, str]]  # by field: the value as text, and the option that gave it
SWITCHES = {"true": True, "false": False, "on": True, "off": False}


def to_json(settings: Any) -> dict[str, Any]:
    """As a JSON file holds them: a tuple is a list there, a member of an enum its value."""
    content: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(settings), default=_plain))
    return content


def from_json(settings: Settings, content: Any, *, source: str, choose: Choices | None = None) -> Settings:
    """The settings with what `content` says in place of their own; `source` names the file when it is at fault."""
    kind: Any = type(settings)
    decoder = Decoder(source, choose or {})
    if not isinstance(content, dict):
        raise decoder.mismatch("", content, (kind,))
    hints, known = hints_of(kind), fields_of(kind)
    for key in content:
        if key not in known:
            raise decoder.refusal("", f"unknown entry {key!r}; {article(kind)} has {', '.join(known)}")
    values = {key: decoder.value(hints[key], value, key) for key, value in content.items()}
    own = {name: getattr(settings, name) for name in known}
    made: Settings = decoder.made(kind, own | former_values(kind) | values, "")
    return made


def override(
    settings: Settings,
    texts: Iterable[str],
    *,
    fixed: Mapping[str, str] | None = None,
    choose: Choices | None = None,
) -> Settings:
    """Settings such as `train.steps=500`, as the command line gives them with --set.

    All of a section are put in at once: two that only fit together may come in any order. `fixed` are the fields, or
    whole sections, that a command sets itself, each with the option to use instead.
    """
    kind: Any = type(settings)
    changes: dict[str, Changes] = {section: {} for section in _sections(kind)}
    for text in texts:
        path, equals, value = text.partition("=")
        section, dot, name = path.strip().partition(".")
        where = f"--set {text}"
        if not equals:
            raise InputError(f"{where}: write section.field=value, for example train.steps=500")
        _refuse_fixed(section, name, where=where, fixed=fixed or {})
        if not dot:
            _refuse_without_section(settings, section, where=where)
            settings = _with(settings, {section: _parse(kind, section, value, where=where)})
        elif section not in changes:
            raise InputError(f"{where}: unknown section {section!r}; choose one of {', '.join(changes)}")
        else:
            changes[section][name] = (value, where)
    sections = {
        name: _changed(getattr(settings, name), hints_of(kind)[name], new, choose or {})
        for name, new in changes.items()
        if new
    }
    changed: Settings = _with(settings, sections)
    return changed


def _refuse_fixed(section: str, name: str, *, where: str, fixed: Mapping[str, str]) -> None:
    for path in (section, f"{section}.{name}"):
        if path in fixed:
            raise InputError(f"{where}: {path} cannot be set this way; use {fixed[path]}")


def _refuse_without_section(settings: Any, name: str, *, where: str) -> None:
    """Name the sections that have a field of this name, unless the settings themselves have one."""
    kind: Any = type(settings)
    sections: dict[str, Any] = {section: type(getattr(settings, section)) for section in _sections(kind)}
    found = [f"{section}.{name}" for section, part in sections.items() if name in fields_of(part)]
    if found and name not in fields_of(kind):
        raise InputError(f"{where}: unknown field {name!r}; write {' or '.join(found)}")


def _changed(section: Any, hint: type, changes: Changes, choose: Choices) -> Any:
    """A section with some of its fields changed; a change may make it another of the base class's dataclasses."""
    kind = type(section)
    if hint in choose:
        kind = choose[hint](to_json(section) | {name: text for name, (text, _) in changes.items()})
    values = {name: _parse(kind, name, text, where=where) for name, (text, where) in changes.items()}
    return _with(section, values) if kind is type(section) else kind(**values)


def _with(settings: Any, values: dict[str, Any]) -> Any:
    return dataclasses.replace(settings, **values)


def _sections(kind: type) -> list[str]:
    return [name for name, hint in hints_of(kind).items() if dataclasses.is_dataclass(hint)]


def _parse(kind: type, name: str, text: str, *, where: str) -> Any:
    """A value from the command line, read as the field's type."""
    hints = hints_of(kind)
    if name not in hints or dataclasses.is_dataclass(hints[name]):
        simple = [key for key, hint in hints.items() if not dataclasses.is_dataclass(hint)]
        raise InputError(f"{where}: unknown field {name!r}; choose one of {', '.join(simple)}")
    options = options_of(hints[name])
    if text.lower() == "none" and type(None) in options:
        return None
    for option in options:
        try:
            if option is not type(None):
                return _parse_as(option, text)
        except (ValueError, KeyError):
            continue
    raise InputError(f"{where}: {text!r} is not {spoken(options)}")


def _parse_as(option: Any, text: str) -> Any:
    """Raises ValueError or KeyError where the text is none of that type."""
    if option is bool:
        return SWITCHES[text.lower()]
    if typing.get_origin(option) is tuple:
        kind = typing.get_args(option)[0]
        return tuple(_parse_as(kind, part.strip()) for part in text.strip("()[]").split(","))
    if typing.get_origin(option) is Literal:
        return {str(value): value for value in typing.get_args(option)}[text]
    if issubclass(option, enum.Enum):
        return {str(member.value): member for member in option}[text]
    return option(text)


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    raise TypeError(f"{value!r} cannot be written as JSON")
