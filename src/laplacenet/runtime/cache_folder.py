"""The cache for what is expensive to compute: vectors of pictures, decoded pictures."""

import os
import sys
from pathlib import Path

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
