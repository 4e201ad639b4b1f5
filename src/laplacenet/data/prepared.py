"""Pictures decoded once, into a file that is mapped into memory: there may be more than memory holds.

`laplacenet data FOLDER --prepare` writes it; commands that read the same pictures at the same size find it. It is in
the cache folder, under a hash of the names and states of all picture files, so that adding, changing or removing one
invalidates it. Pictures are only appended, and a line in the index confirms each batch: whatever follows the last line
is cut off when an interrupted preparation continues.

A line carries a checksum of itself, and one that is damaged ends the index. It also carries the CRC-32 of its pictures'
bytes, which is compared when the first of them is read: a changed bit is refused without a separate pass over the file.
Preparing the folder again checks all that is there and decodes from the first damage on.
"""

import hashlib
import json
import os
import threading
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from laplacenet.data.dataset import Skipped
from laplacenet.data.pictures import LARGEST_DEFAULT_SIZE, NO_MONITOR, decode_all
from laplacenet.data.walking import PictureFile
from laplacenet.runtime import InputError, Monitor, read_sealed, read_whole, write_sealed
from laplacenet.runtime.cache_folder import cache_folder
from laplacenet.runtime.files import CHECKSUM, checksum, sync

FORMAT = 2
FOLDER, PIXELS, INDEX, SIZE = "pictures", "pixels.u8", "index.jsonl", "size.json"
SIDE = "side"
PICTURES_PER_LINE = 1024
MOST_PER_LINE = 1 << 20
LINE_KEYS = {"n_files", "failures", "crc32"}


@dataclass(frozen=True)
class Prepared:
    """The pictures of one list of files at one size, as far as they have been decoded."""

    folder: Path
    width: int
    height: int

    @property
    def row_bytes(self) -> int:
        return 3 * self.width * self.height

    def lines(self) -> list[dict[str, Any]]:
        """What the index says, up to a line that a crash has cut short or that is damaged."""
        try:
            content = read_whole(self.folder / INDEX)
        except InputError:
            return []
        lines: list[dict[str, Any]] = []
        for line in content.splitlines(keepends=True):
            if (found := read_line(line)) is None:
                break
            lines.append(found)
        return lines

    def images(self, n: int) -> UInt8[Tensor, "n 3 h w"]:
        """Read from the file as they are needed; what is written to them stays in memory."""
        shape = (n, 3, self.height, self.width)
        return torch.from_numpy(np.memmap(self.folder / PIXELS, dtype=np.uint8, mode="c", shape=shape))

    def whole_lines(self, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The lines before the first whose pictures are not as they were written."""
        for number, line in enumerate(lines):
            start, stop = counts(lines[:number])[1], counts(lines[: number + 1])[1]
            if not has_bytes(self, stop) or (start < stop and crc32(self.images(stop)[start:]) != line["crc32"]):
                return lines[:number]
        return lines


@dataclass(frozen=True, eq=False)
class PreparedPictures:
    """All pictures of a folder in their file: those `kept`, and the `skipped`, which could not be read.

    `starts` are the first rows of the parts that have a checksum each, and where the last part ends.
    """

    path: Path
    images: UInt8[Tensor, "n 3 h w"]
    kept: list[int]
    skipped: list[Skipped]
    starts: list[int]
    sums: list[int]
    _checked: set[int] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def require_whole(self, start: int, stop: int) -> None:
        """Compare the checksums of the parts in which these rows lie, unless that was done before."""
        for part in range(bisect_right(self.starts, start) - 1, bisect_left(self.starts, stop)):
            with self._lock:  # threads that read one part at once would all check it
                if part in self._checked:
                    continue
                first, end = self.starts[part], self.starts[part + 1]
                if first < end and crc32(self.images[first:end]) != self.sums[part]:
                    raise InputError(
                        f"{self.path}: damaged: pictures {first + 1} to {end} are not as they were written;"
                        " decode them again with laplacenet data FOLDER --prepare, or delete the file"
                    )
                self._checked.add(part)


def crc32(images: UInt8[Tensor, "n 3 h w"]) -> int:
    return zlib.crc32(images.numpy().data)


def read_line(line: bytes) -> dict[str, Any] | None:
    """A line of the index; None where it is not as it was written."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or line != written_line(found):
        return None
    return found if found.pop(CHECKSUM, None) == checksum(found) and is_line(found) else None


def is_line(found: dict[str, Any]) -> bool:
    """Whether the values of a line make sense."""
    if found.keys() != LINE_KEYS or type(found["n_files"]) is not int or type(found["crc32"]) is not int:
        return False
    n_files, failures = found["n_files"], found["failures"]
    if not 1 <= n_files <= MOST_PER_LINE or not isinstance(failures, dict):
        return False
    places = {str(place) for place in range(n_files)}
    return failures.keys() <= places and all(isinstance(reason, str) for reason in failures.values())


def find_prepared(pictures: Sequence[PictureFile], size: int | tuple[int, int]) -> PreparedPictures | None:
    """None where they have not all been prepared."""
    folder = folder_of(pictures)
    if folder is None:
        return None
    prepared = at_size(folder, size)
    failures: dict[int, str] = {}
    n_done, starts, lines = 0, [0], prepared.lines()
    for line in lines:
        failures |= {n_done + int(place): reason for place, reason in line["failures"].items()}
        n_done += line["n_files"]
        starts.append(n_done - len(failures))
    kept = [row for row in range(n_done) if row not in failures]
    if n_done != len(pictures) or not kept or not has_bytes(prepared, len(kept)):
        return None
    skipped = [Skipped(pictures[row].name, why) for row, why in failures.items()]
    sums = [line["crc32"] for line in lines]
    return PreparedPictures(prepared.folder / PIXELS, prepared.images(len(kept)), kept, skipped, starts, sums)


def has_bytes(prepared: Prepared, n: int) -> bool:
    try:
        return (prepared.folder / PIXELS).stat().st_size >= n * prepared.row_bytes
    except OSError:
        return False


def prepared_size(pictures: Sequence[PictureFile]) -> int | None:
    """The default size at which these pictures were prepared, which saves measuring them again."""
    folder = folder_of(pictures)
    try:
        size = None if folder is None else read_sealed(folder / SIZE).get(SIDE)
    except InputError:
        return None
    return size if type(size) is int and 1 <= size <= LARGEST_DEFAULT_SIZE else None


def prepare(
    pictures: Sequence[PictureFile], *, size: int | tuple[int, int], is_default: bool, monitor: Monitor = NO_MONITOR
) -> Prepared:
    """Decode what has not been decoded yet; the monitor advances by one for each file, also for those that have been.

    `is_default` says that this is the size that readers of these pictures choose by default.
    """
    folder = key_folder(pictures)
    prepared = at_size(folder, size)
    prepared.folder.mkdir(parents=True, exist_ok=True)
    if is_default:
        write_sealed(folder / SIZE, {SIDE: size})
    for path in (prepared.folder / PIXELS, prepared.folder / INDEX):
        if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):  # a pipe would wait for ever
            raise InputError(f"{path}: not a regular file; delete it")
    lines = prepared.whole_lines(prepared.lines())
    n_done, n_kept = counts(lines)
    monitor.advance(n_done)
    with (prepared.folder / PIXELS).open("ab") as pixels, (prepared.folder / INDEX).open("ab") as index:
        os.truncate(pixels.fileno(), n_kept * prepared.row_bytes)
        os.truncate(index.fileno(), sum(len(line) for line in written(lines)))
        for start in range(n_done, len(pictures), PICTURES_PER_LINE):
            some = pictures[start : start + PICTURES_PER_LINE]
            images, kept, skipped = decode_all(some, size=size, monitor=monitor)
            places = sorted(set(range(len(some))) - set(kept))
            failures = {str(place): file.reason for place, file in zip(places, skipped, strict=True)}
            pixels.write(images.numpy().tobytes())
            pixels.flush()
            os.fsync(pixels.fileno())
            index.writelines(written([{"n_files": len(some), "failures": failures, "crc32": crc32(images)}]))
            index.flush()
            os.fsync(index.fileno())
    sync(prepared.folder)
    return prepared


def counts(lines: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """Of files, and of pictures among them that could be read."""
    n_files = sum(line["n_files"] for line in lines)
    return n_files, n_files - sum(len(line["failures"]) for line in lines)


def written(lines: Sequence[dict[str, Any]]) -> Iterator[bytes]:
    return (written_line({**line, CHECKSUM: checksum(line)}) for line in lines)


def written_line(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode() + b"\n"


def at_size(folder: Path, size: int | tuple[int, int]) -> Prepared:
    width, height = (size, size) if isinstance(size, int) else size
    return Prepared(folder / f"{width}x{height}", width, height)


def folder_of(pictures: Sequence[PictureFile]) -> Path | None:
    """Where these pictures are prepared; None where they are not, or nothing ever was."""
    try:
        if not (cache_folder() / FOLDER).is_dir():
            return None
        folder = key_folder(pictures)
        return folder if folder.is_dir() else None
    except (InputError, OSError):  # no permission to read the cache
        return None


def key_folder(pictures: Sequence[PictureFile]) -> Path:
    digest = hashlib.sha256(f"{FORMAT}".encode())
    for picture in pictures:
        try:
            status = picture.path.stat()
        except OSError as error:
            raise InputError(f"{picture.path}: cannot be read ({error.strerror})") from error
        # the time of modification alone can be set back, as copying programs do
        state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        digest.update(f"{state} ".encode() + os.fsencode(os.path.abspath(picture.path)) + b"\0")  # noqa: PTH100 - links stay
    return cache_folder() / FOLDER / digest.hexdigest()[:32]
