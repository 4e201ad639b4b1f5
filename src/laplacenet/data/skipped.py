"""What could not be read: as a file for the run folder, or as the reason to stop."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from laplacenet.data.dataset import Skipped
from laplacenet.data.names import in_one_line, writable
from laplacenet.runtime import InputError, write_whole

SKIPPED = "skipped.csv"


def write_skipped(path: Path, skipped: Sequence[Skipped]) -> None:
    """A CSV file with a heading, and path and reason of each."""
    table = io.StringIO(newline="")
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(("path", "reason"))
    writer.writerows((writable(file.path), writable(file.reason)) for file in skipped)
    write_whole(path, table.getvalue().encode())


def refuse_skipped(skipped: Sequence[Skipped]) -> None:
    """Where every file must be read: stop, naming the first that was not and how many there are."""
    if skipped:
        first = f"{in_one_line(skipped[0].path)}: {in_one_line(skipped[0].reason)}"
        raise InputError(f"{len(skipped)} files cannot be read, which --strict does not allow; the first, {first}")
