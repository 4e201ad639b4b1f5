"""One picture file, of any size and mode, as a small square of RGB bytes."""

from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
SIXTEEN_BIT_MODES = ("I", "I;16", "I;16L", "I;16B", "I;16N")


def image_size(path: Path) -> tuple[int, int]:
    """Width and height as the file's header gives them; nothing is decoded."""
    with Image.open(path) as image:
        return image.size


def decode(path: Path, *, size: int) -> UInt8[np.ndarray, "size size 3"]:
    """The picture upright, its shorter side scaled to `size`, cropped to the square in its middle."""
    with Image.open(path) as image:
        # a JPEG can be decoded at a half, a quarter or an eighth; twice the side leaves the filter enough to work with
        image.draft(None, (2 * size, 2 * size))
        upright = ImageOps.exif_transpose(image)
        return np.array(ImageOps.fit(to_rgb(upright), (size, size), method=Image.Resampling.BICUBIC))


def to_rgb(image: Image.Image) -> Image.Image:
    """RGB from any mode: transparent parts over white, 16-bit grey scaled to 8."""
    if image.mode in SIXTEEN_BIT_MODES:
        levels = np.asarray(image).astype(np.float64) / 257
        return Image.fromarray(np.rint(levels).clip(0, 255).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise ValueError("floating-point pixels have no agreed white; save it with 8 or 16 bits")
    if image.has_transparency_data:
        picture = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")
    return image.convert("RGB")
