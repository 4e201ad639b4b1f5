"""Output files of commands: checked early, and never overwritten without --overwrite."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

OverwriteFile = Annotated[bool, typer.Option("--overwrite", help="Replace --out if it exists.")]


def require_free(
    out: Path, *, suffixes: tuple[str, ...], overwrite: bool, inputs: Iterable[Path | str | None] = ()
) -> None:
    """Before any work is done for it: a file that may be written, and that is none of the inputs."""
    from laplacenet.runtime import InputError, require_no_input

    if out.suffix.lower() not in suffixes:
        raise InputError(f"--out {out}: give a name that ends in {' or '.join(suffixes)}")
    if out.is_dir():
        raise InputError(f"--out {out}: is a folder; name a file")
    require_no_input(out, inputs)
    if out.exists() and not overwrite:
        raise InputError(f"--out {out}: exists already; choose another name or --overwrite")


def require_place(file: Path, *, option: str) -> None:
    """Before any work is done for it: a file that can be written or replaced; its folder is made if need be."""
    from laplacenet.runtime import InputError
    from laplacenet.runtime.errors import FULL

    target = Path(os.path.realpath(file))
    if target.is_dir():
        raise InputError(f"{option} {file}: is a folder; name a file")
    if os.path.lexists(target) and not target.is_file():
        raise InputError(f"{option} {file}: not a regular file; name another")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        if error.errno in FULL:
            raise
        said = f"{option} {file}: cannot be written ({error.strerror}); name a file in a folder that can be written to"
        raise InputError(said) from error


@contextlib.contextmanager
def no_empty_folder(folder: Path) -> Iterator[None]:
    """If the command is refused, folders that it made for this one, and left empty, are removed."""
    from laplacenet.runtime import InputError

    missing = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    try:
        yield
    except InputError:
        with contextlib.suppress(OSError):  # not empty, or never made
            for path in missing:
                path.rmdir()
        raise


def write_out(out: Path, content: "bytes | Callable[[BinaryIO], None]") -> None:
    """The content, or what a function writes."""
    from laplacenet.runtime import InputError
    from laplacenet.runtime.errors import FULL
    from laplacenet.runtime.files import write_named

    try:
        write_named(out, content)
    except OSError as error:
        if error.errno in FULL:
            raise
        raise InputError(f"--out {out}: cannot be written ({error.strerror})") from error
