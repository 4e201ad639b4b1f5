"""The pictures of a folder by number: their names, whether they have changed, and JPEGs to show."""

import io
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from laplacenet.data.decoding import decode_within
from laplacenet.data.walking import PictureFile, find_pictures
from laplacenet.runtime import InputError

SIDES = {"small": 256, "large": 1600}
QUALITY = {"small": 85, "large": 92}
CACHE_BYTES = 96 << 20


@dataclass(frozen=True)
class Photo:
    """A file as it was when the review began."""

    file: PictureFile
    n_bytes: int
    changed_ns: int

    @property
    def name(self) -> str:
        return self.file.name

    def status(self) -> str:
        """`ok`, `gone` or `changed`."""
        try:
            now = self.file.path.stat()
        except OSError:
            return "gone"
        return "ok" if (now.st_size, now.st_mtime_ns) == (self.n_bytes, self.changed_ns) else "changed"


def find_photos(folder: Path, *, leave_out: Path | None = None) -> list[Photo]:
    """All pictures below the folder, in the order of their names."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give a folder of pictures, or the run folder of a review")
    files, _ = find_pictures(folder, leave_out=leave_out)
    photos = []
    for file in files:
        try:
            status = file.path.stat()
        except OSError:  # deleted since the folder was listed
            continue
        photos.append(Photo(file, status.st_size, status.st_mtime_ns))
    if not photos:
        raise InputError(f"{folder}: no pictures in it")
    return photos


class Thumbnails:
    """Pictures as JPEG, upright, none larger than the page shows; the last ones are kept in memory."""

    def __init__(self, photos: list[Photo]) -> None:
        self._photos = photos
        self._kept: OrderedDict[tuple[int, str, int], bytes] = OrderedDict()
        self._n_bytes = 0
        self._lock = threading.Lock()

    def jpeg(self, number: int, size: str) -> bytes:
        """An exception, whichever the decoder raises, where the file cannot be read."""
        photo = self._photos[number]
        key = (number, size, photo.file.path.stat().st_mtime_ns)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        picture = io.BytesIO()
        decode_within(photo.file.path, longest=SIDES[size]).save(picture, "JPEG", quality=QUALITY[size])
        content = picture.getvalue()
        with self._lock:
            if key not in self._kept:  # another thread may have read the same picture meanwhile
                self._kept[key] = content
                self._n_bytes += len(content)
            while self._n_bytes > CACHE_BYTES and len(self._kept) > 1:
                self._n_bytes -= len(self._kept.popitem(last=False)[1])
        return content
