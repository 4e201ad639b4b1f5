"""Where each pixel comes from when an image is rotated, sheared or shifted, in Pillow's arithmetic.

Everything that depends on a magnitude is settled here, on the host and in float64. Pillow steps through an affine map
with nearest neighbors in one of two ways: in 16.16 fixed point, or, for pure shifts and for coordinates that fixed
point cannot hold, in float64 by repeated addition.
"""

import math

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int, Int32, Int64, UInt8
from numpy import ndarray
from torch import Tensor

GEOMETRIC = ("rotate", "shear_x", "shear_y", "translate_x", "translate_y")

_ONE = 65536.0  # 1 in 16.16 fixed point
_FIXED_POINT_LIMIT = 32768.0


def affine_matrices(
    name: str, magnitudes: Float64[ndarray, " n"], *, height: int, width: int
) -> Float64[ndarray, "n 6"]:
    """Pillow's `AFFINE` data, from a pixel of the result to the pixel that it shows."""
    matrices = np.zeros((len(magnitudes), 6))
    matrices[:, 0] = matrices[:, 4] = 1.0
    if name == "rotate":
        rows = [rotation_matrix(angle, height=height, width=width) for angle in magnitudes.tolist()]
        matrices = np.array(rows).reshape(-1, 6)
    elif name == "shear_x":
        matrices[:, 1] = magnitudes
    elif name == "shear_y":
        matrices[:, 3] = magnitudes
    elif name == "translate_x":
        matrices[:, 2] = magnitudes * width
    elif name == "translate_y":
        matrices[:, 5] = magnitudes * height
    return matrices


def rotation_matrix(angle: float, *, height: int, width: int) -> tuple[float, float, float, float, float, float]:
    """The matrix of `Image.rotate`, to its last digit: its decimal rounding is Python's, not NumPy's."""
    radians = -math.radians(angle % 360.0)
    cos, sin = round(math.cos(radians), 15), round(math.sin(radians), 15)
    x, y = width / 2, height / 2
    return (cos, sin, (cos * -x + sin * -y) + x, -sin, cos, (-sin * -x + cos * -y) + y)


def is_fixed_point(matrices: Float64[ndarray, "n 6"], *, height: int, width: int) -> Bool[ndarray, " n"]:
    """Which maps Pillow steps through in fixed point: those that turn or shear and whose corners fit."""
    fits: ndarray = (matrices[:, 1] != 0) | (matrices[:, 3] != 0)
    for x, y in ((0, 0), (width, height), (0, height), (width, 0)):
        for row in (matrices[:, :3], matrices[:, 3:]):
            fits &= np.abs(x * row[:, 0] + y * row[:, 1] + row[:, 2]) < _FIXED_POINT_LIMIT
    return fits


def fixed_point(matrices: Float64[ndarray, "n 6"]) -> Int32[ndarray, "n 6"]:
    """Coefficients in 16.16 fixed point, taken at pixel centers."""
    coefficients: ndarray = np.floor(_scaled(matrices)).astype(np.int32)
    return coefficients


def fixed_point_rotations(angles: Float64[ndarray, " n"], *, height: int, width: int) -> Int32[ndarray, "n 6"]:
    """As `fixed_point(affine_matrices("rotate", …))`, many at once.

    The decimal rounding moves a coefficient by less than 1e-12 of the image's size: it can only matter where the
    fixed-point rounding is that close to a tie, and there the matrix is computed to its last digit.
    """
    radians = -np.radians(angles % 360.0)
    cos, sin = np.cos(radians), np.sin(radians)
    x, y = width / 2, height / 2
    scaled = _scaled(np.stack([cos, sin, x - cos * x - sin * y, -sin, cos, y + sin * x - cos * y], axis=1))
    near_tie = (np.abs(scaled - np.rint(scaled)) < 1e-9 * (height + width)).any(axis=1)
    coefficients: ndarray = np.floor(scaled).astype(np.int32)
    exact = affine_matrices("rotate", angles[near_tie], height=height, width=width)
    coefficients[near_tie] = fixed_point(exact)
    return coefficients


def fixed_point_shifts(shifts: Float64[ndarray, " n"]) -> Int32[ndarray, " n"]:
    """The constant coefficient of a shift by whole pixels, the nearest to these.

    Pillow adds 1.0 to the first coordinate again and again; that sum is exact, and equals this, when the shift has
    single precision or less.
    """
    coefficients: ndarray = (np.floor(shifts + 0.5) * _ONE).astype(np.int32)
    return coefficients


def source_index_by_addition(matrices: Float64[ndarray, "n 6"], *, height: int, width: int) -> Int64[ndarray, "n h w"]:
    """Where each pixel comes from, added up in float64; an index into an image framed by one black pixel."""
    coordinates = []
    for row in (matrices[:, :3], matrices[:, 3:]):
        steps = np.empty((len(row), height, width))
        steps[:, 0, 0] = row[:, 2] + row[:, 1] * 0.5 + row[:, 0] * 0.5
        steps[:, 1:, 0] = row[:, 1, None]
        steps[:, :, 0] = np.add.accumulate(steps[:, :, 0], axis=1)
        steps[:, :, 1:] = row[:, 0, None, None]
        coordinates.append(np.floor(np.add.accumulate(steps, axis=2)))
    columns, rows = np.clip(coordinates[0], -1, width), np.clip(coordinates[1], -1, height)
    index: ndarray = ((rows + 1) * (width + 2) + columns + 1).astype(np.int64)
    return index


def copied_rows(
    images: UInt8[Tensor, "N c rows columns"],
    sources: Int64[Tensor, " n"],
    rows: Int[Tensor, "n h"],
    columns: Int[Tensor, "n h"],
    *,
    width: int,
) -> UInt8[Tensor, "n c h width"]:
    """In row y of each result, `width` pixels of its source's row `rows[y]`, from the column `columns[y]` on."""
    c, height, stride = images.shape[1:]
    channels = sources[:, None, None] * c + torch.arange(c, device=images.device)[:, None]
    starts = (channels * height + rows[:, None]) * stride + columns[:, None]
    # Seen from each of its pixels the images are one row: rows that overlap can be selected like any others.
    copies = images.flatten().unfold(0, width, 1).index_select(0, starts.flatten())
    return copies.view(len(sources), c, -1, width)


def _scaled(matrices: Float64[ndarray, "n 6"]) -> Float64[ndarray, "n 6"]:
    at_centers = matrices.copy()
    at_centers[:, 2] = matrices[:, 2] + matrices[:, 0] * 0.5 + matrices[:, 1] * 0.5
    at_centers[:, 5] = matrices[:, 5] + matrices[:, 3] * 0.5 + matrices[:, 4] * 0.5
    scaled: ndarray = at_centers * _ONE + 0.5
    return scaled
