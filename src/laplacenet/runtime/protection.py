"""Commands never overwrite their own inputs: such paths are refused before anything is written."""

from collections.abc import Iterable
from pathlib import Path

from laplacenet.runtime.errors import InputError
from laplacenet.runtime.run_folder import EXPERIMENT, EXPORTS, RUN_FILES


def require_apart(folder: Path, inputs: Iterable[Path | str | None], *, is_default: bool = False) -> None:
    """Refuse a folder to write to that holds one of the inputs, is one, or lies inside one.

    `is_default`: nobody gave it with --out.
    """
    for path in _given(inputs):
        if _is_same(path, folder):
            raise InputError(
                f"--out {folder}: this is the input {'folder' if path.is_dir() else 'file'}; choose another folder"
            )
        if _is_inside(path, folder):
            raise InputError(
                f"{path}: lies inside the folder to write to, {folder}, where it could be lost; choose another --out"
            )
        if path.is_dir() and _is_inside(folder, path):
            where = f"lies inside {path}, which is read"
            if is_default:
                raise InputError(f"the run folder {folder} {where}; give one outside of it with --out")
            raise InputError(f"--out {folder}: {where}; choose one outside of it")


def require_no_input(file: Path, inputs: Iterable[Path | str | None], *, option: str = "--out") -> None:
    """Refuse a file to write that is one of the inputs, or one of the files that make up a run."""
    for path in _given(inputs):
        if _is_same(file, path):
            raise InputError(f"{option} {file}: is one of the inputs; choose another name")
    if file.name in set(RUN_FILES) - set(EXPORTS) and (file.parent / EXPERIMENT).is_file():
        raise InputError(f"{option} {file}: belongs to the run in {file.parent}; choose another name")


def _given(inputs: Iterable[Path | str | None]) -> list[Path]:
    return [path for path in (Path(given).expanduser() for given in inputs if given) if path.exists()]


def _is_inside(inner: Path, outer: Path) -> bool:
    """Or the same."""
    return inner.resolve().is_relative_to(outer.resolve())


def _is_same(a: Path, b: Path) -> bool:
    """By whatever name: a link to a file is that file."""
    return a.resolve() == b.resolve() or (a.exists() and b.exists() and a.samefile(b))
