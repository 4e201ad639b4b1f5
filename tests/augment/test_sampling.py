"""What is drawn for a view, and how it is carried."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from laplacenet.augment import OPERATIONS, AugmentConfig, ViewParameters, sample_views
from laplacenet.augment.geometry import affine_matrices, fixed_point, fixed_point_rotations
from laplacenet.augment.sampling import MAGNITUDE_RANGES, Draws, draw_views, resolve_views
from laplacenet.augment.views import make_views
from laplacenet.data import ChannelStatistics
from laplacenet.runtime import InputError, stream

DEFAULTS = AugmentConfig()


def draws_of(n: int, *, n_samples: int = 2, config: AugmentConfig = DEFAULTS, side: int = 32) -> Draws:
    return draw_views(n, n_samples=n_samples, height=side, width=side, config=config, rng=stream(0, "draws"))


def test_every_operation_is_drawn_equally_often() -> None:
    counts = np.bincount(draws_of(20_000).operations.ravel(), minlength=14)
    assert counts.min() > 0.9 * 40_000 / 14
    assert counts.max() < 1.1 * 40_000 / 14


def test_the_two_samples_are_independent() -> None:
    first, second = draws_of(20_000).operations.T
    assert abs(np.mean(first == second) - 1 / 14) < 0.01


@pytest.mark.parametrize("name", sorted(MAGNITUDE_RANGES))
def test_magnitudes_fill_the_papers_range_evenly(name: str) -> None:
    draws = draws_of(60_000)
    values = draws.magnitudes[draws.operations == OPERATIONS.index(name)]
    low, high = MAGNITUDE_RANGES[name]
    assert values.min() >= np.float32(low)
    assert values.max() <= high
    counts, _ = np.histogram(values, bins=5, range=(low, high))
    assert counts.min() > 0.9 * len(values) / 5


class AtOneEnd(np.random.Generator):
    """Draws that are rare: every uniform number is the same one, at an end of [0, 1)."""

    value = 0.0

    def random(self, size: Any = None, *_: Any, **__: Any) -> Any:
        return np.full(() if size is None else size, self.value)


@pytest.mark.parametrize("value", [0.0, 5e-324, 1 - 2**-24, 1 - 2**-25, 1 - 2**-53])
def test_the_rarest_draws_stay_within_their_ranges_and_make_views(value: float) -> None:
    rng = AtOneEnd(np.random.PCG64(0))
    rng.value = value
    draws = draw_views(2_000, n_samples=2, height=32, width=32, config=DEFAULTS, rng=rng)
    for name, (low, high) in MAGNITUDE_RANGES.items():
        values = draws.magnitudes[draws.operations == OPERATIONS.index(name)]
        assert np.float32(low) <= values.min() <= values.max() < high, name
    images = torch.randint(256, (2_000, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    parameters = resolve_views(draws, height=32, width=32)
    views = make_views(images, torch.arange(2_000), parameters, statistics=ChannelStatistics((0.5,) * 3, (0.25,) * 3))
    assert bool(views.isfinite().all())


def test_posterize_keeps_each_of_four_to_eight_bits() -> None:
    draws = draws_of(60_000)
    bits = np.trunc(draws.magnitudes[draws.operations == OPERATIONS.index("posterize")])
    assert set(bits) == {4, 5, 6, 7, 8}


@pytest.mark.parametrize("n_samples", [0, 1, 2])
def test_samples_that_a_view_lacks_are_identity(n_samples: int) -> None:
    operations = draws_of(500, n_samples=n_samples).operations
    identity = OPERATIONS.index("identity")
    assert (operations[:, n_samples:] == identity).all()
    assert all((operations[:, sample] != identity).any() for sample in range(n_samples))


def test_squares_are_at_most_half_as_wide_and_stay_inside() -> None:
    top, left, bottom, right = draws_of(20_000).squares.T
    heights, widths = bottom - top, right - left
    assert (heights.min(), widths.min()) == (0, 0)
    assert (heights.max(), widths.max()) == (16, 16)
    assert min(top.min(), left.min()) == 0
    assert max(bottom.max(), right.max()) == 32
    inside = (top > 0) & (left > 0) & (bottom < 32) & (right < 32)
    assert (heights == widths)[inside].all()
    assert (heights != widths)[~inside].any()


def test_without_cutout_no_square_has_an_area() -> None:
    top, left, bottom, right = draws_of(1000, config=AugmentConfig(cutout=0.0)).squares.T
    assert ((bottom == top) | (right == left)).all()


@pytest.mark.parametrize(("side", "pad"), [(32, 4), (84, 8), (8, 1), (64, 8), (1, 0), (7, 0)])
def test_the_crop_moves_by_the_pad_and_no_further(side: int, pad: int) -> None:
    offsets = draws_of(2000, side=side).offsets
    assert set(offsets.ravel()) == set(range(-pad, pad + 1))


def test_half_of_the_views_are_mirrored_unless_told_otherwise() -> None:
    assert abs(draws_of(10_000).is_flipped.mean() - 0.5) < 0.02
    assert not draws_of(1000, config=AugmentConfig(flip=False)).is_flipped.any()


def test_the_same_stream_gives_the_same_parameters() -> None:
    def sample(seed: int) -> ViewParameters:
        return sample_views(50, n_samples=2, height=32, width=32, config=AugmentConfig(), rng=stream(seed, "views"))

    assert torch.equal(sample(1).integers, sample(1).integers)
    assert torch.equal(sample(1).factors, sample(1).factors)
    assert not torch.equal(sample(1).integers, sample(2).integers)


def test_parameters_are_reshaped_indexed_and_concatenated_by_view() -> None:
    one, two = (
        sample_views(6, n_samples=n, height=8, width=8, config=AugmentConfig(), rng=stream(n, "views")) for n in (1, 2)
    )
    steps = ViewParameters.concatenate([one.reshape(3, 2), two.reshape(3, 2)], axis=1)
    assert len(steps) == 3
    assert torch.equal(steps[1].integers, torch.cat([one.integers[2:4], two.integers[2:4]]))
    assert torch.equal(steps.reshape(12)[7].factors, two.factors[3])
    assert torch.equal(steps.to("cpu")[:, :2].reshape(6).factors, one.factors)


@given(
    angles=st.lists(st.floats(-400, 400) | st.integers(-24, 24).map(lambda k: 15.0 * k), min_size=1, max_size=20),
    height=st.integers(1, 100),
    width=st.integers(1, 100),
)
def test_many_rotations_at_once_equal_pillows_own_rounding(angles: list[float], height: int, width: int) -> None:
    degrees = np.array(angles)
    exact = fixed_point(affine_matrices("rotate", degrees, height=height, width=width))
    assert np.array_equal(fixed_point_rotations(degrees, height=height, width=width), exact)


def test_a_rotation_near_a_tie_is_settled_by_the_exact_matrix() -> None:
    # the sine of this angle is half a fixed-point step, where the last digit decides
    degrees = np.degrees(np.arcsin(np.array([0.5, 1.5, 2.5, 7.5]) / 65536))
    degrees = np.concatenate([np.nextafter(degrees, -1), degrees, np.nextafter(degrees, 1)])
    exact = fixed_point(affine_matrices("rotate", degrees, height=32, width=32))
    assert np.array_equal(fixed_point_rotations(degrees, height=32, width=32), exact)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_labeled_samples": 3}, r"augment\.n_labeled_samples = 3; it must be 0, 1 or 2"),
        ({"n_unlabeled_samples": -1}, "0, 1 or 2"),
        ({"cutout": 1.5}, r"augment\.cutout = 1\.5; it must lie between 0 \(none\) and 1, as a share of the width"),
        ({"cutout": float("nan")}, "share of the width"),
        ({"pad": -1}, r"augment\.pad = -1; it must be none or .* 0 or more"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        AugmentConfig(**settings)


def test_a_pad_as_large_as_the_image_is_refused() -> None:
    with pytest.raises(InputError, match="at most 7"):
        AugmentConfig(pad=8).pad_for(8, 12)
    assert AugmentConfig(pad=7).pad_for(8, 12) == 7
