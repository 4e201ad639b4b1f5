"""Pillow's operation for each name, one image after another."""

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps

GREY = (125, 123, 114)

_ENHANCERS = {
    "brightness": ImageEnhance.Brightness,
    "color": ImageEnhance.Color,
    "contrast": ImageEnhance.Contrast,
    "sharpness": ImageEnhance.Sharpness,
}


def to_pillow(image: torch.Tensor) -> Image.Image:
    """A (c, h, w) tensor as an image of mode L or RGB."""
    array = image.permute(1, 2, 0).numpy()
    return Image.fromarray(np.ascontiguousarray(array[:, :, 0] if array.shape[2] == 1 else array))


def from_pillow(image: Image.Image) -> torch.Tensor:
    """An image as a (c, h, w) tensor."""
    array = np.array(image)
    return torch.from_numpy(array[None] if array.ndim == 2 else array.transpose(2, 0, 1).copy())


def pillow_operation(name: str, image: Image.Image, magnitude: float) -> Image.Image:
    """The operation called `name`, in Pillow's own words."""
    width, height = image.size
    affine = {
        "shear_x": (1, magnitude, 0, 0, 1, 0),
        "shear_y": (1, 0, 0, magnitude, 1, 0),
        "translate_x": (1, 0, magnitude * width, 0, 1, 0),
        "translate_y": (1, 0, 0, 0, 1, magnitude * height),
    }
    if name in affine:
        return image.transform(image.size, Image.Transform.AFFINE, affine[name])
    if name in _ENHANCERS:
        return _ENHANCERS[name](image).enhance(magnitude)
    return {
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
        "identity": image.copy,
        "posterize": lambda: ImageOps.posterize(image, int(magnitude)),
        "rotate": lambda: image.rotate(magnitude),
        "solarize": lambda: ImageOps.solarize(image, 256 * magnitude),
    }[name]()


def pillow_operations(name: str, images: torch.Tensor, magnitudes: torch.Tensor) -> torch.Tensor:
    """The operation on each image of a batch."""
    pairs = zip(images, magnitudes.tolist(), strict=True)
    return torch.stack([from_pillow(pillow_operation(name, to_pillow(image), value)) for image, value in pairs])


def pillow_view(image: torch.Tensor, draws, view: int, *, pad: int) -> torch.Tensor:
    """The view that was drawn, with Pillow: mirror, reflect and crop, two samples, a grey square."""
    from laplacenet.augment import OPERATIONS

    pixels = image.numpy()
    if draws.is_flipped[view]:
        pixels = pixels[:, :, ::-1]
    height, width = pixels.shape[1:]
    top, left = draws.offsets[view] + pad
    padded = np.pad(pixels, ((0, 0), (pad, pad), (pad, pad)), mode="reflect")
    cropped = torch.from_numpy(padded[:, top : top + height, left : left + width].copy())
    picture = to_pillow(cropped)
    for number, magnitude in zip(draws.operations[view], draws.magnitudes[view], strict=True):
        picture = pillow_operation(OPERATIONS[number], picture, float(magnitude))
    top, left, bottom, right = (int(edge) for edge in draws.squares[view])
    grey = GREY if picture.mode == "RGB" else Image.new("RGB", (1, 1), GREY).convert("L").getpixel((0, 0))
    picture.paste(grey, (left, top, right, bottom))
    return from_pillow(picture)
