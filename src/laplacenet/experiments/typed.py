"""Dataclasses from JSON: exactly their fields, each of its type, or refused."""

import dataclasses
import types
import typing
from typing import Any

from laplacenet.runtime.settings import LARGEST_INTEGER

Kind = typing.TypeVar("Kind")


def typed(kind: type[Kind], content: Any) -> Kind:
    """The dataclass from a JSON object with exactly its fields, each of its type; what has a default may be missing."""
    values = require(dict, content)
    hints = typing.get_type_hints(kind)
    optional = {
        field.name for field in dataclasses.fields(typing.cast(Any, kind)) if field.default is not dataclasses.MISSING
    }
    if odd_ones := (values.keys() ^ hints.keys()) - (optional - values.keys()):
        odd = sorted(odd_ones)[0]
        raise TypeError(f"{odd!r} is {'missing' if odd in hints else 'unknown'} in {kind.__name__}")
    return kind(**{name: as_kind(hints[name], value, name=name) for name, value in values.items()})


def as_kind(hint: Any, value: Any, *, name: str) -> Any:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    for option in options:
        if typing.get_origin(option) is tuple and isinstance(value, list):
            return tuple(require(str, part) for part in value)
        if option is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST_INTEGER:
            return float(value)
        if isinstance(option, type) and isinstance(value, option) and isinstance(value, bool) == (option is bool):
            return value
    raise TypeError(f"{name} is {value!r}")


def require(kind: type[Kind], value: Any) -> Kind:
    if not isinstance(value, kind):
        raise TypeError(f"a {kind.__name__} is expected in place of {value!r}")
    return value
