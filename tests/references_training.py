"""Small runs of Algorithm 2, for the tests that train."""

import torch
from torch import Tensor

from laplacenet.augment import AugmentConfig
from laplacenet.data import ImageSet, balanced_split, hide_labels
from laplacenet.graph import GraphConfig
from laplacenet.models import Network, build_model
from laplacenet.training import (
    Execution,
    ImageViews,
    LaplaceNetConfig,
    MethodConfig,
    Problem,
    Run,
    TrainConfig,
    method_class,
)

TRAIN = TrainConfig(steps=14, batch_size=20, labeled_batch_size=5)
CONFIG = LaplaceNetConfig(n_views=2, supervised_passes=2)
CPU = Execution(torch.device("cpu"))


def bright_halves(n: int, *, channels: int = 1, side: int = 8, noise: int = 100) -> ImageSet:
    """Three classes of noisy pictures: bright on top, bright below, even."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, noise, (n, channels, side, side), generator=generator, dtype=torch.uint8)
    labels = torch.arange(n) % 3
    images[labels == 0, :, : side // 2] += 120
    images[labels == 1, :, side // 2 :] += 120
    return ImageSet(images, labels, ("top", "bottom", "even"))


def given_labels(pictures: ImageSet) -> Tensor:
    return hide_labels(pictures.labels, balanced_split(pictures.labels, 9, seed=0))


def run_on(
    pictures: ImageSet,
    labels: Tensor,
    *,
    train: TrainConfig = TRAIN,
    config: MethodConfig = CONFIG,
    seed: int = 0,
    model: str = "small-cnn",
) -> Run:
    views = ImageViews(AugmentConfig(flip=False), pictures.statistics, 8, 8)
    method = method_class(config.name)(Problem(labels, 3, views, seed), train, config, GraphConfig(k=5))
    network = build_model(model, n_classes=3, in_channels=1, seed=seed)
    return Run.of(method, network, pictures.images, CPU)


def weights(network: Network) -> list[Tensor]:
    return [tensor.clone() for tensor in network.state_dict().values()]
