"""Arguments and paths, checked without torch."""

import contextlib
import operator
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from laplacenet.runtime.errors import InputError
from laplacenet.runtime.protection import require_apart
from laplacenet.runtime.run_folder import EXPERIMENT, RunFolder

PathLike = str | Path
ARRAYS = (".npz", ".npy")
PRIORS = ("shrunk", "labeled", "equal")
"""As in `graph.priors`, which imports NumPy."""


def as_path(given: object, *, name: str) -> Path:
    """The argument `name` as a path, `~` expanded."""
    if not isinstance(given, str | os.PathLike):
        remedy = "; save it with numpy.save" if hasattr(given, "__array__") else ""
        raise InputError(f"{name}: give the path of a file or folder, not {type(given).__name__}{remedy}")
    return Path(given).expanduser()


def as_integer(given: object, *, name: str, least: int | None = 1) -> int:
    """The argument as a plain integer: NumPy's could not be written as JSON."""
    number = None
    if not isinstance(given, bool):
        with contextlib.suppress(TypeError):
            number = operator.index(given)  # type: ignore[arg-type]
    if number is None or (least is not None and number < least):
        raise InputError(f"{name} {given!r}: give an integer{'' if least is None else f' of at least {least}'}")
    return number


def checked_arguments(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `label` with plain types: paths, integers, texts. What is None stays so."""
    checked = dict(given)
    for name in ("out", "test", "weights", "resume"):
        if given[name] is not None:
            checked[name] = as_path(given[name], name=name)
    for name, option, least in (("size", "--size", 1), ("steps", "--steps", 1), ("batch_size", "--batch", 2)):
        if given[name] is not None:
            checked[name] = as_integer(given[name], name=option, least=least)
    checked["seed"] = as_integer(given["seed"], name="--seed", least=None)
    settings = [given["settings"]] if isinstance(given["settings"], str) else list(given["settings"] or ())
    texts = [("features", given["features"]), ("device", given["device"]), *(("settings", text) for text in settings)]
    for name, text in texts:
        if not isinstance(text, str):
            raise InputError(f"{name}: give text, not {text!r}")
    return checked | {"settings": settings}


def label_files(labels: object) -> tuple[Path, ...]:
    """One label file, several or none; each must exist."""
    named = [labels] if isinstance(labels, str | Path) else () if labels is None else labels
    if not isinstance(named, list | tuple) or not all(isinstance(file, str | Path) for file in named):
        raise InputError("labels: give a label file, or a list of them; save labels of arrays with numpy.save")
    files = tuple(Path(file).expanduser() for file in named)
    for file in files:
        require_exists(file, what="--labels")
    return files


def require_inputs(
    pictures: PathLike | None, labels: list[Path], test: Path | None
) -> tuple[Path, list[Path], Path | None]:
    """Refuse missing inputs before the slow imports."""
    if pictures is None:
        raise InputError("nothing to label; name a folder of pictures or a file of embeddings, or --resume a run")
    path = as_path(pictures, name="pictures")
    if not path.is_dir() and path.suffix.lower() not in ARRAYS:
        what = "not something that can be labeled" if path.exists() else "no such file or folder"
        raise InputError(f"{path}: {what}; give a folder of pictures, or an .npz or .npy file of images or embeddings")
    require_exists(path, what="pictures")
    for file in labels:
        require_exists(file, what="--labels")
    if test is not None:
        require_exists(test, what="--test")
    return path, labels, test


def require_exists(path: Path, *, what: str) -> None:
    if not path.expanduser().exists():
        raise InputError(f"{path}: no such file or folder ({what})")


def require_free(out: PathLike | None, inputs: Sequence[Path | None], *, overwrite: bool) -> None:
    """Refuse a folder that holds a run or an input; `RunFolder.create` checks again, more thoroughly."""
    if out is None:
        return
    require_apart(Path(out), inputs)
    if (Path(out) / EXPERIMENT).is_file() and not overwrite:
        raise InputError(f"{out}: exists already; choose another --out, or --overwrite, or --resume it")


def require_prior(prior: str | Sequence[float]) -> None:
    """Check words and numbers; how many numbers are needed is known only with the classes."""
    if isinstance(prior, str) and prior in PRIORS:
        return
    numbers = prior.split(",") if isinstance(prior, str) else prior
    try:
        is_usable = all(0 < float(number) < float("inf") for number in numbers)
    except (TypeError, ValueError):
        is_usable = False
    if not is_usable:
        raise InputError(f"--prior {prior}: choose {', '.join(PRIORS)} or give a positive number for each class")


def require_kind(folder: RunFolder) -> None:
    """Refuse to resume the run of another command that labels."""
    kind = folder.read_experiment().get("kind")
    if kind not in ("labeling", None):
        raise InputError(f"{folder.path}: is a run of {kind}; go on with laplacenet {kind} {folder.path}")


def require_labeling(path: PathLike) -> Path:
    """The folder of a run of `label`; for other runs the error names the commands to use."""
    path = as_path(path, name="path")
    if (path / "labeling.json").exists():
        return path
    if not (path / EXPERIMENT).is_file():
        raise InputError(f"{path}: not a run folder, and it holds no labeling; laplacenet label makes one")
    folder = RunFolder.open(path)
    if "kind" not in folder.read_experiment():
        raise InputError(
            f"{path}: a run of train, not of label; laplacenet train --resume continues it,"
            " laplacenet evaluate tests it, laplacenet report draws its curves"
        )
    return folder.path
