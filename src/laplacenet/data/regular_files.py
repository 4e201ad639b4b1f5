"""Opening files that may be something else: a pipe would wait for ever, a device would never end."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from laplacenet.runtime import InputError

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: Path) -> BinaryIO:
    """The file, opened to be read; an OSError where it is no regular file, at once and without waiting for a writer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        raise OSError(errno.EINVAL, f"{KINDS.get(kind, 'a special file')}, not a regular file")
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path, *, largest: int) -> bytes:
    """All bytes of a file that the user named; more than `largest` are refused unread."""
    try:
        with open_regular(path) as file:
            n_bytes = os.fstat(file.fileno()).st_size
            if n_bytes > largest:
                raise InputError(f"{path}: {n_bytes} bytes; at most {largest} are read here")
            return file.read()
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except (OSError, ValueError) as error:  # a ValueError: a NUL in the name
        raise InputError(f"{path}: cannot be read ({reason_of(error)})") from error


def reason_of(error: Exception) -> str:
    """In one line and without the path, which stands beside it already."""
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(said.split()) or type(error).__name__
