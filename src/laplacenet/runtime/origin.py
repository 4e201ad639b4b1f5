"""What produced a number: commit, versions, hardware, command, date."""

import datetime
import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

import laplacenet
from laplacenet.runtime.launch import LAUNCH, launch_id

LIBRARIES = ("torch", "numpy", "scipy", "scikit-learn", "pillow")


def provenance(device: torch.device) -> dict[str, Any]:
    launch = launch_id()
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command(),
        "commit": commit(),
        "version": laplacenet.__version__,
        "python": platform.python_version(),
        "libraries": {name: importlib.metadata.version(name) for name in LIBRARIES},
        "hardware": hardware(device),
        **({} if launch is None else {LAUNCH: launch}),
    }


def command() -> str:
    """The command line, with file names in place of full paths, which are of no use on other machines."""
    program = Path(sys.argv[0]).name
    words = ["=".join(map(_file_name, word.split("="))) for word in sys.argv[1:]]
    return shlex.join(["laplacenet" if program == "__main__.py" else program, *words])


def _file_name(word: str) -> str:
    return Path(word).name if word.startswith("/") else word


def hardware(device: torch.device) -> dict[str, Any]:
    found: dict[str, Any] = {"device": device.type, "cores": os.cpu_count(), "threads": torch.get_num_threads()}
    if device.type == "cuda":
        found |= {"gpu": torch.cuda.get_device_name(device), "cuda": torch.version.cuda}
    return found


def commit() -> str:
    """The commit the code runs from, with `+changes` where the working tree differs; `unknown` outside a checkout.

    A copy of the tree without its history, or with another's, can name its commit in the variable LAPLACENET_COMMIT.
    """
    if named := os.environ.get("LAPLACENET_COMMIT"):
        return named
    folder = Path(__file__).parent
    try:
        name = _git("rev-parse", "HEAD", folder=folder)
        is_changed = bool(_git("status", "--porcelain", "--untracked-files=no", folder=folder))
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return name + ("+changes" if is_changed else "")


def _git(*arguments: str, folder: Path) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()
