"""Labels as people write them: which of them mean "unknown", in which order the classes stand, what is odd of them."""

import re
from collections.abc import Collection, Sequence

import torch
from jaxtyping import Int64
from torch import Tensor

from laplacenet.data.images import UNKNOWN
from laplacenet.data.names import quoted, writable
from laplacenet.runtime import InputError

_WHOLE_NUMBER = re.compile(r"(-?[0-9]{1,18})(?:\.0*)?")  # more digits name something, they do not count it


def known_label(text: str) -> str | None:
    """The label; None for an empty one and for NaN, which is how tables write that there is none."""
    label = writable(text.strip())
    return None if label.lower() in ("", "nan") else label


def in_order(labels: Collection[str]) -> tuple[str, ...]:
    """Names sorted, numbers by their value."""
    values = {label: int(number[1]) for label in labels if (number := _WHOLE_NUMBER.fullmatch(label))}
    if len(values) == len(labels):
        return tuple(sorted(labels, key=lambda label: (values[label], label)))
    return tuple(sorted(labels))


def without_fractions(labels: Sequence[str | None], *, where: str) -> list[str | None]:
    """Where all are whole numbers: `3.0`, which spreadsheets make of 3, as `3`; −1 as unknown; less is refused."""
    found = [None if label is None else _WHOLE_NUMBER.fullmatch(label) for label in labels]
    if not all(label is None or number for label, number in zip(labels, found, strict=True)):
        return list(labels)
    numbers = [None if number is None else number[1] for number in found]
    for number in numbers:
        if number is not None and int(number) < UNKNOWN:
            raise InputError(f"{where}: label {number}; numbers are 0 and above, -1 for unknown")
    return [None if number is None or int(number) == UNKNOWN else number for number in numbers]


def numbered(
    labels: Sequence[str | None], class_names: tuple[str, ...] = (), *, where: str
) -> tuple[Int64[Tensor, " n"], tuple[str, ...]]:
    """The labels as numbers, −1 for none, and the names of the classes: those given if they include every label."""
    labels = without_fractions(labels, where=where)
    given = {label for label in labels if label is not None}
    names = class_names if given <= set(class_names) else in_order(given)
    number = {name: position for position, name in enumerate(names)}
    return torch.tensor([UNKNOWN if label is None else number[label] for label in labels], dtype=torch.int64), names


def label_notes(labels: Int64[Tensor, " n"], class_names: tuple[str, ...]) -> list[str]:
    """What should be known of the given labels before they are trained on: a line for each oddity."""
    n_given = torch.bincount(labels[labels >= 0].cpu(), minlength=len(class_names)).tolist()
    notes = []
    if len(class_names) == 1:
        notes.append(f"there is one class only, {quoted(class_names[0])}; nothing can be told apart")
    if sum(n_given) < len(class_names):
        notes.append(f"there are fewer labels ({sum(n_given)}) than classes ({len(class_names)})")
    without = [name for name, n in zip(class_names, n_given, strict=True) if n == 0]
    if without:
        notes.append(f"no label is given of class {_first(without)}; nothing will be taken for it")
    once = [name for name, n in zip(class_names, n_given, strict=True) if n == 1]
    if once:
        notes.append(f"one label only is given of class {_first(once)}")
    return notes


def _first(names: list[str]) -> str:
    return quoted(names[0]) + (f" and {len(names) - 1} others" if len(names) > 1 else "")
