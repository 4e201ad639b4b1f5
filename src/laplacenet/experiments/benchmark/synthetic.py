"""Data to measure on: nothing has to be downloaded, and the same seed gives the same everywhere."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from laplacenet.data import ChannelStatistics

CIFAR_STATISTICS = ChannelStatistics((0.49, 0.48, 0.45), (0.25, 0.24, 0.26))
NOISE = 1.8
"""Length of a point's deviation from its center, itself of length 1: clusters overlap as a network's embeddings do."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """Points on the sphere around as many centers as classes; few of their classes are given, −1 for the others."""

    features: Float[Tensor, "n d"]
    classes: Int64[Tensor, " n"]
    labels: Int64[Tensor, " n"]

    def accuracy(self, labels: Tensor) -> float:
        """The share of hidden points labeled with their own cluster."""
        is_hidden = self.labels < 0
        return float((labels.to(self.classes.device)[is_hidden] == self.classes[is_hidden]).float().mean())

    def sample(self, n: int) -> "Clusters":
        """n of the points, all given labels among them."""
        generator = torch.Generator().manual_seed(0)
        is_given = self.labels >= 0
        hidden = (~is_given).nonzero().flatten().cpu()
        others = hidden[torch.randperm(len(hidden), generator=generator)[: n - int(is_given.sum())]]
        rows = torch.cat([is_given.nonzero().flatten().cpu(), others]).to(self.labels.device)
        return Clusters(self.features[rows], self.classes[rows], self.labels[rows])


def clustered_points(
    n: int, *, n_classes: int, n_labeled: int, d: int = 128, noise: float = NOISE, seed: int = 0
) -> Clusters:
    """Gaussian clusters pushed onto the sphere; classes are equally frequent among the points and among the labels."""
    generator = torch.Generator().manual_seed(seed)
    centers = torch.nn.functional.normalize(torch.randn(n_classes, d, generator=generator))
    classes = torch.arange(n) % n_classes
    features = torch.randn(n, d, generator=generator).mul_(noise / d**0.5).add_(centers[classes])
    features = torch.nn.functional.normalize(features, out=features)
    labels = torch.where(torch.arange(n) < max(n_labeled, n_classes), classes, -1)
    return Clusters(features, classes, labels)


def clustered_points_on(device: torch.device, n: int, *, n_classes: int, n_labeled: int, d: int) -> Clusters:
    """As `clustered_points`, made where they are used: ten million points take seconds to make and send otherwise."""
    generator = torch.Generator(device).manual_seed(0)
    centers = torch.nn.functional.normalize(torch.randn(n_classes, d, generator=generator, device=device))
    classes = torch.arange(n, device=device) % n_classes
    features = torch.randn(n, d, generator=generator, device=device).mul_(NOISE / d**0.5)
    for some, its_classes in zip(torch.split(features, 1 << 20), torch.split(classes, 1 << 20), strict=True):
        some.add_(centers[its_classes])
        some.div_(torch.linalg.vector_norm(some, dim=1, keepdim=True))
    is_given = torch.arange(n, device=device) < max(n_labeled, n_classes)
    return Clusters(features, classes, torch.where(is_given, classes, -1))


def random_images(n: int, side: int, *, seed: int = 0) -> UInt8[Tensor, "n 3 side side"]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(256, (n, 3, side, side), dtype=torch.uint8, generator=generator)


def smooth_images(n: int, side: int, *, seed: int = 0) -> UInt8[Tensor, "n 3 side side"]:
    """Images with the flat regions and few levels of pictures, which some operations take another path for."""
    coarse = random_images(n, 4, seed=seed).float()
    smooth = torch.nn.functional.interpolate(coarse, size=(side, side), mode="bilinear")
    return smooth.round_().byte()


def patterned_images(
    n: int, side: int, *, n_classes: int, seed: int = 0
) -> tuple[UInt8[Tensor, "n 3 side side"], Int64[Tensor, " n"]]:
    """Each class a coarse pattern under noise, so that even an untrained network's embeddings cluster."""
    noise = random_images(n, side, seed=seed)
    pattern = smooth_images(n_classes, side, seed=seed + 1)
    classes = torch.arange(n) % n_classes
    return noise.div_(2, rounding_mode="floor").add_((pattern // 2)[classes]), classes
