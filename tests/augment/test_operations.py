"""The fourteen operations against Pillow, in every uint8 pixel."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from references_augment import pillow_operations
from sklearn.datasets import load_digits

from laplacenet.augment import OPERATIONS, apply_operation
from laplacenet.augment.operations import require_uint8_images
from laplacenet.runtime import InputError

PAPER_RANGE = {
    "brightness": (0.05, 0.95),
    "color": (0.05, 0.95),
    "contrast": (0.05, 0.95),
    "sharpness": (0.05, 0.95),
    "posterize": (4, 8),
    "rotate": (-30, 30),
    "shear_x": (-0.3, 0.3),
    "shear_y": (-0.3, 0.3),
    "solarize": (0, 1),
    "translate_x": (-0.3, 0.3),
    "translate_y": (-0.3, 0.3),
}
PILLOW_RANGE = PAPER_RANGE | {
    "brightness": (-3, 300),
    "color": (-3, 300),
    "contrast": (-3, 300),
    "sharpness": (-3, 300),
    "posterize": (1, 8.999),
    "rotate": (-1000, 1000),
    "shear_x": (-70000, 70000),
    "shear_y": (-70000, 70000),
    "solarize": (-1, 2),
    "translate_x": (-5, 5),
    "translate_y": (-5, 5),
}
AT_THE_EDGE = {
    "rotate": [0, -0.0, 30, 45, 60, 90, 120, 180, 270, 360, -90, -180, 450, 1e-14, 89.99999999999999, 1e-300, 179.9999],
    "shear_x": [0, 1e-30, 0.5, -0.5, 1, -1, 2, 1 / 65536, 1 / 131072, 32767, 32768, 1e6, -1e6, 1e300],
    "shear_y": [0, 1e-30, 0.5, -0.5, 1, -1, 2, 1 / 65536, 1 / 131072, 32767, 32768, 1e6, -1e6, 1e300],
    "translate_x": [0, 0.5, -0.5, 1, -1, 0.0625, 0.49999999999999994, -0.050000000000000003, 0.1, 0.3, 1e9, 1e300],
    "translate_y": [0, 0.5, -0.5, 1, -1, 0.0625, 0.49999999999999994, -0.050000000000000003, 0.1, 0.3, 1e9, 1e300],
    "posterize": [1, 2, 3, 4, 5, 6, 7, 8, 4.999, 8.9],
    "solarize": [0, 1, 0.5, 128 / 255, 1 / 256, 0.00390624, 0.999, 2, -1],
    "brightness": [0, 1, 0.5, 1 / 3, -1, 2, 1e10, 1 + 1e-9],
    "color": [0, 1, 0.5, 1 / 3, -1, 2, 1e10, 1 + 1e-9],
    "contrast": [0, 1, 0.5, 1 / 3, -1, 2, 1e10, 1 + 1e-9],
    "sharpness": [0, 1, 0.5, 1 / 3, -1, 2, 1e10, 1 + 1e-9],
}


def assert_equal_to_pillow(name: str, images: torch.Tensor, magnitudes: torch.Tensor) -> None:
    ours = apply_operation(name, images, magnitudes)
    assert ours.dtype == torch.uint8
    assert torch.equal(ours, pillow_operations(name, images, magnitudes))


def noise(rng: np.random.Generator, n: int, c: int, h: int, w: int) -> torch.Tensor:
    """Images whose levels span the whole range, part of it, two levels or one."""
    low = rng.integers(0, 256, (n, c, 1, 1))
    high = low + (rng.integers(0, 256, (n, c, 1, 1)) * rng.choice([0, 1, 1, 1], (n, c, 1, 1))).clip(max=255 - low)
    levels = rng.integers(low, high + 1, (n, c, h, w))
    levels[: n // 4] = rng.integers(0, 256, levels[: n // 4].shape)
    return torch.from_numpy(levels.astype(np.uint8))


@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_equals_pillow_over_the_papers_range(name: str, c: int) -> None:
    rng = np.random.default_rng(OPERATIONS.index(name))
    for h, w, n in [(32, 32, 200), (84, 84, 12), (17, 29, 40)]:
        magnitudes = rng.uniform(*PAPER_RANGE.get(name, (0, 1)), n)
        assert_equal_to_pillow(name, noise(rng, n, c, h, w), torch.from_numpy(magnitudes))


@pytest.mark.parametrize("name", OPERATIONS)
@given(seed=st.integers(0, 2**32), h=st.integers(1, 12), w=st.integers(1, 12), c=st.sampled_from([1, 3]))
@settings(max_examples=25)
def test_an_operation_equals_pillow_at_any_size_and_magnitude(name: str, seed: int, h: int, w: int, c: int) -> None:
    rng = np.random.default_rng(seed)
    low, high = PILLOW_RANGE.get(name, (0, 1))
    spread = rng.uniform(0, 1, 12) ** 4 * rng.choice([-1, 1], 12)
    magnitudes = (spread * max(-low, high)).clip(low, high)
    assert_equal_to_pillow(name, noise(rng, 12, c, h, w), torch.from_numpy(magnitudes))


@pytest.mark.parametrize("name", sorted(AT_THE_EDGE))
@pytest.mark.parametrize("size", [(1, 1), (2, 2), (1, 7), (20, 20), (10, 32)])
def test_an_operation_equals_pillow_at_special_magnitudes(name: str, size: tuple[int, int]) -> None:
    magnitudes = torch.tensor(AT_THE_EDGE[name], dtype=torch.float64)
    for c in (1, 3):
        images = noise(np.random.default_rng(3), len(magnitudes), c, *size)
        assert_equal_to_pillow(name, images, magnitudes)


@pytest.mark.parametrize("name", ["translate_x", "translate_y"])
def test_a_shift_that_rounds_on_the_way_equals_pillow(name: str) -> None:
    """Just below half a pixel the coordinates skip one: Pillow adds 1.0 again and again, and so do we."""
    images = noise(np.random.default_rng(5), 4, 3, 10, 10)
    shifts = torch.tensor([0.49999999999999994, -0.50000000000000011, 2.4999999999999996, -3.5000000000000004])
    assert_equal_to_pillow(name, images, shifts.double() / 10)


@pytest.mark.parametrize("name", OPERATIONS)
def test_real_digits_equal_pillow(name: str) -> None:
    digits = torch.from_numpy((load_digits().images[:60] * 15.9375).astype(np.uint8))[:, None]
    rng = np.random.default_rng(11)
    magnitudes = torch.from_numpy(rng.uniform(*PAPER_RANGE.get(name, (0, 1)), len(digits)))
    assert_equal_to_pillow(name, digits, magnitudes)
    assert_equal_to_pillow(name, digits.expand(-1, 3, -1, -1), magnitudes.float())


@pytest.mark.parametrize("level", [0, 1, 127, 254, 255])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_flat_image_equals_pillow(name: str, level: int) -> None:
    magnitudes = torch.full((1,), PAPER_RANGE.get(name, (0, 1))[1])
    assert_equal_to_pillow(name, torch.full((1, 3, 9, 9), level, dtype=torch.uint8), magnitudes)


def test_there_are_fourteen_operations_and_all_are_known() -> None:
    assert len(OPERATIONS) == 14
    assert list(OPERATIONS) == sorted(OPERATIONS)


def test_the_images_given_are_left_as_they_were() -> None:
    images = noise(np.random.default_rng(1), 5, 3, 9, 9)
    before = images.clone()
    for name in OPERATIONS:
        apply_operation(name, images, torch.full((5,), PAPER_RANGE.get(name, (0, 1))[1])).zero_()
    assert torch.equal(images, before)


def test_no_images_give_no_images() -> None:
    for name in OPERATIONS:
        assert apply_operation(name, torch.empty(0, 3, 4, 4, dtype=torch.uint8), []).shape == (0, 3, 4, 4)


def test_an_unknown_operation_is_refused_with_the_accepted_names() -> None:
    with pytest.raises(InputError, match=r"'invert'.*autocontrast.*translate_y"):
        apply_operation("invert", torch.zeros(1, 3, 4, 4, dtype=torch.uint8), [1.0])


@pytest.mark.parametrize(
    "images",
    [
        torch.zeros(1, 3, 4, 4),
        torch.zeros(1, 2, 4, 4, dtype=torch.uint8),
        torch.zeros(3, 4, 4, dtype=torch.uint8),
        torch.zeros(1, 3, 0, 4, dtype=torch.uint8),
        np.zeros((1, 3, 4, 4), np.uint8),
    ],
)
def test_images_of_another_kind_are_refused(images: object) -> None:
    with pytest.raises(InputError, match="uint8 tensor"):
        require_uint8_images(images)


def test_magnitudes_that_do_not_fit_are_refused() -> None:
    images = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
    with pytest.raises(InputError, match="2 magnitudes"):
        apply_operation("rotate", images, [1.0])
    with pytest.raises(InputError, match=r"1 to 8 bits; got 0\.9"):
        apply_operation("posterize", images, [4, 0.9])
    for name in ("rotate", "brightness", "solarize", "posterize"):
        with pytest.raises(InputError, match="finite"):
            apply_operation(name, images, [0.5, float("nan")])
