"""`labels.csv`: a line for every row, with its label, how sure it is, who gave it and whether it is suspect."""

import csv
import io
from pathlib import Path

from laplacenet.labeling.result import SOURCES, Labeling
from laplacenet.runtime import write_whole

LABELS = "labels.csv"
HEADING = ("path", "label", "confidence", "margin", "source", "suspect")
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")


def write_labels(folder: Path, labeling: Labeling) -> Path:
    """UTF-8, cells quoted where they must be; numbers with four digits."""
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(HEADING)
    columns = (labeling.labels, labeling.confidence, labeling.margin, labeling.sources, labeling.is_suspect)
    for name, label, confidence, margin, source, is_suspect in zip(
        labeling.names, *(column.tolist() for column in columns), strict=True
    ):
        class_name = labeling.account.class_names[label]
        suspect = "true" if is_suspect else "false"
        lines.writerow([no_formula(name), class_name, f"{confidence:.4f}", f"{margin:.4f}", SOURCES[source], suspect])
    path = folder / LABELS
    write_whole(path, text.getvalue().encode())
    return path


def no_formula(name: str) -> str:
    """A spreadsheet computes a cell that begins with =, +, − or @; the same path can be written without."""
    return f"./{name}" if name.startswith(FORMULA_SIGNS) else name
