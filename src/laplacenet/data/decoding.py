"""One picture file, of any size and mode, as a small rectangle of RGB bytes.

A file from a stranger costs no more than its pixel budget: `LARGEST_PIXELS` are decoded at full size. A JPEG, which can
be decoded at an eighth, may have `LARGEST_JPEG_PIXELS`, unless it comes in several scans, all of which must be held
until the last one is read. Only the formats that are listed are tried, whatever a file is called: others would start
programs to draw their pictures.
"""

import contextlib
import struct
import threading
from pathlib import Path
from typing import BinaryIO

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError

from laplacenet.data.files import open_regular

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "PPM", "TIFF", "WEBP")
SIXTEEN_BIT_MODES = ("I", "I;16", "I;16L", "I;16B", "I;16N")
LARGEST_PIXELS = 64_000_000
LARGEST_JPEG_PIXELS = 1_000_000_000
# above this a picture is decoded alone, so that as many threads as there are cores do not need as many of them at once
LARGE_PIXELS = 16_000_000

_alone = threading.Lock()
_limit_lifted = threading.Lock()


def image_size(path: Path) -> tuple[int, int]:
    """Width and height as the file's header gives them; nothing is decoded."""
    with open_regular(path) as file, _open_image(file) as image:
        return image.size


def decode(path: Path, *, size: int | tuple[int, int]) -> UInt8[np.ndarray, "h w 3"]:
    """The picture upright, scaled to cover `size` (width and height, or the side of a square), its middle kept.

    Of an animation it is the first frame.
    """
    width, height = (size, size) if isinstance(size, int) else size
    with open_regular(path) as file, _open_image(file) as image:
        full_size = image.size
        # a JPEG can be decoded at a half, a quarter or an eighth; twice the side leaves the filter enough to work with
        image.draft(None, (2 * width, 2 * height))
        _require_affordable(image, full_size, file)
        is_large = image.size[0] * image.size[1] > LARGE_PIXELS
        with _alone if is_large else contextlib.nullcontext():
            image.load()
            return np.array(fitted(to_rgb(_upright(image)), width, height))


def fitted(image: Image.Image, width: int, height: int) -> Image.Image:
    return ImageOps.fit(image, (width, height), method=Image.Resampling.BICUBIC)


def _open_image(file: BinaryIO) -> Image.Image:
    """The picture's header read; Pillow's own limit on pixels would refuse a JPEG before it is asked for an eighth."""
    if not file.read(1):
        raise ValueError("the file is empty")
    file.seek(0)
    try:
        return Image.open(file, formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        file.seek(0)
    except UnidentifiedImageError as error:
        raise ValueError(f"not a picture in {', '.join(FORMATS)}, or its header is damaged") from error
    with _limit_lifted:
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            return Image.open(file, formats=FORMATS)
        finally:
            Image.MAX_IMAGE_PIXELS = limit


def _require_affordable(image: Image.Image, full_size: tuple[int, int], file: BinaryIO) -> None:
    n_pixels, n_decoded = full_size[0] * full_size[1], image.size[0] * image.size[1]
    if n_pixels <= LARGEST_PIXELS:
        return
    is_drafted = n_decoded < n_pixels and _has_one_scan(file)
    if not is_drafted or n_decoded > LARGEST_PIXELS or n_pixels > LARGEST_JPEG_PIXELS:
        largest = LARGEST_JPEG_PIXELS if is_drafted else LARGEST_PIXELS
        raise ValueError(
            f"{full_size[0]}×{full_size[1]} pixels, more than the {largest // 1_000_000} million that are decoded;"
            " make it smaller"
        )


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
    except Exception:  # what the camera wrote beside the picture is damaged; the picture itself is not
        return image


def to_rgb(image: Image.Image) -> Image.Image:
    """RGB from any mode: transparent parts over white, 16-bit grey scaled to 8."""
    if image.mode in SIXTEEN_BIT_MODES:
        levels = np.asarray(image)
        if levels.min() < 0 or levels.max() > 65535:
            raise ValueError("32-bit pixels have no agreed white; save it with 8 or 16 bits")
        return Image.fromarray(((levels.astype(np.uint32) + 128) // 257).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise ValueError("floating-point pixels have no agreed white; save it with 8 or 16 bits")
    if image.has_transparency_data:
        picture = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")
    return image.convert("RGB")
