"""Which rows are labeled: drawn from a seed, or read from `.npz`, `.txt` and `.csv` files and published lists."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from laplacenet.data.files import read_rows, read_text
from laplacenet.data.images import UNKNOWN, ImageSet, VectorSet, describe_value
from laplacenet.data.label_entries import FILE_HEADINGS, is_json_lines
from laplacenet.data.names import in_one_line, quoted
from laplacenet.data.npz import open_npz
from laplacenet.runtime import InputError, stream

N_KEYS_SHOWN = 5
MOST_DIGITS = 18  # more do not fit into 64 bits
PUBLISHED_LISTS = "_balanced_labels"
"""Mean Teacher's authors publish `4000_balanced_labels/00.txt`, and those of fast-SWA and LP follow them."""
PUBLISHED_LINE = re.compile(r"(\d+)_(\S+)\.png(?:\s+(\S+))?")
"""Row number, class and class again, as in `782_truck.png truck`."""


@dataclass(frozen=True, eq=False)
class Split:
    """The rows, of `n` in all, whose labels may be seen: ascending, none twice."""

    labeled: Int64[Tensor, " n_labeled"]
    n: int

    def __post_init__(self) -> None:
        labeled: object = self.labeled
        if not isinstance(labeled, Tensor) or labeled.dtype != torch.int64 or labeled.ndim != 1:
            raise InputError(f"a split needs an int64 tensor of row numbers; got {describe_value(labeled)}")
        if len(labeled) == 0:
            raise InputError("a split needs at least one labeled row; got none")
        if not bool((labeled.diff() > 0).all()):
            raise InputError("the rows of a split must ascend, none twice")
        smallest, largest = int(labeled[0]), int(labeled[-1])
        if smallest < 0 or largest >= self.n:
            outside = smallest if smallest < 0 else largest
            raise InputError(f"the split names row {outside}; there are rows 0 to {self.n - 1}")

    def __len__(self) -> int:
        return len(self.labeled)


def balanced_split(labels: Int64[Tensor, " n"], n_labeled: int, seed: int) -> Split:
    """The same number of rows from every class, drawn from the seed; larger splits contain the smaller ones."""
    known = labels[labels >= 0].cpu()
    if len(known) == 0:
        raise InputError("no row has a known label to draw a split from")
    counts = torch.bincount(known).tolist()
    if n_labeled < 1 or n_labeled % len(counts):
        raise InputError(
            f"{n_labeled} labels cannot be shared equally by {len(counts)} classes; choose a multiple of {len(counts)}"
        )
    n_per_class = n_labeled // len(counts)
    for number, count in enumerate(counts):
        if count < n_per_class:
            raise InputError(
                f"{n_labeled} labels are {n_per_class} for each class, but class {number} has {count} rows;"
                f" choose at most {min(counts) * len(counts)}"
            )
    members = [np.flatnonzero(labels.cpu().numpy() == number) for number in range(len(counts))]
    drawn = [
        stream(seed, "balanced-split", number).permutation(rows)[:n_per_class] for number, rows in enumerate(members)
    ]
    return Split(torch.from_numpy(np.sort(np.concatenate(drawn))), n=len(labels))


def hide_labels(labels: Int64[Tensor, " n"], split: Split) -> Int64[Tensor, " n"]:
    """The labels of the split; −1 everywhere else."""
    if len(labels) != split.n:
        raise InputError(f"the split is of {split.n} rows, the labels are {len(labels)}")
    rows = split.labeled.to(labels.device)
    hidden = torch.full_like(labels, UNKNOWN)
    hidden[rows] = labels[rows]
    return hidden


def rows_hash(rows: Int64[Tensor, " n"]) -> str:
    """SHA-256 over row numbers."""
    return hashlib.sha256(rows.cpu().contiguous().numpy().data).hexdigest()


def read_split(path: str | Path, key: str | None = None, *, n: int, of: ImageSet | VectorSet | None = None) -> Split:
    """The split of `n` rows in a file: `.npz` (the array `key`), `.txt` (one number a line) or `.csv`.

    An `.npz` file with one array needs no key. A CSV file is read in its column `index`, or else in its first one.
    In a folder of published lists the key `4000/00` is the file `4000_balanced_labels/00.txt`. Such a list names the
    class of each row too: one that contradicts the data (`of`) is a list of other data and is refused.
    """
    path = Path(path)
    if holds_published_lists(path):
        path, key = _published_list(path, key), None
    suffix = path.suffix.lower()
    if suffix not in (".npz", ".txt", ".csv"):
        raise InputError(f"{path}: a split is read from a .npz, .txt or .csv file")
    if key is not None and suffix != ".npz":
        raise InputError(f"{path}: key {key!r} given, but only an .npz file has keys")
    if suffix == ".npz":
        rows = _rows_of_npz(path, key)
    elif suffix == ".txt":
        lines = read_text(path).splitlines()
        rows = _row_numbers(enumerate(map(_without_class, lines), start=1), where=path)
    else:
        rows = _rows_of_csv(path)
    values, counts = np.unique(np.array(rows, dtype=np.int64), return_counts=True)
    if (counts > 1).any():
        raise InputError(f"{path}: row {values[counts > 1][0]} is in the split twice")
    try:
        split = Split(torch.from_numpy(values), n)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    if suffix == ".txt" and of is not None:
        _require_same_classes(lines, of, where=path)
    return split


def holds_row_numbers(path: Path) -> bool:
    """Whether a text is a split: a column `index` and none of files, or one of numbers only; else it lists labels."""
    if is_json_lines(path, read_text(path)):
        return False
    rows = [cells for _, cells in read_rows(path)]
    heading = [cell.lower() for cell in rows[0]] if rows else []
    names_rows = "index" in heading and not any(word in heading for word in FILE_HEADINGS)
    is_one_column = all(len(cells) == 1 for cells in rows) and any(_is_integer(cells[0]) for cells in rows)
    return names_rows or is_one_column


def holds_published_lists(path: Path) -> bool:
    """Whether it is a folder with files such as `4000_balanced_labels/00.txt`."""
    return path.is_dir() and any(path.glob(f"*{PUBLISHED_LISTS}/*.txt"))


def _published_list(folder: Path, key: str | None) -> Path:
    files = sorted(folder.glob(f"*{PUBLISHED_LISTS}/*.txt"))
    by_key = {f"{file.parent.name.removesuffix(PUBLISHED_LISTS)}/{file.stem}": file for file in files}
    return by_key[_chosen_key(list(by_key), key, where=folder)]


def _without_class(line: str) -> str:
    published = PUBLISHED_LINE.fullmatch(line.strip())
    return published[1] if published else line


def _require_same_classes(lines: Sequence[str], data: ImageSet | VectorSet, *, where: Path) -> None:
    """A list's names for classes must be the data's, without spaces; where it shares none with them, because the data
    may have numbers for names, all rows of one name must have one class.
    """
    found = [PUBLISHED_LINE.fullmatch(line.strip()) for line in lines]
    written = {"_".join(name.split()): label for label, name in enumerate(data.class_names)}
    is_named_alike = any(name in written for line in found if line is not None for name in line.groups()[1:])
    known = written if is_named_alike else {}
    for number, line in enumerate(found, start=1):
        label = UNKNOWN if line is None else int(data.labels[int(line[1])])
        if line is None or label == UNKNOWN:
            continue
        for name in filter(None, line.groups()[1:]):
            if not is_named_alike:
                known.setdefault(name, label)
            if known.get(name) != label:
                raise InputError(
                    f"{where}, line {number}: the list says that row {line[1]} is {quoted(name)}, but in this data set"
                    f" it is {quoted(data.class_names[label])}; use a list made for this data set"
                )


def _rows_of_npz(path: Path, key: str | None) -> list[int]:
    with open_npz(path) as arrays:
        chosen = _chosen_key(list(arrays.keys()), key, where=path)
        rows = arrays[chosen]
    if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer):
        raise InputError(f"{path}: {chosen} must be a list of integers; got {rows.dtype} {rows.shape}")
    return [int(row) for row in rows]


def _chosen_key(keys: Sequence[str], key: str | None, *, where: Path) -> str:
    """The one that is asked for; where there is only one, it need not be."""
    chosen = keys[0] if key is None and len(keys) == 1 else key
    if chosen is None or chosen not in keys:
        shown = ", ".join(map(in_one_line, keys[:N_KEYS_SHOWN])) + (", …" if len(keys) > N_KEYS_SHOWN else "")
        asked = "holds several splits; name one" if key is None else f"no split {key!r}"
        raise InputError(f"{where}: {asked}; its {len(keys)} keys are {shown}")
    return chosen


def _rows_of_csv(path: Path) -> list[int]:
    rows = read_rows(path)
    header = [cell.lower() for cell in rows[0][1]] if rows else []
    column = header.index("index") if "index" in header else 0
    if header and not _is_integer(header[column]):
        rows = rows[1:]
    return _row_numbers(((line, cells[column] if column < len(cells) else "") for line, cells in rows), where=path)


def _row_numbers(cells: Iterable[tuple[int, str]], *, where: Path) -> list[int]:
    numbers = []
    for line, cell in cells:
        if cell.strip() and not _is_integer(cell):
            raise InputError(f"{where}, line {line}: {quoted(cell.strip())} is not a row number")
        if cell.strip():
            numbers.append(int(cell))
    return numbers


def _is_integer(cell: str) -> bool:
    digits = cell.strip().removeprefix("-")
    return digits.isdecimal() and len(digits) <= MOST_DIGITS
