"""Opening `.npz` files without ever running what is in them."""

import contextlib
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from laplacenet.runtime import InputError


@contextlib.contextmanager
def open_npz(path: Path) -> Iterator[Any]:
    """The file's arrays by name, each read when it is asked for; pickled objects are refused."""
    try:
        with path.open("rb") as file:
            arrays = np.load(file, allow_pickle=False)
            if not isinstance(arrays, np.lib.npyio.NpzFile):
                raise InputError(f"{path}: holds a single array; expected an .npz file (numpy.savez)")
            with arrays:
                yield arrays
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(
            f"{path}: not a readable .npz file of plain arrays ({' '.join(str(error).split())})"
        ) from error
