"""A strong view as a data loader's worker makes it: one image after another, with Pillow."""

import numpy as np
from jaxtyping import Float32
from numpy import ndarray
from PIL import Image, ImageEnhance, ImageOps

from laplacenet.augment import OPERATIONS
from laplacenet.augment.eager import GREY
from laplacenet.augment.sampling import Draws
from laplacenet.data import ChannelStatistics

_ENHANCERS = {
    "brightness": ImageEnhance.Brightness,
    "color": ImageEnhance.Color,
    "contrast": ImageEnhance.Contrast,
    "sharpness": ImageEnhance.Sharpness,
}


def pillow_view(
    picture: Image.Image, draws: Draws, view: int, *, pad: int, statistics: ChannelStatistics
) -> Float32[ndarray, "3 h w"]:
    """The view that was drawn: mirror, reflect and crop, two operations, the grey square, normalization."""
    if draws.is_flipped[view]:
        picture = ImageOps.mirror(picture)
    top, left = (int(offset) + pad for offset in draws.offsets[view])
    width, height = picture.size
    padded = np.pad(np.asarray(picture), ((pad, pad), (pad, pad), (0, 0)), mode="reflect")
    picture = Image.fromarray(np.ascontiguousarray(padded[top : top + height, left : left + width]))
    for number, magnitude in zip(draws.operations[view], draws.magnitudes[view], strict=True):
        picture = apply_with_pillow(OPERATIONS[number], picture, float(magnitude))
    top, left, bottom, right = (int(edge) for edge in draws.squares[view])
    picture.paste(GREY, (left, top, right, bottom))
    pixels = np.asarray(picture, dtype=np.float32) / np.float32(255)
    mean, std = (np.array(values, dtype=np.float32) for values in (statistics.mean, statistics.std))
    return np.ascontiguousarray(((pixels - mean) / std).transpose(2, 0, 1))


def apply_with_pillow(name: str, picture: Image.Image, magnitude: float) -> Image.Image:
    """One of the paper's operations in Pillow's words; the picture given stays as it is."""
    width, height = picture.size
    match name:
        case "brightness" | "color" | "contrast" | "sharpness":
            return _ENHANCERS[name](picture).enhance(magnitude)
        case "autocontrast":
            return ImageOps.autocontrast(picture)
        case "equalize":
            return ImageOps.equalize(picture)
        case "posterize":
            return ImageOps.posterize(picture, int(magnitude))
        case "solarize":
            return ImageOps.solarize(picture, int(np.ceil(256 * magnitude)))
        case "rotate":
            return picture.rotate(magnitude)
        case "shear_x":
            return _mapped(picture, (1, magnitude, 0, 0, 1, 0))
        case "shear_y":
            return _mapped(picture, (1, 0, 0, magnitude, 1, 0))
        case "translate_x":
            return _mapped(picture, (1, 0, magnitude * width, 0, 1, 0))
        case "translate_y":
            return _mapped(picture, (1, 0, 0, 0, 1, magnitude * height))
        case _:
            return picture


def _mapped(picture: Image.Image, matrix: tuple[float | int, ...]) -> Image.Image:
    return picture.transform(picture.size, Image.Transform.AFFINE, matrix)
