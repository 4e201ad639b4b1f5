"""What a TIFF file would cost: in how many strips or tiles it comes, and in how many scans where these are JPEGs.

Pillow makes a list of all strips before anything can be asked of the picture, so they are counted in the file itself.
"""

import os
import struct
from typing import BinaryIO

from PIL.TiffImagePlugin import TiffImageFile

MOST_STRIPS = 50_000
"""Strips or tiles of one page; each costs time of its own. A scan of a large map has some ten thousand."""
ORDERS = {b"II": "<", b"MM": ">"}
BIG = 43
MOST_ENTRIES = 1 << 16
OFFSETS, SIZES = (273, 324), (279, 325)  # of strips, of tiles
COMPRESSION, JPEGS = 259, (6, 7)
SCAN = b"\xff\xda"


def require_few_strips(file: BinaryIO) -> None:
    """Refuse a TIFF file whose first page comes in too many strips or tiles; any other file passes."""
    file.seek(0)
    head = file.read(16)
    order = ORDERS.get(head[:2])
    if order is None or len(head) < 16:
        return
    is_big = head[2] == BIG  # as Pillow tells them apart
    entry = order + ("HHQ8s" if is_big else "HHL4s")
    file.seek(struct.unpack(order + ("Q" if is_big else "L"), head[8:] if is_big else head[4:8])[0] & (2**62 - 1))
    counted = file.read(8 if is_big else 2)
    if len(counted) < (8 if is_big else 2):
        return
    (n_entries,) = struct.unpack(order + ("Q" if is_big else "H"), counted)
    entries = file.read(struct.calcsize(entry) * min(n_entries, MOST_ENTRIES))
    entries = entries[: len(entries) - len(entries) % struct.calcsize(entry)]
    for tag, _, n, _ in struct.iter_unpack(entry, entries):
        if tag in (*OFFSETS, *SIZES) and n > MOST_STRIPS:
            raise ValueError(f"a TIFF file in {n} strips or tiles; at most {MOST_STRIPS} are read, save it again")


def n_strip_scans(image: TiffImageFile, file: BinaryIO) -> float:
    """How often the pixels are gone over, on average; 1 where they are not compressed as JPEG."""
    if image.tag_v2.get(COMPRESSION) not in JPEGS:
        return 1.0
    offsets = next((image.tag_v2[tag] for tag in OFFSETS if tag in image.tag_v2), ())
    sizes = next((image.tag_v2[tag] for tag in SIZES if tag in image.tag_v2), ())
    if sum(sizes) > 2 * os.fstat(file.fileno()).st_size:
        raise ValueError("a TIFF file whose strips lie over one another; save it again")
    n_scans = 0
    for offset, size in zip(offsets, sizes, strict=False):
        file.seek(offset)
        n_scans += file.read(size).count(SCAN)
    return n_scans / max(1, len(offsets))
