"""The cache for what is expensive to compute (vectors of pictures, decoded pictures), and for locks on user files."""

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import filelock

FOLDER_VARIABLE = "LAPLACENET_CACHE"


def cache_folder() -> Path:
    """The environment variable LAPLACENET_CACHE, or `laplacenet` in the user's cache folder of this platform."""
    if told := os.environ.get(FOLDER_VARIABLE):
        return Path(told)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "laplacenet"


@contextlib.contextmanager
def lock_of(path: Path) -> Iterator[None]:
    """A lock on one of the user's files, for the processes of this machine; it leaves nothing beside the file.

    If the cache cannot be written to, there is no lock.
    """
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    locks = cache_folder() / "locks"
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            locks.mkdir(parents=True, exist_ok=True)
            held.enter_context(filelock.FileLock(locks / f"{name}.lock"))
        yield
