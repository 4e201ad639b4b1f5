"""Label lists: a CSV file that says of some files which class they show."""

from pathlib import Path, PurePosixPath

import torch
from jaxtyping import Int64
from torch import Tensor

from laplacenet.data.decoding import SUFFIXES
from laplacenet.data.images import UNKNOWN, ImageSet
from laplacenet.data.tables import read_rows
from laplacenet.runtime import InputError

FILE_HEADINGS = ("file", "filename", "file_name", "path", "image", "name")
LABEL_HEADINGS = ("label", "class", "class_name", "category")
N_SHOWN = 3


def read_labels(path: str | Path, image_set: ImageSet) -> tuple[Int64[Tensor, " n"], tuple[str, ...]]:
    """The labels in a CSV file of (file name or path, label), −1 for every other image, and the names of the classes.

    A heading is allowed; `file` and `label` columns are then found wherever they stand. A row with an empty label is
    passed over. The image set's own classes are kept if they include every label in the file; otherwise the file's
    labels are the classes, in the order of their names (or numbers).
    """
    path = Path(path)
    if image_set.names is None:
        raise InputError(f"{path}: labels by file name need images that came from files")
    finder = _FileFinder(image_set.names)
    label_of: dict[int, str] = {}
    for line, name, label in _named_labels(path, finder):
        row = finder.row(name, where=f"{path}, line {line}")
        if label_of.setdefault(row, label) != label:
            raise InputError(f"{path}, line {line}: {name} is {label!r} here and {label_of[row]!r} above")
    if not label_of:
        raise InputError(f"{path}: no labels; expected lines such as {image_set.names[0]},cat")
    given = set(label_of.values())
    class_names = image_set.class_names if given <= set(image_set.class_names) else _in_order(given)
    labels = torch.full((len(image_set),), UNKNOWN)
    labels[list(label_of)] = torch.tensor([class_names.index(label) for label in label_of.values()])
    return labels, class_names


class _FileFinder:
    """Rows by file name: the path below the image folder, any longer path that ends in it, or a name that is unique."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._row_of_path = {name: row for row, name in enumerate(names)}
        self._rows_of_name: dict[str, list[int]] = {}
        for row, name in enumerate(names):
            self._rows_of_name.setdefault(PurePosixPath(name).name, []).append(row)

    def rows(self, name: str) -> list[int]:
        """All rows that `name` may mean."""
        parts = PurePosixPath(name.replace("\\", "/")).parts
        for start in range(len(parts)):
            row = self._row_of_path.get("/".join(parts[start:]))
            if row is not None:
                return [row]
        # a bare name reaches into sub-folders, a path with folders that do not exist does not
        return self._rows_of_name.get(parts[0], []) if len(parts) == 1 else []

    def row(self, name: str, *, where: str) -> int:
        """The one row that `name` means."""
        rows = self.rows(name)
        if not rows:
            shown = ", ".join(list(self._row_of_path)[:N_SHOWN])
            raise InputError(f"{where}: {name!r} is not among the {len(self._row_of_path)} images ({shown}, …)")
        if len(rows) > 1:
            raise InputError(f"{where}: {len(rows)} images are called {name!r}; give the path with its sub-folder")
        return rows[0]


def _named_labels(path: Path, finder: _FileFinder) -> list[tuple[int, str, str]]:
    """Line number, file and label of each row that has a label."""
    rows = read_rows(path)
    header = [cell.lower() for cell in rows[0][1]] if rows else []
    file_column, label_column = 0, 1
    if header and _is_header(rows[0][1], finder):
        file_column = next((header.index(name) for name in FILE_HEADINGS if name in header), 0)
        label_column = next((header.index(name) for name in LABEL_HEADINGS if name in header), 1)
        rows = rows[1:]
    found = []
    for line, cells in rows:
        if len(cells) <= max(file_column, label_column):
            raise InputError(f"{path}, line {line}: expected a file name and a label; got {','.join(cells)!r}")
        if cells[label_column]:
            found.append((line, cells[file_column], cells[label_column]))
    return found


def _is_header(cells: list[str], finder: _FileFinder) -> bool:
    """The first line is a heading unless it names a file, found or not."""
    return not any(cell.lower().endswith(SUFFIXES) or finder.rows(cell) for cell in cells[:2])


def _in_order(labels: set[str]) -> tuple[str, ...]:
    if all(label.isdecimal() for label in labels):
        return tuple(sorted(labels, key=int))
    return tuple(sorted(labels))
