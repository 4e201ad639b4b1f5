"""Methods on a small problem, with a network whose logits are its inputs: losses can then be compared with formulas."""

from typing import Any

import torch
from references_training import bright_halves
from torch import Tensor, nn

from laplacenet.augment import AugmentConfig
from laplacenet.data import ImageSet, balanced_split, hide_labels
from laplacenet.graph import GraphConfig
from laplacenet.models import Network, build_model
from laplacenet.training import Batch, ImageViews, Problem, TrainConfig, config_class, method_class
from laplacenet.training.methods.base import TARGETS, BaseMethod

TRAIN = TrainConfig(steps=9, batch_size=12, labeled_batch_size=4, lr=0.05)


class Fixed(Network):
    """Gives the views themselves as logits."""

    def __init__(self) -> None:
        super().__init__(nn.Identity(), embedding_size=3, n_classes=3)

    def forward(self, x: Tensor) -> Tensor:
        return x


def small_pictures() -> ImageSet:
    """Three classes that differ in where an 8×8 picture is bright."""
    return bright_halves(60)


def make_method(name: str, train: TrainConfig = TRAIN, **settings: Any) -> BaseMethod:
    pictures = small_pictures()
    labels = hide_labels(pictures.labels, balanced_split(pictures.labels, 9, seed=0))
    problem = Problem(labels, 3, ImageViews(AugmentConfig(flip=False), pictures.statistics, 8, 8), seed=1)
    return method_class(name)(problem, train, config_class(name)(**settings), GraphConfig(k=5))


def learner_of(method: BaseMethod) -> Any:
    """The method's learner with `Fixed` as its student."""
    learner: Any = method.learner(build_model("small-cnn", n_classes=3, in_channels=1))
    learner.student = Fixed()
    return learner


def batch_of(*, seed: int, views: Tensor | None = None, draws: dict[str, Tensor] | None = None) -> Batch:
    """Four labeled images, eight unlabeled ones in two views, as random logits."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(4 + 8 + 8, 3, generator=generator)
    targets = torch.tensor([0, 2, 1, 1, *[-1] * 8])
    return Batch(logits if views is None else views, torch.arange(12), 4, {TARGETS: targets}, draws or {})
