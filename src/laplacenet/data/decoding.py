"""One picture file, of any size and mode, as a small rectangle of RGB bytes.

Hostile files cannot cost more than a budget, which is counted in pixels and bytes, not in seconds, so that the same
files are read on every machine. `LARGEST_PIXELS` are decoded at full size. A JPEG, which can be decoded at an eighth,
may have `LARGEST_JPEG_PIXELS`, unless it comes in several scans, all of which must be held until the last one is read;
each scan goes over all pixels again, so scans times pixels have a limit too. A large picture is converted strip by
strip. Only the listed formats are tried, whatever a file is called: decoders of others would start external programs.
"""

import contextlib
import io
import mmap
import os
import re
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile
from PIL.TiffImagePlugin import TiffImageFile

from laplacenet.data.files import open_regular
from laplacenet.data.tiff_files import n_strip_scans, require_few_strips

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "PPM", "TIFF", "WEBP")
SIXTEEN_BIT_MODES = ("I", "I;16", "I;16L", "I;16B", "I;16N")
LARGEST_PIXELS = 64_000_000
LARGEST_JPEG_PIXELS = 1_000_000_000
LARGEST_WEBP_PIXELS = 32_000_000
"""A WebP picture is decoded all at once, into several copies."""
LARGEST_DEEP_PIXELS = 40_000_000
"""Of a picture of several channels with 16 bits each."""
LARGEST_SIDE = 250_000
"""A row costs memory of its own, however short it is."""
LARGEST_SCANNED_PIXELS = 1_000_000_000
"""Pixels times scans of a JPEG; cameras and browsers write about ten scans."""
LARGEST_FILE = 1 << 29
LARGEST_PLAIN_FILE = 4_000_000
"""Bytes of a PPM, PGM or PBM file in its text form, which is slow to read."""
MOST_SEGMENTS = 100_000
MOST_READS = 300_000
"""How often a decoder may read: some go through a header byte by byte, in Python."""
BLOCK = 1 << 16
JPEG_BLOCK = 1 << 14
"""Bytes that a decoder gets per read; between reads it can be stopped."""
# larger pictures are decoded one at a time, so that memory does not grow with the number of threads
LARGE_PIXELS = 16_000_000

ORIENTATION = 0x0112
# in a scan's own data, a byte of 255 is followed by 0 or by a restart marker
_MARKER = re.compile(rb"\xff+([\x01-\xcf\xd8-\xfe])", re.DOTALL)
_EIGHT_BITS = ((np.arange(65536) + 128) // 257).astype(np.uint8)

_alone = threading.Lock()


Stop = Callable[[], bool]


class _StoppableFile(io.BufferedReader):
    """A file whose reader is interrupted once it should stop or reads without end."""

    should_stop: Stop | None = None
    n_reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        if self.should_stop is not None and self.should_stop():
            raise KeyboardInterrupt
        self.n_reads += 1
        if self.n_reads > MOST_READS:
            raise ValueError(f"it comes in more than {MOST_READS} pieces; save it again")
        return super().read(size)


def image_size(path: Path) -> tuple[int, int]:
    """Width and height as the file's header gives them; nothing is decoded."""
    with _open_stoppable(path) as file, _open_image(file) as image:
        return image.size


def decode(path: Path, *, size: int | tuple[int, int], should_stop: Stop | None = None) -> UInt8[np.ndarray, "h w 3"]:
    """The picture upright, scaled to cover `size` (width and height, or the side of a square), its middle kept.

    Of an animation it is the first frame. When `should_stop` returns true, decoding ends with a KeyboardInterrupt.
    """
    width, height = (size, size) if isinstance(size, int) else size
    with _loaded(path, width, height, should_stop) as picture:
        return np.array(fitted(picture, width, height))


def decode_within(path: Path, *, longest: int) -> Image.Image:
    """The whole picture upright, in RGB, its longer side at most `longest` pixels."""
    with _loaded(path, longest, longest) as picture:
        small = picture.copy()
    small.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    return small


@contextlib.contextmanager
def _loaded(path: Path, width: int, height: int, should_stop: Stop | None = None) -> Iterator[Image.Image]:
    """The picture upright and in RGB, decoded with at least this many pixels; a large one at a fraction of its size."""
    with _open_stoppable(path, should_stop) as file, _open_image(file) as image:
        full_size = image.size
        # a JPEG can be decoded at a half, a quarter or an eighth; twice the side leaves the filter enough to work with
        image.draft(None, (2 * width, 2 * height))
        n_scans = _require_affordable(image, full_size, file)
        is_large = _n_pixels(full_size if n_scans > 1 else image.size) > LARGE_PIXELS
        with _alone if is_large else contextlib.nullcontext():
            image.load()
            if _n_pixels(image.size) > LARGE_PIXELS:
                yield _reduced(image, width, height, should_stop)
            else:
                yield to_rgb(_upright(image))


def _open_stoppable(path: Path, should_stop: Stop | None = None) -> io.BufferedReader:
    with open_regular(path) as file:
        n_bytes = os.fstat(file.fileno()).st_size
        if n_bytes > LARGEST_FILE:
            raise ValueError(f"{n_bytes} bytes, more than the {LARGEST_FILE >> 20} MiB that are read")
        stoppable = _StoppableFile(io.FileIO(os.dup(file.fileno()), "rb"))
    stoppable.should_stop = should_stop
    return stoppable


def _n_pixels(size: tuple[int, int]) -> int:
    return size[0] * size[1]


def _reduced(image: Image.Image, width: int, height: int, should_stop: Stop | None) -> Image.Image:
    """A large picture in RGB and upright, reduced strip by strip, so that it is never in memory twice.

    Incomplete blocks at the edges are cut off.
    """
    factor = max(1, min(image.size) // (4 * max(width, height)))
    left, top = image.width % factor // 2, image.height % factor // 2
    small = Image.new("RGB", (image.width // factor, image.height // factor))
    right, bottom = left + small.width * factor, top + small.height * factor
    n_rows = max(1, LARGE_PIXELS // 8 // image.width // factor) * factor
    for start in range(top, bottom, n_rows):
        if should_stop is not None and should_stop():
            raise KeyboardInterrupt
        strip = to_rgb(image.crop((left, start, right, min(start + n_rows, bottom))))
        small.paste(strip.reduce(factor) if factor > 1 else strip, (0, (start - top) // factor))
    with contextlib.suppress(Exception):  # the camera's metadata may be damaged
        small.getexif()[ORIENTATION] = image.getexif().get(ORIENTATION, 1)
    return _upright(small)


def fitted(image: Image.Image, width: int, height: int) -> Image.Image:
    return ImageOps.fit(image, (width, height), method=Image.Resampling.BICUBIC)


class _WithoutLimit:
    """While any thread is in it, Pillow has no limit on pixels: its own would warn of or refuse a JPEG before it is
    asked for an eighth."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._limit: int | None = None

    def __enter__(self) -> None:
        with self._lock:
            if self._n_inside == 0:
                self._limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
            self._n_inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                Image.MAX_IMAGE_PIXELS = self._limit


_without_limit = _WithoutLimit()


def _open_image(file: BinaryIO) -> Image.Image:
    """The picture's header read; what may be decoded is limited by the budget of this module."""
    if not file.read(1):
        raise ValueError("the file is empty")
    require_few_strips(file)
    file.seek(0)
    try:
        with _without_limit:
            return Image.open(file, formats=FORMATS)
    except UnidentifiedImageError as error:
        raise ValueError(f"not a picture in {', '.join(FORMATS)}, or its header is damaged") from error


def _require_affordable(image: Image.Image, full_size: tuple[int, int], file: BinaryIO) -> int:
    """Refuse a picture over its budget before decoding; returns the number of scans of a JPEG, 1 for other formats."""
    n_pixels, n_decoded = _n_pixels(full_size), _n_pixels(image.size)
    is_drafted = n_decoded < n_pixels and n_pixels > LARGEST_PIXELS and _has_one_scan(file)
    largest = LARGEST_JPEG_PIXELS if is_drafted else LARGEST_PIXELS
    largest = LARGEST_WEBP_PIXELS if image.format == "WEBP" else largest
    largest = LARGEST_DEEP_PIXELS if _is_deep(image) else largest
    if max(full_size) > LARGEST_SIDE:
        raise ValueError(f"{full_size[0]}×{full_size[1]} pixels; a side may have at most {LARGEST_SIDE}")
    if n_pixels > largest or n_decoded > LARGEST_PIXELS:
        raise ValueError(
            f"{full_size[0]}×{full_size[1]} pixels, more than the {largest // 1_000_000} million that are decoded;"
            " make it smaller"
        )
    if image.format == "PPM" and "plain" in str(getattr(image, "tile", "")):
        n_bytes = os.fstat(file.fileno()).st_size
        if n_bytes > LARGEST_PLAIN_FILE:
            raise ValueError(f"a plain-text picture of {n_bytes} bytes; at most {LARGEST_PLAIN_FILE} are read")
    if isinstance(image, TiffImageFile) and n_strip_scans(image, file) * n_pixels > LARGEST_SCANNED_PIXELS:
        raise ValueError(f"JPEGs of many scans in a TIFF file of {full_size[0]}×{full_size[1]} pixels; save it again")
    if not isinstance(image, JpegImageFile):
        return 1
    image.decodermaxblock = JPEG_BLOCK
    return _require_few_scans(file, full_size)


def _is_deep(image: Image.Image) -> bool:
    """Whether several channels have 16 bits each, as the name of their layout in the file says."""
    layouts = [str(tile[3]) for tile in getattr(image, "tile", [])[:1]]
    return any(";16" in layout and not layout.startswith(("I;", "('I;")) for layout in layouts)


def _require_few_scans(file: BinaryIO, full_size: tuple[int, int]) -> int:
    """The number of scans, or that of all their markers where it is small enough anyway."""
    most = max(1, LARGEST_SCANNED_PIXELS // _n_pixels(full_size))
    n_scans = _n_scan_markers(file)
    if n_scans > most:  # an embedded preview has scans of its own
        n_scans = _n_scans(file, most=most)
    file.seek(0)
    if n_scans > most:
        raise ValueError(
            f"a JPEG of {full_size[0]}×{full_size[1]} pixels in more than {most} scans; save it again, not progressive"
        )
    return n_scans


def _n_scan_markers(file: BinaryIO) -> int:
    file.seek(0)
    n_found, last = 0, b""
    while block := file.read(BLOCK):
        n_found += block.count(b"\xff\xda") + ((last + block[:1]) == b"\xff\xda")
        last = block[-1:]
    return n_found


def _n_scans(file: BinaryIO, *, most: int) -> int:
    """Scans of the first picture in the file, counted from segment to segment; `most` + 1 where there are more."""
    n_found, position = 0, 2
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for _ in range(MOST_SEGMENTS):
            marker = _MARKER.search(content, position)
            if marker is None or marker[1] == b"\xd9" or n_found > most:
                return n_found
            position = marker.end()
            if marker[1] not in (b"\x01", b"\xd8"):
                position += max(2, int.from_bytes(content[position : position + 2], "big"))
            n_found += marker[1] == b"\xda"
    return most + 1


def _has_one_scan(file: BinaryIO) -> bool:
    """Whether a JPEG's first scan holds all its components, in a frame that is not progressive."""
    file.seek(2)
    n_components = 0
    while len(head := file.read(4)) == 4:
        marker, length = struct.unpack(">HH", head)
        segment = file.read(max(0, length - 2))
        if marker in (0xFFC0, 0xFFC1) and len(segment) > 5:
            n_components = segment[5]
        elif marker == 0xFFDA:
            return n_components > 0 and segment[:1] == bytes([n_components])
        elif marker < 0xFF01:
            return False
    return False


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # the camera's metadata is damaged; the picture itself is not
        return image


def to_rgb(image: Image.Image) -> Image.Image:
    """RGB from any mode: transparent parts over white, 16-bit grey scaled to 8."""
    if image.mode in SIXTEEN_BIT_MODES:
        levels = np.asarray(image)
        if levels.dtype.kind == "u" and levels.dtype.itemsize == 2:
            return Image.fromarray(_EIGHT_BITS[levels]).convert("RGB")
        if levels.min() < 0 or levels.max() > 65535:
            raise ValueError("32-bit pixels have no agreed white; save it with 8 or 16 bits")
        return Image.fromarray(((levels.astype(np.uint32) + 128) // 257).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise ValueError("floating-point pixels have no agreed white; save it with 8 or 16 bits")
    if image.has_transparency_data:
        picture = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")
    return image.convert("RGB")
