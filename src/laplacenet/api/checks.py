"""Arguments and paths, checked without torch."""

from collections.abc import Sequence
from numbers import Integral
from pathlib import Path

from laplacenet.runtime.errors import InputError
from laplacenet.runtime.protection import require_apart
from laplacenet.runtime.run_folder import EXPERIMENT, RunFolder

PathLike = str | Path
ARRAYS = (".npz", ".npy")
PRIORS = ("shrunk", "labeled", "equal")
"""As in `graph.priors`, which imports NumPy."""


def label_files(labels: object) -> tuple[Path, ...]:
    """One label file, several or none; each must exist."""
    named = [labels] if isinstance(labels, str | Path) else () if labels is None else labels
    if not isinstance(named, list | tuple) or not all(isinstance(file, str | Path) for file in named):
        raise InputError("labels: give a label file, or a list of them; save labels of arrays with numpy.save")
    files = tuple(Path(file) for file in named)
    for file in files:
        require_exists(file, what="--labels")
    return files


def require_inputs(
    pictures: PathLike | None, labels: list[Path], test: Path | None
) -> tuple[Path, list[Path], Path | None]:
    """Refuse missing inputs before the slow imports."""
    if pictures is None:
        raise InputError("nothing to label; name a folder of pictures or a file of embeddings, or --resume a run")
    path = Path(pictures).expanduser()
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


def require_numbers(**numbers: object) -> None:
    least = {"batch_size": 2}
    for name, number in numbers.items():
        if number is None:
            continue
        if isinstance(number, bool) or not isinstance(number, Integral) or int(number) < least.get(name, 1):
            raise InputError(f"--{name.removesuffix('_size')} {number}: {name} must be a positive number")


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
    if (Path(path) / "labeling.json").exists():
        return Path(path)
    if not (Path(path) / EXPERIMENT).is_file():
        raise InputError(f"{path}: not a run folder, and it holds no labeling; laplacenet label makes one")
    folder = RunFolder.open(Path(path))
    if "kind" not in folder.read_experiment():
        raise InputError(
            f"{path}: a run of train, not of label; laplacenet train --resume continues it,"
            " laplacenet evaluate tests it, laplacenet report draws its curves"
        )
    return folder.path
