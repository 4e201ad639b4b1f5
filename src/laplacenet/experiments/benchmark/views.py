"""Strong views a second: ours where the images lie, beside Pillow and torchvision on a core."""

import importlib.util
import os
import statistics
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from laplacenet.augment import AugmentConfig, ViewParameters, make_views, sample_views
from laplacenet.augment.sampling import draw_views
from laplacenet.experiments.benchmark.clock import rounds, time_work
from laplacenet.experiments.benchmark.pillow_views import pillow_view
from laplacenet.experiments.benchmark.rows import ViewsRow
from laplacenet.experiments.benchmark.settings import BenchSettings
from laplacenet.experiments.benchmark.synthetic import CIFAR_STATISTICS, smooth_images
from laplacenet.runtime import stream

N_IMAGES = 500
HOST = torch.device("cpu")
HAS_TORCHVISION = importlib.util.find_spec("torchvision") is not None


def measure_views(side: int, settings: BenchSettings, device: torch.device) -> ViewsRow:
    """Batches of ours, of Pillow's and of torchvision's in turns."""
    images = smooth_images(N_IMAGES, side)
    n = max(1, settings.n_views * 32 * 32 // side**2)
    n_single = settings.n_pillow_views
    works: dict[str, tuple[int, Callable[[], object], torch.device]] = {
        "ours": (n, our_views(images, n, device), device),
        "drawn": (n, lambda: _drawn(n, side), HOST),
        "pillow": (n_single, pillow_views(images, n_single), HOST),
    }
    if HAS_TORCHVISION:
        works["torchvision"] = (n_single, torchvision_views(images, n_single), HOST)
    rates: dict[str, list[float]] = {name: [] for name in works}
    for index in rounds(settings.view_rounds, settings.budget_s):
        for name, (count, work, where) in works.items():
            elapsed_s = time_work(work, where)[1]
            rates[name] += [count / elapsed_s] if index else []
    medians = {name: statistics.median(some) for name, some in rates.items()}
    return ViewsRow(
        side=side,
        ours_per_s=medians["ours"],
        drawn_per_s=medians["drawn"],
        pillow_per_s=medians["pillow"],
        torchvision_per_s=medians.get("torchvision"),
        n_cores=torch.get_num_threads() if device.type == "cpu" else os.cpu_count() or 1,
        n_views=n,
        n_repeats=len(rates["ours"]),
        note="" if HAS_TORCHVISION else "torchvision is not installed",
    )


def our_views(images: Tensor, n: int, device: torch.device) -> Callable[[], object]:
    side = images.shape[-1]
    slots = (torch.arange(n) % len(images)).to(device)
    resident, parameters = images.to(device), _drawn(n, side).to(device)
    return lambda: make_views(resident, slots, parameters, statistics=CIFAR_STATISTICS)


def pillow_views(images: Tensor, n: int) -> Callable[[], object]:
    """One core: Pillow works on one image at a time and takes no threads of its own."""
    side, config = images.shape[-1], AugmentConfig()
    pad = config.pad_for(side, side)
    draws = draw_views(n, n_samples=2, height=side, width=side, config=config, rng=stream(0, "benchmark/views"))
    pictures = [Image.fromarray(np.ascontiguousarray(image.permute(1, 2, 0).numpy())) for image in images]
    return lambda: [
        pillow_view(pictures[view % len(pictures)], draws, view, pad=pad, statistics=CIFAR_STATISTICS)
        for view in range(n)
    ]


def torchvision_views(images: Tensor, n: int) -> Callable[[], object]:
    """Its own nearest recipe, image after image on one core: it draws as it goes, over its own fourteen operations."""
    from torchvision.transforms import v2  # noqa: PLC0415  an optional package

    side = images.shape[-1]
    recipe = v2.Compose(
        [
            v2.RandomHorizontalFlip(),
            v2.RandomCrop(side, padding=AugmentConfig().pad_for(side, side), padding_mode="reflect"),
            v2.RandAugment(num_ops=2),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(list(CIFAR_STATISTICS.mean), list(CIFAR_STATISTICS.std)),
            v2.RandomErasing(p=1.0, scale=(0.01, 0.25), ratio=(1.0, 1.0)),
        ]
    )

    def make() -> list[Tensor]:
        n_threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return [recipe(images[view % len(images)]) for view in range(n)]
        finally:
            torch.set_num_threads(n_threads)

    return make


def _drawn(n: int, side: int) -> ViewParameters:
    return sample_views(
        n, n_samples=2, height=side, width=side, config=AugmentConfig(), rng=stream(0, "benchmark/views")
    )
