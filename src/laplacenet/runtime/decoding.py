"""The one way from JSON to dataclasses: exactly their fields, each of its type, or refused with the path to the fault.

A dataclass may hold plain values, other dataclasses, tuples, lists and dictionaries of them, enums and literals, and
any of these or None. What has a default may be missing: files of older versions lack the fields that came later.
"""

import dataclasses
import enum
import functools
import math
import reprlib
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from laplacenet.runtime.errors import InputError

Kind = TypeVar("Kind")
Choices = Mapping[type, Callable[[dict[str, Any]], type]]
"""For a field typed as a base class: which dataclass a JSON object stands for."""
BEFORE = "before"
"""In a field's metadata: its value in files that are older than the field, if that is not its default."""
LARGEST_INTEGER = 2**1023  # that a float can hold
NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "none"}


def later_setting(default: Any, *, before: Any) -> Any:
    """A dataclass field that was added later; in older files it has the value that stands for what was done `before`.

    Only needed where that is not the default.
    """
    return dataclasses.field(default=default, metadata={BEFORE: before})


def decode(kind: type[Kind], content: Any, *, source: str, choose: Choices | None = None, finite: bool = False) -> Kind:
    """The dataclass that `content`, read from JSON, describes; `source` names the file when it is at fault.

    `choose` maps a base class to a function from a JSON object to the dataclass to decode it as. `finite` refuses NaN
    and infinities.
    """
    decoded: Kind = Decoder(source, choose or {}, finite=finite).value(kind, content, "")
    return decoded


class Decoder:
    """Decodes values of one source; a path such as `curve[3].loss` says where in it a value stands."""

    def __init__(self, source: str, choose: Choices, *, finite: bool = False) -> None:
        self.source, self.choose, self.finite = source, choose, finite

    def value(self, hint: Any, content: Any, path: str) -> Any:
        if hint is Any:
            return content
        options = options_of(hint)
        exact = [option for option in options if self._is_exact(option, content)]
        # JSON does not tell 1 from 1.0: a whole number may stand for any other, unless the field also takes integers
        if not exact and float in options and is_integer(content) and abs(content) < LARGEST_INTEGER:
            return float(content)
        if not exact:
            raise self.mismatch(path, content, options)
        return self._converted(exact[0], content, path)

    def object(self, kind: type, content: dict[str, Any], path: str) -> Any:
        """A dataclass from a JSON object."""
        known = fields_of(kind)
        if unknown := sorted(content.keys() - known.keys()):
            raise self.refusal(path, f"unknown entry {unknown[0]!r}; {article(kind)} has {', '.join(known)}")
        missing = [name for name, field in known.items() if name not in content and not has_default(field)]
        if missing:
            raise self.refusal(path, f"{missing[0]!r} is missing; {article(kind)} has {', '.join(known)}")
        hints = hints_of(kind)
        values = {name: self.value(hints[name], value, joined(path, name)) for name, value in content.items()}
        return self.made(kind, former_values(kind) | values, path)

    def made(self, kind: type, values: dict[str, Any], path: str) -> Any:
        """The dataclass with these values; what it refuses itself is refused with its place."""
        try:
            return kind(**values)
        except (InputError, ValueError, TypeError, ArithmeticError) as error:
            raise self.refusal(path, str(error)) from error

    def chosen(self, kind: type, content: dict[str, Any], path: str) -> type:
        """The dataclass that stands in the place of a base class."""
        if kind not in self.choose:
            return kind
        try:
            return self.choose[kind](content)
        except InputError as error:
            raise self.refusal(path, str(error)) from error

    def mismatch(self, path: str, content: Any, options: tuple[Any, ...]) -> InputError:
        kinds: list[Any] = [option for option in options if dataclasses.is_dataclass(option)]
        if kinds and not path:
            return self.refusal("", f"not {article(kinds[0])} (a JSON object is expected)")
        if kinds and len(options) == 1:
            return self.refusal("", f"{path} must be an object with the fields {', '.join(fields_of(kinds[0]))}")
        return self.refusal("", f"{path or 'it'} is {reprlib.repr(content)}, not {spoken(options)}")

    def refusal(self, path: str, text: str) -> InputError:
        return InputError(": ".join(part for part in (self.source, path, text) if part))

    def _is_exact(self, option: Any, content: Any) -> bool:
        """Whether JSON of this form can stand for the option; its parts are looked at when it is converted."""
        origin = typing.get_origin(option) or option
        if origin is Literal:
            return any(content == value and type(content) is type(value) for value in typing.get_args(option))
        if origin in (tuple, list):
            return isinstance(content, list)
        if origin is dict or dataclasses.is_dataclass(option):
            return isinstance(content, dict)
        if isinstance(option, type) and issubclass(option, enum.Enum):
            return any(content == member.value and type(content) is type(member.value) for member in option)
        if option is float:
            return isinstance(content, float) and (math.isfinite(content) or not self.finite)
        return isinstance(option, type) and type(content) is option

    def _converted(self, option: Any, content: Any, path: str) -> Any:
        origin, parts = typing.get_origin(option) or option, typing.get_args(option)
        if dataclasses.is_dataclass(option):
            kind = self.chosen(typing.cast(type, option), content, path)
            return self.object(kind, content, path)
        if origin is list:
            return self._items((parts or (Any,)) * len(content), content, path)
        if origin is tuple:
            return tuple(self._items(self._item_hints(option, content, path), content, path))
        if origin is dict:
            hint = parts[1] if parts else Any
            return {name: self.value(hint, value, joined(path, name)) for name, value in content.items()}
        return option(content) if isinstance(option, type) and issubclass(option, enum.Enum) else content

    def _item_hints(self, option: Any, content: list[Any], path: str) -> tuple[Any, ...]:
        parts = typing.get_args(option) or (Any, ...)
        if len(parts) == 2 and parts[1] is ...:
            return (parts[0],) * len(content)
        if len(parts) != len(content):
            raise self.refusal("", f"{path} has {len(content)} entries; it must have {len(parts)}")
        return parts

    def _items(self, hints: tuple[Any, ...], content: list[Any], path: str) -> list[Any]:
        return [
            self.value(hint, part, f"{path}[{i}]") for i, (hint, part) in enumerate(zip(hints, content, strict=True))
        ]


@functools.cache
def hints_of(kind: type) -> dict[str, Any]:
    """The type of each field; a class variable is none."""
    hints = typing.get_type_hints(kind)
    return {name: hints[name] for name in fields_of(kind)}


@functools.cache
def fields_of(kind: Any) -> dict[str, dataclasses.Field[Any]]:
    """What a dataclass is made with, in order."""
    return {field.name: field for field in dataclasses.fields(kind) if field.init}


@functools.cache
def former_values(kind: Any) -> dict[str, Any]:
    """Of the fields that older files lack, the values other than the defaults."""
    return {name: field.metadata[BEFORE] for name, field in fields_of(kind).items() if BEFORE in field.metadata}


def options_of(hint: Any) -> tuple[Any, ...]:
    """The types that a field accepts, one of them or several."""
    is_union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    return typing.get_args(hint) if is_union else (hint,)


def has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def is_integer(content: Any) -> bool:
    return isinstance(content, int) and not isinstance(content, bool)


def article(kind: Any) -> str:
    name = kind.__name__.lower()
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def spoken(options: tuple[Any, ...]) -> str:
    """What a field accepts, in words."""
    return " or ".join(_spoken(option) for option in options)


def _spoken(option: Any) -> str:
    origin, parts = typing.get_origin(option) or option, typing.get_args(option)
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if isinstance(option, type) and issubclass(option, enum.Enum):
        return " or ".join(repr(member.value) for member in option)
    if origin is tuple and set(parts) <= {int, float, ...}:
        return "numbers with commas between"
    if origin in (tuple, list):
        return "a list"
    return NAMES.get(option, "an object")
