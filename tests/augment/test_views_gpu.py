"""The GPU's kernel against the CPU's batched operations."""

import numpy as np
import pytest
import torch

from laplacenet.augment import AugmentConfig, ViewParameters, make_views, sample_views, shrunk, strong_views_uint8
from laplacenet.augment.sampling import FIRST_SAMPLE, SAMPLE_COLUMNS
from laplacenet.data import ChannelStatistics
from laplacenet.runtime import stream

pytestmark = pytest.mark.gpu

STATISTICS = {
    1: ChannelStatistics((0.2,), (0.4,)),
    3: ChannelStatistics((0.49, 0.48, 0.45), (0.25, 0.24, 0.26)),
}


def pictures(n: int, c: int, h: int, w: int) -> torch.Tensor:
    """Noise, narrow and wide in its levels; the first picture is flat."""
    rng = np.random.default_rng(c * h * w)
    low = rng.integers(0, 128, (n, c, 1, 1))
    levels = rng.integers(low, low + rng.integers(2, 128, (n, c, 1, 1)), (n, c, h, w))
    levels[0] = 77
    return torch.from_numpy(levels.astype(np.uint8))


def sampled(n: int, h: int, w: int) -> ViewParameters:
    return sample_views(n, n_samples=2, height=h, width=w, config=AugmentConfig(), rng=stream(5, "gpu"))


def on_gpu(parameters: ViewParameters) -> ViewParameters:
    return parameters.to("cuda")


@pytest.mark.parametrize(
    ("n", "shape"),
    [
        (3000, (3, 32, 32)),
        (600, (3, 84, 84)),
        (3000, (1, 8, 8)),
        (600, (3, 20, 33)),
        (200, (1, 1, 1)),
        (200, (3, 2, 5)),
    ],
)
def test_the_kernel_equals_the_batched_operations_in_every_pixel(n: int, shape: tuple[int, int, int]) -> None:
    images, parameters, slots = pictures(50, *shape), sampled(n, *shape[1:]), torch.arange(n) % 50
    for sample in range(2):
        assert len(parameters.integers[:, FIRST_SAMPLE + sample * SAMPLE_COLUMNS].unique()) == 14
    ours = strong_views_uint8(images.cuda(), slots.cuda(), on_gpu(parameters)).cpu()
    expected = strong_views_uint8(images, slots, parameters)
    differing = (ours != expected).flatten(1).any(dim=1).nonzero().flatten()
    assert not len(differing), parameters.integers[differing[:3]]


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (3, 84, 84)])
def test_normalized_views_are_within_one_step_of_bf16_and_channels_last(shape: tuple[int, int, int]) -> None:
    images, parameters, slots = pictures(20, *shape), sampled(300, *shape[1:]), torch.arange(300) % 20
    statistics = STATISTICS[shape[0]]
    ours = make_views(images.cuda(), slots.cuda(), on_gpu(parameters), statistics=statistics)
    assert ours.dtype == torch.bfloat16
    assert ours.is_contiguous(memory_format=torch.channels_last)
    expected = make_views(images, slots, parameters, statistics=statistics)
    torch.testing.assert_close(ours.cpu().float(), expected, rtol=2**-8, atol=1e-6)


def test_views_are_captured_and_replayed_with_other_slots_and_parameters() -> None:
    images, slots = pictures(50, 3, 32, 32).cuda(), torch.zeros(300, dtype=torch.int64, device="cuda")
    parameters = on_gpu(sampled(300, 32, 32))
    statistics = STATISTICS[3]
    make_views(images, slots, parameters, statistics=statistics)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = make_views(images, slots, parameters, statistics=statistics)
    others = sampled(600, 32, 32)[300:]
    slots.copy_(torch.arange(300) % 50)
    parameters.integers.copy_(others.integers)
    parameters.factors.copy_(others.factors)
    graph.replay()
    expected = make_views(images, slots, on_gpu(others), statistics=statistics)
    assert torch.equal(captured, expected)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 20, 33), (3, 84, 84), (2, 3, 2)])
@pytest.mark.parametrize("scale", [0.75, 0.5, 0.33, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_views_are_scaled_down_as_on_a_cpu(shape: tuple[int, int, int], scale: float, dtype: torch.dtype) -> None:
    views = torch.randn(7, *shape).to(dtype).contiguous(memory_format=torch.channels_last)
    small, expected = shrunk(views.cuda(), scale), shrunk(views.float(), scale)
    assert small.dtype == dtype
    assert small.is_contiguous(memory_format=torch.channels_last)
    # a weight is a difference of positions up to the side, which single precision rounds at 84 pixels by 4e-6
    tolerance = 3e-5 if dtype == torch.float32 else 2**-8
    torch.testing.assert_close(small.cpu().float(), expected, rtol=tolerance, atol=tolerance)


def test_three_hundred_views_take_less_than_sixty_microseconds() -> None:
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("the limit is for an H100 or H200")
    images, slots = pictures(50, 3, 32, 32).cuda(), (torch.arange(300) % 50).cuda()
    parameters = on_gpu(sampled(300, 32, 32))
    make_views(images, slots, parameters, statistics=STATISTICS[3])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(100):
            make_views(images, slots, parameters, statistics=STATISTICS[3])
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    graph.replay()
    start.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    assert start.elapsed_time(end) / 100 < 0.060
