"""Atomic file writes: content is written under a temporary name, flushed, then renamed.

What a program reads back carries a checksum of itself, so that a byte that changed on the disk is found.
"""

import hashlib
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from laplacenet.runtime.errors import FULL, InputError
from laplacenet.runtime.memory import free_memory

TEMPORARY = ".tmp"
AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Flags for opening files: a pipe without a writer must not block."""
CHECKSUM = "checksum"


def write_whole(path: Path, content: bytes) -> None:
    """Replace `path` by `content`; readers see the old file or the new one, never a part."""

    def write(file: BinaryIO) -> None:
        file.write(content)

    write_whole_by(path, write)


def write_named(path: Path, content: bytes | Callable[[BinaryIO], None]) -> None:
    """As `write_whole`, or as `write_whole_by`, where the user chose the name and may own any file beside it, or where
    another process may write the same file: the temporary file has a name that nobody else gives."""

    def write(file: BinaryIO) -> None:
        file.write(content) if isinstance(content, bytes) else content(file)

    write_whole_by(path, write, temporary=path.with_name(f".{secrets.token_hex(8)}{TEMPORARY}"))


def write_whole_by(path: Path, write: Callable[[BinaryIO], None], *, temporary: Path | None = None) -> None:
    """As `write_whole`, for content that is made piece by piece.

    What a crash left under the temporary name goes first, and is not written through where it is a link.
    """
    if path.is_dir():
        raise InputError(f"{path}: is a folder, but a file must be written there; move it away")
    temporary = path.with_name(path.name + TEMPORARY) if temporary is None else temporary
    temporary.unlink(missing_ok=True)
    try:
        with temporary.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)  # on a full disk a partial file only takes space
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:  # known by a descriptor
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    sync(path.parent)


def sync(path: Path) -> None:
    """Flush what was appended to a file, or renamed inside a folder, so that it survives a power failure."""
    if os.name == "nt" and path.is_dir():
        return  # Windows opens no folders
    descriptor = os.open(path, (os.O_RDWR if os.name == "nt" else os.O_RDONLY) | AT_ONCE)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_whole(path: Path) -> bytes:
    """A regular file's content; a pipe or a device, which could block for ever, is refused.

    So is a file that memory has no room for. Of one that grows meanwhile, it is what was there at first.
    """
    try:
        with open_regular(path) as file:
            n_bytes, n_free = os.fstat(file.fileno()).st_size, free_memory()
            if n_bytes > n_free:
                raise InputError(f"{path}: damaged, or too large: {n_bytes} bytes, and {n_free} of memory are free")
            return file.read(n_bytes)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except MemoryError as error:
        raise InputError(f"{path}: damaged, or too large for the memory that this process may use") from error


def open_regular(path: Path) -> BinaryIO:
    """For reading, and only if it is a regular file. Looked at once it is open: what the name stands for may change."""
    descriptor = os.open(path, os.O_RDONLY | AT_ONCE)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(f"{path}: not a regular file")
    return os.fdopen(descriptor, "rb")


def write_json(path: Path, content: Any) -> None:
    write_whole(path, json_bytes(content))


def json_bytes(content: Any) -> bytes:
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    return text.encode(errors="surrogatepass")  # names of files need not be Unicode


def read_json(path: Path) -> Any:
    return parse_json(read_whole(path), source=str(path))


def parse_json(content: bytes, *, source: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:  # deeply nested brackets are no JSON of ours either
        raise InputError(f"{source}: not the JSON that was written there ({error})") from error


def write_sealed(path: Path, content: dict[str, Any]) -> None:
    """JSON with a checksum of itself."""
    write_json(path, sealed(content))


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """With a checksum of itself."""
    return {**content, CHECKSUM: checksum(content)}


def read_sealed(path: Path) -> dict[str, Any]:
    """What `write_sealed` wrote, refused if anything in it changed."""
    content = read_json(path)
    if not isinstance(content, dict) or CHECKSUM not in content:
        raise InputError(f"{path}: damaged, or written by an older version, whose runs are not read (no checksum)")
    expected = content.pop(CHECKSUM)
    if checksum(content) != expected:
        raise InputError(f"{path}: damaged (its checksum differs from its content's)")
    return content


def read_unchanged(path: Path) -> Any:
    """JSON, refused if it carries a checksum and anything in it changed; files of older versions carry none."""
    content = read_json(path)
    return read_sealed(path) if isinstance(content, dict) and CHECKSUM in content else content


def checksum(content: dict[str, Any]) -> str:
    """A checksum of the JSON's values; spacing does not matter."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def require_folder(folder: Path, *, option: str = "--out") -> None:
    """A folder that can be written to, made if need be; `option` named it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except FileExistsError as error:
        raise InputError(f"{option} {folder}: is not a folder; name one, or a path where one can be made") from error
    except OSError as error:
        if error.errno in FULL:
            raise
        raise InputError(
            f"{option} {folder}: cannot be written to ({error.strerror}); choose another {option}"
        ) from error
