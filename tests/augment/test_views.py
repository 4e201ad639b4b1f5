"""Whole views against Pillow, and their normalization."""

import numpy as np
import pytest
import torch
from PIL import Image
from references_augment import pillow_operations, pillow_view
from sklearn.datasets import load_digits

from laplacenet.augment import (
    AugmentConfig,
    make_views,
    normalized,
    sample_views,
    shrunk,
    strong_views_uint8,
    vector_views,
)
from laplacenet.augment.operations import APPLY, resolve_magnitudes
from laplacenet.augment.sampling import MAGNITUDE_RANGES, draw_views, resolve_views
from laplacenet.data import ChannelStatistics
from laplacenet.runtime import InputError, stream

STATISTICS = {
    1: ChannelStatistics((0.2,), (0.4,)),
    3: ChannelStatistics((0.49, 0.48, 0.45), (0.25, 0.24, 0.26)),
}


def random_images(n: int, c: int, h: int, w: int) -> torch.Tensor:
    """Smooth pictures with some noise, each with its own range of levels."""
    rng = np.random.default_rng(h * w)
    y, x = np.mgrid[:h, :w] / max(h, w)
    waves = np.sin(rng.uniform(1, 9, (n, c, 1, 1)) * x + rng.uniform(1, 9, (n, c, 1, 1)) * y)
    levels = 128 + 100 * rng.uniform(0.1, 1, (n, c, 1, 1)) * waves + rng.normal(0, 9, (n, c, h, w))
    return torch.from_numpy(levels.clip(0, 255).astype(np.uint8))


@pytest.mark.parametrize("n_samples", [0, 1, 2])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (3, 20, 33), (3, 84, 84)])
def test_a_view_equals_pillow_from_flip_to_cutout(n_samples: int, shape: tuple[int, int, int]) -> None:
    _, h, w = shape
    n = 60 if h > 40 else 300
    config, images = AugmentConfig(), random_images(20, *shape)
    draws = draw_views(n, n_samples=n_samples, height=h, width=w, config=config, rng=stream(4, "views", *shape))
    slots = torch.from_numpy(np.random.default_rng(0).integers(0, 20, n))
    ours = strong_views_uint8(images, slots, resolve_views(draws, height=h, width=w))
    for view, slot in enumerate(slots):
        expected = pillow_view(images[slot], draws, view, pad=config.pad_for(h, w))
        assert torch.equal(ours[view], expected), (view, draws.operations[view], draws.magnitudes[view])


def magnitudes_at_ties(name: str, side: int) -> np.ndarray:
    """Where rounding decides, which draws hit once in millions: the range's ends, nothing, halves of pixels and levels,
    halves of a fixed-point unit, sines that are fractions, and the numbers of single precision on either side of each.
    """
    low, high = np.float32(MAGNITUDE_RANGES[name])
    some = np.arange(-30, 31)
    ties = [low, high, 0, 1e-45, -1e-45, 1e-16, -1e-16, *(some + 0.5) / side, *some / side, *(some + 0.5) / 65536]
    ties += [*np.arange(257) / 256, *np.degrees(np.arcsin(some / 60)), *range(4, 9)]
    single = np.array(ties, dtype=np.float32)
    near = np.concatenate([single, np.nextafter(single, np.float32(-99)), np.nextafter(single, np.float32(99))])
    return np.unique(near[(near >= low) & (near < high)]).astype(np.float64)


@pytest.mark.parametrize("size", [(32, 32), (84, 84), (33, 31), (2, 3)])
@pytest.mark.parametrize("name", sorted(MAGNITUDE_RANGES))
def test_the_rarest_magnitudes_make_pillows_pixels(name: str, size: tuple[int, int]) -> None:
    height, width = size
    magnitudes = magnitudes_at_ties(name, height if name == "translate_y" else width)
    image = torch.randint(256, (1, 3, height, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    images = image.expand(len(magnitudes), -1, -1, -1)
    coefficients, factors = resolve_magnitudes(name, magnitudes, height=height, width=width)
    views = APPLY[name](images, torch.from_numpy(coefficients), torch.from_numpy(factors))
    assert torch.equal(views, pillow_operations(name, images, torch.from_numpy(magnitudes)))


def test_views_of_real_digits_equal_pillow() -> None:
    digits = torch.from_numpy((load_digits().images * 15.9375).astype(np.uint8))[:, None]
    config = AugmentConfig(flip=False)
    draws = draw_views(300, n_samples=2, height=8, width=8, config=config, rng=stream(1, "digits"))
    ours = strong_views_uint8(digits, torch.arange(300), resolve_views(draws, height=8, width=8))
    assert all(torch.equal(ours[i], pillow_view(digits[i], draws, i, pad=1)) for i in range(300))


@pytest.mark.parametrize("c", [1, 3])
def test_views_are_normalized_by_channel(c: int) -> None:
    images, statistics = random_images(9, c, 16, 16), STATISTICS[c]
    parameters = sample_views(9, n_samples=2, height=16, width=16, config=AugmentConfig(), rng=stream(0, "v"))
    slots = torch.arange(9).flip(0)
    mean = torch.tensor(statistics.mean, dtype=torch.float64)[:, None, None]
    std = torch.tensor(statistics.std, dtype=torch.float64)[:, None, None]
    plain = strong_views_uint8(images, slots, parameters)
    ours = make_views(images, slots, parameters, statistics=statistics)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours.double(), (plain.double() / 255 - mean) / std, rtol=0, atol=1e-6)
    torch.testing.assert_close(normalized(plain, statistics), ours, rtol=0, atol=0)


def test_statistics_of_other_channels_are_refused() -> None:
    with pytest.raises(InputError, match="1 channels need as many means; got 3"):
        normalized(random_images(2, 1, 8, 8), STATISTICS[3])


def test_without_augmentation_a_view_is_the_image() -> None:
    images = random_images(10, 3, 32, 32)
    config = AugmentConfig(n_labeled_samples=0, n_unlabeled_samples=0, cutout=0.0, flip=False, pad=0)
    parameters = sample_views(10, n_samples=0, height=32, width=32, config=config, rng=stream(0, "v"))
    assert torch.equal(strong_views_uint8(images, torch.arange(10), parameters), images)


def test_a_view_does_not_depend_on_its_neighbors() -> None:
    images = random_images(10, 3, 32, 32)
    parameters = sample_views(40, n_samples=2, height=32, width=32, config=AugmentConfig(), rng=stream(0, "v"))
    slots = torch.arange(40) % 10
    together = strong_views_uint8(images, slots, parameters)
    for i in range(40):
        assert torch.equal(strong_views_uint8(images, slots[i : i + 1], parameters[i : i + 1])[0], together[i])


def test_parameters_for_another_number_of_views_are_refused() -> None:
    parameters = sample_views(3, n_samples=2, height=8, width=8, config=AugmentConfig(), rng=stream(0, "v"))
    with pytest.raises(InputError, match="2 views were asked for, but there are parameters for 3"):
        strong_views_uint8(random_images(4, 1, 8, 8), torch.arange(2), parameters)


def test_no_views_are_an_empty_batch() -> None:
    parameters = sample_views(0, n_samples=2, height=8, width=8, config=AugmentConfig(), rng=stream(0, "v"))
    views = make_views(random_images(4, 3, 8, 8), torch.arange(0), parameters, statistics=STATISTICS[3])
    assert (
        views.shape == strong_views_uint8(random_images(4, 3, 8, 8), torch.arange(0), parameters).shape == (0, 3, 8, 8)
    )


def test_views_of_vectors_are_their_rows() -> None:
    vectors = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    assert torch.equal(vector_views(vectors, torch.tensor([3, 3, 0])), vectors[[3, 3, 0]])


@pytest.mark.parametrize(("shape", "scale", "size"), [((32, 32), 0.75, (24, 24)), ((20, 33), 0.5, (10, 16))])
def test_shrunk_views_are_pillows(shape: tuple[int, int], scale: float, size: tuple[int, int]) -> None:
    views = random_images(3, 2, *shape).float()
    ours = shrunk(views, scale)
    assert ours.shape == (3, 2, *size)
    for image, small in zip(views.flatten(0, 1), ours.flatten(0, 1), strict=True):
        expected = Image.fromarray(image.numpy()).resize(size[::-1], Image.Resampling.BILINEAR)
        np.testing.assert_allclose(small, np.asarray(expected), atol=1e-3)
    in_other_memory = shrunk(views.contiguous(memory_format=torch.channels_last), scale)
    assert in_other_memory.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(in_other_memory, ours)
