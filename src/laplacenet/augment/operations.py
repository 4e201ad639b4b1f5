"""The paper's fourteen operations on batches of uint8 images, equal to Pillow in every pixel.

Each function takes images with what `resolve_magnitudes` made of their magnitudes. Pillow blends in single precision,
product and sum rounded apart, so the two are never fused here.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float, Float32, Float64, Int32, Int64, UInt8
from numpy import ndarray
from torch import Tensor

from laplacenet.augment import geometry
from laplacenet.runtime import InputError

OPERATIONS = (
    "autocontrast",
    "brightness",
    "color",
    "contrast",
    "equalize",
    "identity",
    "posterize",
    "rotate",
    "sharpness",
    "shear_x",
    "shear_y",
    "solarize",
    "translate_x",
    "translate_y",
)
"""The paper's fourteen, in its order; an operation's number is its place here."""

LUMA = (19595, 38470, 7471)
"""Pillow's weights of red, green and blue in mode L, of 65536."""

_FACTORS = ("brightness", "color", "contrast", "sharpness")

Images = UInt8[Tensor, "n c h w"]
Coefficients = Int32[Tensor, "n 6"]
Factors = Float32[Tensor, " n"]


def apply_operation(
    name: str, images: Tensor, magnitudes: Tensor | ndarray | Sequence[float | int]
) -> UInt8[Tensor, "n c h w"]:
    """One operation on uint8 images (n, 3 or 1, h, w), each with its own magnitude in the paper's units.

    Enhancement factors; degrees; rates of shear; fractions of width or height; bits, truncated; T of `solarize` in
    [0, 1]. Autocontrast, equalize and identity ignore the magnitudes.
    """
    if name not in OPERATIONS:
        raise InputError(f"unknown operation {name!r}; choose one of {', '.join(OPERATIONS)}")
    require_uint8_images(images)
    magnitudes_f64 = torch.as_tensor(magnitudes, dtype=torch.float64).detach().cpu().numpy()
    if magnitudes_f64.shape != (len(images),):
        raise InputError(f"{len(images)} images need {len(images)} magnitudes; got the shape {magnitudes_f64.shape}")
    if name == "identity" or len(images) == 0:
        return images.clone()
    height, width = images.shape[2:]
    if name in geometry.GEOMETRIC:
        _require_finite(name, magnitudes_f64)
        return _resample(
            images, _exact_source_index(name, magnitudes_f64, height=height, width=width).to(images.device)
        )
    coefficients, factors = resolve_magnitudes(name, magnitudes_f64, height=height, width=width)
    place = images.device
    return APPLY[name](images, torch.from_numpy(coefficients).to(place), torch.from_numpy(factors).to(place))


def require_uint8_images(images: object) -> None:
    """Refuse what is not a batch of uint8 images with one or three channels."""
    if not isinstance(images, Tensor):
        raise InputError(f"images must be a uint8 tensor (n, 3 or 1, h, w); got {type(images).__name__}")
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] not in (1, 3) or 0 in images.shape[2:]:
        raise InputError(
            f"images must be a uint8 tensor (n, 3 or 1, h, w); got {images.dtype} with the shape {tuple(images.shape)}"
        )


def resolve_magnitudes(
    name: str, magnitudes: Float64[ndarray, " n"], *, height: int, width: int
) -> tuple[Int32[ndarray, "n 6"], Float32[ndarray, " n"]]:
    """Six whole numbers and a factor: all that an operation has to know of its magnitude.

    For the geometric operations the numbers are 16.16 fixed point and right for magnitudes of single precision.
    """
    coefficients = np.zeros((len(magnitudes), 6), dtype=np.int32)
    factors = np.ones(len(magnitudes), dtype=np.float32)
    if name in _FACTORS:
        with np.errstate(over="ignore"):
            factors = magnitudes.astype(np.float32)
        _require_finite(name, factors)
    elif name == "posterize":
        coefficients[:, 0] = _posterize_masks(magnitudes)
    elif name == "solarize":
        _require_finite(name, magnitudes)
        # a level lies below the threshold just when it lies below the next whole number
        coefficients[:, 0] = np.ceil(np.clip(256.0 * magnitudes, 0, 256))
    elif name == "rotate":
        coefficients = geometry.fixed_point_rotations(magnitudes, height=height, width=width)
    elif name in ("shear_x", "shear_y"):
        coefficients = geometry.fixed_point(geometry.affine_matrices(name, magnitudes, height=height, width=width))
    elif name in ("translate_x", "translate_y"):
        coefficients[:, (0, 4)] = 1 << 16
        side, column = (width, 2) if name == "translate_x" else (height, 5)
        coefficients[:, column] = geometry.fixed_point_shifts(magnitudes * side)
    return coefficients, factors


def autocontrast(images: Images, _coefficients: Coefficients, _factors: Factors) -> Images:
    """Stretch each channel so that its darkest level becomes 0 and its lightest 255."""
    flat = images.flatten(2)
    darkest = flat.amin(dim=2, keepdim=True).double()
    span = flat.amax(dim=2, keepdim=True).double() - darkest
    # a true quotient: torch computes 255.0 / span as a reciprocal times 255, which differs in the last bit
    scale = torch.full_like(span, 255.0) / span.clamp(min=1)
    levels = torch.arange(256, dtype=torch.float64, device=images.device)
    stretched = (levels * scale).sub_(darkest * scale)
    return _look_up(_truncated(torch.where(span > 0, stretched, levels)), _entries(images)).reshape(images.shape)


def brightness(images: Images, _coefficients: Coefficients, factors: Factors) -> Images:
    """Toward black."""
    return _truncated(images.float().mul_(_per_image(factors)))


def color(images: Images, _coefficients: Coefficients, factors: Factors) -> Images:
    """Toward the grey image; a grey image stays as it is."""
    if images.shape[1] == 1:
        return images.clone()
    levels = images.float()
    return _blend(_luma(levels), levels, factors)


def contrast(images: Images, _coefficients: Coefficients, factors: Factors) -> Images:
    """Toward the mean of the grey image, rounded half up."""
    levels = images.float()
    grey = levels if images.shape[1] == 1 else _luma(levels)
    mean = grey.sum(dim=(2, 3), keepdim=True, dtype=torch.float64) / (grey.shape[2] * grey.shape[3])
    return _blend((mean + 0.5).floor_().float(), levels, factors)


def equalize(images: Images, _coefficients: Coefficients, _factors: Factors) -> Images:
    """Spread the levels of each channel evenly; a channel with too few distinct pixels stays as it is."""
    n, c, height, width = images.shape
    entries = _entries(images)
    histogram = entries.flatten().bincount(minlength=n * c * 256).reshape(n, c, 256)
    n_lightest = histogram.gather(2, images.flatten(2).amax(dim=2, keepdim=True).long())
    step = (height * width - n_lightest).div(255, rounding_mode="floor")
    below = histogram.cumsum(2).sub_(histogram).add_(step // 2)
    levels = torch.arange(256, dtype=torch.float64, device=images.device)
    # whole numbers this small divide exactly enough in float64, several times faster than as integers
    spread = below / step.clamp(min=1).double()
    return _look_up(_truncated(torch.where(step > 0, spread, levels)), entries).reshape(images.shape)


def identity(images: Images, _coefficients: Coefficients, _factors: Factors) -> Images:
    """The image as it is."""
    return images


def posterize(images: Images, coefficients: Coefficients, _factors: Factors) -> Images:
    """Keep the leading bits of each level."""
    return images & _per_image(coefficients[:, 0].to(torch.uint8))


def solarize(images: Images, coefficients: Coefficients, _factors: Factors) -> Images:
    """Invert the levels from the threshold on."""
    last_kept = _per_image(coefficients[:, 0].to(torch.int16) - 1)
    # the sign of a difference, spread over all bits, is the mask that inverts
    inverting = (last_kept - images.to(torch.int16)).bitwise_right_shift_(15)
    return images ^ inverting.to(torch.uint8)


def sharpness(images: Images, _coefficients: Coefficients, factors: Factors) -> Images:
    """Toward the smoothed image, whose outermost pixels are those of the image itself."""
    height, width = images.shape[2:]
    if min(height, width) < 3:
        return images.clone()
    # rows lie end to end, so whole images are summed at once; what runs over an edge is put right below
    flat = images.flatten(2).to(torch.int16)
    rows = flat[:, :, : -2 * width] + flat[:, :, width:-width] + flat[:, :, 2 * width :]
    weighted = (
        (rows[:, :, :-2] + rows[:, :, 1:-1]).add_(rows[:, :, 2:]).add_(flat[:, :, width + 1 : -width - 1], alpha=4)
    )
    levels = images.float()
    smooth = levels.clone()
    # thirteenths never lie nearer than 1/26 to a half, so single precision rounds as Pillow does
    smooth.flatten(2)[:, :, width + 1 : -width - 1] = weighted.float().mul_(1 / 13).add_(0.5).floor_()
    smooth[..., 0], smooth[..., -1] = levels[..., 0], levels[..., -1]
    return _blend(smooth, levels, factors)


def resample(images: Images, coefficients: Coefficients, _factors: Factors) -> Images:
    """Rotate, shear or shift by nearest neighbors in fixed point; what comes from outside is black."""
    return _resample(images, _source_index(coefficients, height=images.shape[2], width=images.shape[3]))


def shift_rows(images: Images, coefficients: Coefficients, _factors: Factors) -> Images:
    """`resample` for maps that keep rows whole, which are shears along them and shifts: far fewer, longer copies."""
    height, width = images.shape[2:]
    y = torch.arange(height, dtype=torch.int32, device=images.device)
    _, a1, a2, _, a4, a5 = (a[:, None] for a in coefficients.unbind(1))
    columns = (a1 * y + a2).bitwise_right_shift_(16).clamp_(-width, width)
    rows = (a4 * y + a5).bitwise_right_shift_(16)
    margin = int(columns.abs().max())
    framed = torch.nn.functional.pad(images, (margin, margin, 0, 1))
    # the row below the image is black
    rows = torch.where((rows < 0) | (rows >= height), height, rows)
    itself = torch.arange(len(images), device=images.device)
    return geometry.copied_rows(framed, itself, rows, columns + margin, width=width)


APPLY: Mapping[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "autocontrast": autocontrast,
    "brightness": brightness,
    "color": color,
    "contrast": contrast,
    "equalize": equalize,
    "identity": identity,
    "posterize": posterize,
    "sharpness": sharpness,
    "solarize": solarize,
    "rotate": resample,
    "shear_x": shift_rows,
    "shear_y": resample,
    "translate_x": shift_rows,
    "translate_y": shift_rows,
}


def _exact_source_index(
    name: str, magnitudes: Float64[ndarray, " n"], *, height: int, width: int
) -> Int64[Tensor, "n h w"]:
    matrices = geometry.affine_matrices(name, magnitudes, height=height, width=width)
    fixed = geometry.is_fixed_point(matrices, height=height, width=width)
    index = torch.empty(len(magnitudes), height, width, dtype=torch.int64)
    coefficients = torch.from_numpy(geometry.fixed_point(matrices[fixed]))
    index[torch.from_numpy(fixed)] = _source_index(coefficients, height=height, width=width)
    by_addition = geometry.source_index_by_addition(matrices[~fixed], height=height, width=width)
    index[torch.from_numpy(~fixed)] = torch.from_numpy(by_addition)
    return index


def _source_index(coefficients: Coefficients, *, height: int, width: int) -> Int64[Tensor, "n h w"]:
    """Where each pixel comes from, as an index into an image framed by one black pixel."""
    x = torch.arange(width, dtype=torch.int32, device=coefficients.device)
    y = torch.arange(height, dtype=torch.int32, device=coefficients.device)[:, None]
    a0, a1, a2, a3, a4, a5 = (a[:, None, None] for a in coefficients.unbind(1))
    columns = (a0 * x + (a1 * y + a2)).bitwise_right_shift_(16).clamp_(-1, width)
    rows = (a3 * x + (a4 * y + a5)).bitwise_right_shift_(16).clamp_(-1, height)
    return rows.mul_(width + 2).add_(columns).add_(width + 3).long()


def _resample(images: Images, index: Int64[Tensor, "n h w"]) -> Images:
    n, c, height, width = images.shape
    framed = torch.nn.functional.pad(images, (1, 1, 1, 1))
    return framed.flatten(2).gather(2, index.reshape(n, 1, -1).expand(n, c, height * width)).reshape(images.shape)


def _entries(images: Images) -> Int32[Tensor, "n c pixels"]:
    """Where each pixel's level stands in tables of 256 entries, one for each channel, after one another."""
    n, c = images.shape[:2]
    first = torch.arange(0, n * c * 256, 256, dtype=torch.int32, device=images.device).reshape(n, c, 1)
    return images.flatten(2).int().add_(first)


def _look_up(tables: UInt8[Tensor, "n c 256"], entries: Int32[Tensor, "n c pixels"]) -> UInt8[Tensor, "n c pixels"]:
    return tables.flatten().index_select(0, entries.flatten()).view_as(entries)


def _luma(levels: Float32[Tensor, "n 3 h w"]) -> Float32[Tensor, "n 1 h w"]:
    # every sum is a whole number below 2**24: exact in single precision
    weighted = levels[:, :1] * LUMA[0] + levels[:, 1:2] * LUMA[1] + levels[:, 2:] * LUMA[2]
    return weighted.add_(1 << 15).mul_(1 / (1 << 16)).floor_()


def _blend(
    degenerate: Float32[Tensor, "n _ _ _"], levels: Float32[Tensor, "n c h w"], factors: Factors
) -> UInt8[Tensor, "n c h w"]:
    return _truncated((levels - degenerate).mul_(_per_image(factors)).add_(degenerate))


def _truncated(values: Float[Tensor, "*shape"]) -> UInt8[Tensor, "*shape"]:
    """The level below, within 0 and 255; by way of int16, the fastest conversion on a CPU."""
    return values.clamp_(0, 255).to(torch.int16).to(torch.uint8)


def _per_image(values: Tensor) -> Tensor:
    return values[:, None, None, None]


def _posterize_masks(bits: Float64[ndarray, " n"]) -> Int64[ndarray, " n"]:
    _require_finite("posterize", bits)
    whole = np.trunc(bits)
    if ((whole < 1) | (whole > 8)).any():
        raise InputError(f"posterize keeps 1 to 8 bits; got {bits[(whole < 1) | (whole > 8)][0]:g}")
    masks: ndarray = 256 - (1 << (8 - whole.astype(np.int64)))
    return masks


def _require_finite(name: str, magnitudes: ndarray) -> None:
    if not np.isfinite(magnitudes).all():
        raise InputError(
            f"{name} needs finite magnitudes in single precision; got {magnitudes[~np.isfinite(magnitudes)][0]}"
        )
