"""Labels as people write them: which mean "unknown", the order of the classes, and warnings about odd ones."""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import torch
from jaxtyping import Int64
from torch import Tensor

from laplacenet.data.images import UNKNOWN
from laplacenet.data.names import quoted, writable
from laplacenet.runtime import InputError
from laplacenet.runtime.wording import counted

_WHOLE_NUMBER = re.compile(r"(-?[0-9]{1,18})(?:\.0*)?")  # longer numbers are identifiers, not class numbers


def known_label(text: str) -> str | None:
    """The label; None for an empty one and for NaN, which tables use for a missing value."""
    label = writable(text.strip())
    return None if label.lower() in ("", "nan") else label


def in_order(labels: Collection[str]) -> tuple[str, ...]:
    """Names sorted, numbers by their value."""
    values = {label: int(number[1]) for label in labels if (number := _WHOLE_NUMBER.fullmatch(label))}
    if len(values) == len(labels):
        return tuple(sorted(labels, key=lambda label: (values[label], label)))
    return tuple(sorted(labels))


def without_fractions(labels: Iterable[str], *, where: str) -> dict[str, str | None]:
    """Where all are whole numbers: `3.0`, which spreadsheets make of 3, as `3`; −1 as unknown; less is refused."""
    numbers = {label: _WHOLE_NUMBER.fullmatch(label) for label in labels}
    if not all(numbers.values()):
        return {label: label for label in numbers}
    spelled = {label: number[1] for label, number in numbers.items() if number}
    for number in spelled.values():
        if int(number) < UNKNOWN:
            raise InputError(f"{where}: label {number}; numbers are 0 and above, -1 for unknown")
    return {label: None if int(number) == UNKNOWN else number for label, number in spelled.items()}


def numbered(
    labels: Sequence[str | None],
    class_names: tuple[str, ...] = (),
    *,
    merge_similar_classes: bool = False,
    where: str,
) -> tuple[Int64[Tensor, " n"], tuple[str, ...]]:
    """The labels as numbers, −1 for none, and the names of the classes: those given if they include every label."""
    counts = Counter(label for label in labels if label is not None)
    spelled = without_fractions(counts, where=where)
    if merge_similar_classes:
        joined = joined_classes(counts)
        spelled = {label: joined.get(name or "", name) for label, name in spelled.items()}
    given = {name for name in spelled.values() if name is not None}
    names = class_names if given <= set(class_names) else in_order(given)
    number = {name: position for position, name in enumerate(names)}
    of_label = {label: UNKNOWN if name is None else number[name] for label, name in spelled.items()}
    numbers = [UNKNOWN if label is None else of_label[label] for label in labels]
    return torch.tensor(numbers, dtype=torch.int64), names


def similar_classes(counts: Mapping[str, int]) -> list[tuple[str, ...]]:
    """Groups of class names that differ only in case, spaces or accents, the most frequent of each group first."""
    groups: dict[str, list[str]] = {}
    for name in counts:
        groups.setdefault(plain_name(name), []).append(name)
    several = [group for group in groups.values() if len(group) > 1]
    return [tuple(sorted(group, key=lambda name: (-counts[name], name))) for group in several]


def joined_classes(counts: Mapping[str, int]) -> dict[str, str]:
    """The name that each class takes when similar ones are merged: that of the most frequent."""
    return {name: group[0] for group in similar_classes(counts) for name in group}


def plain_name(name: str) -> str:
    """Without case, spaces and accents."""
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())
    return "".join(sign for sign in apart if not unicodedata.combining(sign) and not sign.isspace())


def label_notes(labels: Int64[Tensor, " n"], class_names: tuple[str, ...]) -> list[str]:
    """Warnings about the given labels, one line each."""
    n_given = torch.bincount(labels[labels >= 0].cpu(), minlength=len(class_names)).tolist()
    notes = []
    if len(class_names) == 1:
        notes.append(f"there is one class only, {quoted(class_names[0])}; nothing can be told apart")
    if sum(n_given) < len(class_names):
        notes.append(f"there are fewer labels ({sum(n_given)}) than classes ({len(class_names)})")
    without = [name for name, n in zip(class_names, n_given, strict=True) if n == 0]
    if without:
        them = "it" if len(without) == 1 else "them"
        notes.append(f"no label is given for class {_first(without)}; no input will be assigned to {them}")
    once = [name for name, n in zip(class_names, n_given, strict=True) if n == 1]
    if once:
        notes.append(f"only one label is given for class {_first(once)}")
    return notes + similar_notes(dict(zip(class_names, n_given, strict=True)))


def similar_notes(counts: Mapping[str, int]) -> list[str]:
    """A line for each group of classes that may be one class written in two ways."""
    return [
        " and ".join(f"{quoted(name)} ({counts[name]})" for name in group)
        + " differ only in case, spaces or accents; they are two classes unless --merge-classes makes them one"
        for group in similar_classes(counts)
    ]


def _first(names: list[str]) -> str:
    others = counted(len(names) - 1, "other class")
    return quoted(names[0]) + (f" and {others}" if len(names) > 1 else "")
