"""Download a published file: verified by its checksum, resumed after an interruption."""

import hashlib
import http.client
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from laplacenet.data.files import open_regular
from laplacenet.runtime import InputError

BLOCK = 1 << 18
TIMEOUT_S = 30
ATTEMPTS = 5


class _BrokenOffError(Exception):
    """The connection ended before the file did."""


def download(url: str, target: Path, *, checksum: str) -> Path:
    """`url` in `target`, once its content has the `checksum`, written as `md5:…` or `sha256:…`.

    A partial download is kept beside the target as `.part`; the next attempt continues it.
    """
    if target.exists():
        if not target.is_file():
            raise InputError(f"{target}: not a regular file; remove it to download the data")
        _verify(target, checksum, hint="delete it to fetch it again")
        return target
    part = target.with_name(target.name + ".part")
    by_hand = f"fetch {url} by other means and put it into {target.parent}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if not (part.exists() and _digest(part, checksum) == checksum):
            _fetch_all(url, part)
    except urllib.error.HTTPError as error:
        error.close()
        raise InputError(f"{url}: the server answered {error.code} {error.reason}; {by_hand}") from error
    except _BrokenOffError as error:
        raise InputError(f"{url}: {error}; run again to go on from there, or {by_hand}") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise InputError(f"cannot fetch {url} ({getattr(error, 'reason', error)}); {by_hand}") from error
    try:
        _verify(part, checksum, hint=f"it was removed; {by_hand}")
    except InputError:
        part.unlink()
        raise
    return part.replace(target)


def _fetch_all(url: str, part: Path) -> None:
    """Retry for as long as each attempt makes progress."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(part.stem, total=None)
        for attempt in range(1, ATTEMPTS + 1):
            before = received = _size(part)
            total: int | None = None
            for received, total in _fetch(url, part):
                progress.update(task, completed=received, total=total)
            if total is None or received == total:
                return
            if received <= before or attempt == ATTEMPTS:
                raise _BrokenOffError(f"broke off after {received} of {total} bytes")


def _fetch(url: str, part: Path) -> Iterator[tuple[int, int | None]]:
    """One connection: yields the bytes so far and the total after each block."""
    with _connect(url, offset=_size(part)) as response:
        # a server without ranges answers 200 and sends the whole file
        received = _size(part) if response.status == http.client.PARTIAL_CONTENT else 0
        length = response.headers.get("Content-Length")
        total = None if length is None else received + int(length)
        yield received, total
        with part.open("ab" if received else "wb") as file:
            while block := _next_block(response):
                file.write(block)
                received += len(block)
                yield received, total


def _connect(url: str, *, offset: int) -> http.client.HTTPResponse:
    if not url.startswith(("https://", "http://")):
        raise InputError(f"{url}: only https and http addresses can be fetched")
    headers = {"User-Agent": "laplacenet"} | ({"Range": f"bytes={offset}-"} if offset else {})
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=TIMEOUT_S
        )
    except urllib.error.HTTPError as error:
        if not (offset and error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE):
            raise
        # the part is longer than the published file, so it never was the start of it
        error.close()
        return _connect(url, offset=0)
    return response


def _next_block(response: http.client.HTTPResponse) -> bytes:
    """A block, empty at the end or when the connection breaks: the caller compares lengths."""
    try:
        return response.read(BLOCK)
    except (ConnectionError, TimeoutError, http.client.IncompleteRead):
        return b""


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _digest(path: Path, checksum: str) -> str:
    algorithm = checksum.partition(":")[0]
    with open_regular(path) as file:
        return f"{algorithm}:{hashlib.file_digest(file, algorithm).hexdigest()}"


def _verify(path: Path, checksum: str, *, hint: str) -> None:
    found = _digest(path, checksum)
    if found != checksum:
        raise InputError(f"{path}: its checksum is {found}, expected {checksum}; {hint}")
