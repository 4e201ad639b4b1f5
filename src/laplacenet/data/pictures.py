"""Many picture files as one tensor: resized to one size, decoded in threads; unreadable files are listed."""

import os
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from laplacenet.data.dataset import Skipped
from laplacenet.data.decoding import decode, image_size
from laplacenet.data.files import reason_of
from laplacenet.data.walking import PictureFile
from laplacenet.runtime import InputError, Monitor, NullMonitor

LARGEST_DEFAULT_SIZE = 96
LARGEST_SIZE = 1024
SIZE_STEP = 8
NO_MONITOR = NullMonitor()
Item = TypeVar("Item")
Result = TypeVar("Result")


def require_size(size: int | None) -> None:
    if size is not None and not 1 <= size <= LARGEST_SIZE:
        raise InputError(f"size must be a positive number of pixels, at most {LARGEST_SIZE}; got {size}")


def default_size(pictures: Sequence[PictureFile]) -> int:
    """One size for all, small enough to train on."""
    sizes = [size for size in _in_threads(_size_or_none, pictures) if size is not None]
    if not sizes:
        return SIZE_STEP
    shorter = [min(size) for size in sizes]
    if len(set(sizes)) == 1 and max(sizes[0]) == shorter[0] <= LARGEST_DEFAULT_SIZE:
        return shorter[0]
    median = int(np.median(shorter))
    return max(SIZE_STEP, min(LARGEST_DEFAULT_SIZE, median // SIZE_STEP * SIZE_STEP))


def _size_or_none(picture: PictureFile) -> tuple[int, int] | None:
    try:
        return image_size(picture.path)
    except Exception:  # `decode` will fail on the same file and say why
        return None


def decode_all(
    pictures: Sequence[PictureFile], *, size: int | tuple[int, int], monitor: Monitor = NO_MONITOR
) -> tuple[UInt8[Tensor, "n 3 h w"], list[int], list[Skipped]]:
    """The pictures that can be read, which of the files they are, and the others with the reason.

    The monitor advances by one for each file; when it asks to stop, so does the reading, as on Ctrl-C.
    """
    width, height = (size, size) if isinstance(size, int) else size
    images = torch.empty(len(pictures), 3, height, width, dtype=torch.uint8)
    is_over = threading.Event()

    def should_stop() -> bool:
        return monitor.should_stop or is_over.is_set()

    def fill(row: int) -> Skipped | None:
        if should_stop():
            raise KeyboardInterrupt
        monitor.advance(1)
        try:
            pixels = decode(pictures[row].path, size=size, should_stop=should_stop)
            images[row] = torch.from_numpy(pixels).permute(2, 0, 1)
        except Exception as error:  # decoders of damaged files fail in many ways; each is the file's fault
            return Skipped(pictures[row].name, reason_of(error))
        return None

    outcomes = _in_threads(fill, range(len(pictures)), is_over)
    kept = [row for row, outcome in enumerate(outcomes) if outcome is None]
    for position, row in enumerate(kept):  # in place: a second tensor of all pictures may not fit into memory
        if position != row:
            images[position] = images[row]
    return images[: len(kept)], kept, [outcome for outcome in outcomes if outcome is not None]


def _in_threads(
    function: Callable[[Item], Result], items: Sequence[Item], is_over: threading.Event | None = None
) -> list[Result]:
    """In threads, since Pillow decodes without the interpreter's lock; its warnings about odd metadata are hidden.

    `is_over` is set on Ctrl-C, so that the threads stop early.
    """
    with warnings.catch_warnings(), ThreadPoolExecutor(os.cpu_count()) as pool:
        warnings.simplefilter("ignore")
        try:
            return list(pool.map(function, items))
        except BaseException:
            if is_over is not None:
                is_over.set()
            raise


def is_grey(images: UInt8[Tensor, "n 3 h w"]) -> bool:
    return all(bool((image[0] == image[1]).all() and (image[0] == image[2]).all()) for image in images)


def one_channel(images: UInt8[Tensor, "n 3 h w"]) -> UInt8[Tensor, "n 1 h w"]:
    """Pillow's grey of each image; of an image that is grey already, its grey."""
    grey = torch.empty(len(images), 1, *images.shape[2:], dtype=torch.uint8)
    for row, image in enumerate(images):
        picture = Image.fromarray(image.permute(1, 2, 0).contiguous().numpy())
        grey[row, 0] = torch.from_numpy(np.array(picture.convert("L")))
    return grey
