"""Views of images, made where the images lie: batched operations on a CPU, one kernel on a GPU."""

import functools
import itertools
import math

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor
from torch.nn import functional

from laplacenet.augment import eager
from laplacenet.augment.operations import require_uint8_images
from laplacenet.augment.sampling import ViewParameters
from laplacenet.data import ChannelStatistics
from laplacenet.runtime import InputError
from laplacenet.runtime.kernels import fits_eager_kernels, is_on_gpu
from laplacenet.runtime.threads import by_pieces

_CHUNK_BYTES = 1 << 22
_LEAST_BYTES = 1 << 20  # calls for fewer views than these take as long as the views themselves


def make_views(
    images: Tensor,
    slots: Int64[Tensor, " n"],
    parameters: ViewParameters,
    *,
    statistics: ChannelStatistics,
) -> Float[Tensor, "n c h w"]:
    """The views of `images[slots]`: flip, crop, RandAugment samples, cutout, normalization.

    In single precision on a CPU; on a GPU in bf16 if it has that, channels last, without synchronization and fit for
    capture.
    """
    _require_fit(images, slots, parameters)
    if is_on_gpu(images):
        from laplacenet.augment import kernel  # noqa: PLC0415  Triton is there only beside a GPU

        return kernel.normalized_views(images, slots, parameters, affine=_affine(statistics, images.shape[1]))
    views = torch.empty(len(slots), *images.shape[1:], dtype=torch.float32)

    def fill(chunk: slice) -> None:
        normalize_into(views[chunk], eager.uint8_views(images, slots[chunk], parameters[chunk]), statistics)

    by_pieces(fill, _chunks(images, len(slots)))
    return views


def strong_views_uint8(
    images: Tensor, slots: Int64[Tensor, " n"], parameters: ViewParameters
) -> UInt8[Tensor, "n c h w"]:
    """The views before normalization."""
    _require_fit(images, slots, parameters)
    if is_on_gpu(images):
        from laplacenet.augment import kernel  # noqa: PLC0415  Triton is there only beside a GPU

        return kernel.uint8_views(images, slots, parameters)
    return eager.uint8_views(images, slots, parameters)


def normalized(images: UInt8[Tensor, "n c h w"], statistics: ChannelStatistics) -> Float[Tensor, "n c h w"]:
    """(x/255 − mean)/std in each channel, in single precision."""
    return normalize_into(torch.empty(images.shape, dtype=torch.float32, device=images.device), images, statistics)


def normalize_into(
    out: Float[Tensor, "n c h w"], images: UInt8[Tensor, "n c h w"], statistics: ChannelStatistics
) -> Float[Tensor, "n c h w"]:
    """`normalized`, written to where it is wanted."""
    scales, offsets = _affine_tensors(statistics, images.shape[1], images.device)
    return out.copy_(images).mul_(scales).add_(offsets)  # in one type: mixed ones are many times slower on a CPU


def shrunk(views: Float[Tensor, "n c h w"], scale: float) -> Float[Tensor, "n c h2 w2"]:
    """The views scaled down by this factor, in the same memory format; on a GPU fit for capture."""
    size = shrunk_size(views.shape[2], views.shape[3], scale)
    if fits_eager_kernels(views) and not views.requires_grad:
        from laplacenet.augment.shrink_kernel import shrink  # noqa: PLC0415  Triton is there only beside a GPU

        return shrink(views, size)
    return functional.interpolate(views, size=size, mode="bilinear", antialias=True)


def shrunk_size(height: int, width: int, scale: float) -> tuple[int, int]:
    """The height and width of a picture that is scaled down by this factor."""
    return max(1, round(scale * height)), max(1, round(scale * width))


def vector_views(vectors: Float[Tensor, "N d"], slots: Int64[Tensor, " n"]) -> Float[Tensor, "n d"]:
    """Rows of vector data as they are: vectors have no augmentation."""
    return vectors[slots]


def _chunks(images: UInt8[Tensor, "N c h w"], n: int) -> list[slice]:
    """Equal slices of n views, small enough for a cache, and for all threads where there is enough to do."""
    n_bytes, n_threads = n * images.shape[1:].numel(), torch.get_num_threads()
    n_workers = min(n_threads, max(1, n_bytes // _LEAST_BYTES))
    n_chunks = n_workers * max(1, math.ceil(n_bytes / (_CHUNK_BYTES * n_workers)))
    bounds = [n * number // n_chunks for number in range(n_chunks + 1)]
    return [slice(start, stop) for start, stop in itertools.pairwise(bounds)]


@functools.lru_cache(maxsize=64)
def _affine_tensors(statistics: ChannelStatistics, n_channels: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Kept on the device: a copy from the host could not be captured."""
    scales, offsets = _affine(statistics, n_channels)
    pair = torch.tensor([scales, offsets], dtype=torch.float32, device=device)[:, :, None, None]
    return pair[0], pair[1]


def _affine(statistics: ChannelStatistics, n_channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The normalization of a channel as one product and one sum."""
    if len(statistics.mean) != n_channels:
        raise InputError(f"images with {n_channels} channels need as many means; got {len(statistics.mean)}")
    pairs = list(zip(statistics.mean, statistics.std, strict=True))
    return tuple(1 / (255 * std) for _, std in pairs), tuple(-mean / std for mean, std in pairs)


def _require_fit(images: Tensor, slots: Tensor, parameters: ViewParameters) -> None:
    require_uint8_images(images)
    if len(parameters) != len(slots):
        raise InputError(f"{len(slots)} views were asked for, but there are parameters for {len(parameters)}")
