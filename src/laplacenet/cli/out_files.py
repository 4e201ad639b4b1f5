"""Output files of commands: checked early, and never overwritten without --overwrite."""

from collections.abc import Callable, Iterable
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


def write_out(out: Path, content: "bytes | Callable[[BinaryIO], None]") -> None:
    """The content, or what a function writes."""
    from laplacenet.runtime import InputError
    from laplacenet.runtime.files import write_named

    try:
        write_named(out, content)
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written ({error.strerror})") from error
