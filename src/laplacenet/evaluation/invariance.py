"""Augmentation invariance, equation 15: how much of its accuracy a classifier keeps when its images are augmented."""

from collections.abc import Iterator

import torch
from jaxtyping import UInt8
from torch import Tensor

from laplacenet.augment import AugmentConfig, ViewParameters, sample_views, strong_views_uint8
from laplacenet.data import ImageSet
from laplacenet.evaluation.accuracy import correct, share
from laplacenet.models import Inference
from laplacenet.models.inference import chunk_size
from laplacenet.runtime import stream


def augmentation_invariance(
    inference: Inference, image_set: ImageSet, config: AugmentConfig, *, seed: int, plain: float | None = None
) -> float | None:
    """V_Z = accuracy on u(x) / accuracy on x, where u is one unlabeled view of each image; None if the latter is 0.

    `plain` is the latter, where it is known already.
    """
    if plain is None:
        plain = share(correct(inference, image_set.images, image_set.labels))
    if plain == 0:
        return None
    device = inference.network.head.weight.device
    chunks = views_in_chunks(image_set.images, config, seed=seed, device=device)
    labeled = ((image_set.labels[chunk], views) for chunk, views in chunks)
    is_right = [correct(inference, views, labels) for labels, views in labeled if bool((labels >= 0).any())]
    return share(torch.cat(is_right)) / plain


def views_in_chunks(
    images: UInt8[Tensor, "n c h w"], config: AugmentConfig, *, seed: int, device: torch.device
) -> Iterator[tuple[slice, UInt8[Tensor, "n c h w"]]]:
    """u(x_i) for every image, some at a time: the same views for the same seed, on every device."""
    n, _, height, width = images.shape
    parameters = sample_views(
        n,
        n_samples=config.n_unlabeled_samples,
        height=height,
        width=width,
        config=config,
        rng=stream(seed, "invariance"),
    )
    size = chunk_size(images, device)  # of views; `Inference` takes fewer at a time where a network enlarges them
    for chunk in (slice(start, start + size) for start in range(0, n, size)):
        yield chunk, _views(images[chunk].to(device), parameters[chunk].to(device))


def _views(images: UInt8[Tensor, "n c h w"], parameters: ViewParameters) -> UInt8[Tensor, "n c h w"]:
    return strong_views_uint8(images, torch.arange(len(images), device=images.device), parameters)
