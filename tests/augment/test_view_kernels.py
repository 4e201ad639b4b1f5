"""Without a GPU: the kernels of views and of smaller pictures, interpreted, against the operations of a CPU."""

import pytest
import torch
from references_kernels import interpreted, random_maps

from laplacenet.augment import AugmentConfig, sample_views, shrunk, strong_views_uint8
from laplacenet.augment.sampling import FIRST_SAMPLE, SAMPLE_COLUMNS
from laplacenet.runtime import stream

pytestmark = interpreted


@pytest.mark.parametrize("shape", [(3, 6, 5), (1, 8, 8), (3, 1, 1)])
def test_views_equal_the_batched_operations_in_every_pixel(shape: tuple[int, int, int]) -> None:
    from laplacenet.augment.kernel import uint8_views

    images = torch.randint(256, (7, *shape), dtype=torch.uint8)
    slots = torch.arange(60) % 7
    config, rng = AugmentConfig(), stream(5, "interpreted")
    parameters = sample_views(60, n_samples=2, height=shape[1], width=shape[2], config=config, rng=rng)
    for sample in range(2):
        assert len(parameters.integers[:, FIRST_SAMPLE + sample * SAMPLE_COLUMNS].unique()) == 14
    expected = strong_views_uint8(images, slots, parameters)
    differing = (uint8_views(images, slots, parameters) != expected).flatten(1).any(dim=1).nonzero().flatten()
    assert not len(differing), parameters.integers[differing[:3]]


@pytest.mark.parametrize("shape", [(3, 16, 16), (1, 9, 9), (2, 3, 2)])
@pytest.mark.parametrize("scale", [0.75, 0.5, 0.33])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_pictures_are_scaled_down_as_torch_scales_them(
    shape: tuple[int, int, int], scale: float, dtype: torch.dtype
) -> None:
    from laplacenet.augment.shrink_kernel import shrink

    views = random_maps(3, *shape, dtype=dtype)
    expected = shrunk(views.float(), scale)
    small = shrink(views, (expected.shape[2], expected.shape[3]))
    assert small.dtype == dtype
    assert small.is_contiguous(memory_format=torch.channels_last)
    tolerance = 1e-5 if dtype == torch.float32 else 2**-10
    torch.testing.assert_close(small.float(), expected, rtol=tolerance, atol=tolerance)
