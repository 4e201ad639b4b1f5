"""What a run begins with that names only its data: the paper's parameters, or settings for small things."""

from dataclasses import replace

from laplacenet.augment import AugmentConfig
from laplacenet.experiments.experiment import DataConfig, Experiment
from laplacenet.experiments.paper.variants import laplacenet
from laplacenet.graph import GraphConfig
from laplacenet.models import ModelConfig
from laplacenet.runtime import InputError
from laplacenet.training import TrainConfig


def digits() -> Experiment:
    """Minutes on a laptop: four labels a class, a small network, few steps at a rate that suits them.

    An image of 8×8 pixels bears less than one of 32×32: the grey square is smaller, and a mirrored digit is none.
    """
    return Experiment(
        name="digits",
        data=DataConfig(name="digits", n_labeled=40),
        model=ModelConfig("small-cnn"),
        augment=AugmentConfig(flip=False, cutout=0.25),
        graph=GraphConfig(k=15),
        train=TrainConfig(steps=1_200, batch_size=80, labeled_batch_size=20, n_views=2, lr=0.1, mixup_alpha=1.0),
    )


def cifar10() -> Experiment:
    """The paper's parameters for CIFAR-10, 4 000 labels, 13-CNN."""
    return replace(laplacenet("cifar10", 4_000, "13-cnn"), name="cifar10")


def cifar100() -> Experiment:
    """The paper's parameters for CIFAR-100, 4 000 labels, 13-CNN."""
    return replace(laplacenet("cifar100", 4_000, "13-cnn"), name="cifar100")


def mini_imagenet() -> Experiment:
    """The paper's parameters for Mini-ImageNet, 4 000 labels, ResNet-18."""
    return replace(laplacenet("mini-imagenet", 4_000, "resnet-18"), name="mini-imagenet")


def two_moons() -> Experiment:
    """Seconds: one hidden layer and ten labels a class; vectors have no augmentation, so one view."""
    return Experiment(
        name="two-moons",
        data=DataConfig(name="two-moons", n_labeled=20),
        model=ModelConfig("mlp"),
        graph=GraphConfig(k=10),
        train=TrainConfig(steps=1_000, batch_size=100, labeled_batch_size=20, n_views=1, lr=0.1, mixup_alpha=0.0),
    )


def pictures() -> Experiment:
    """One's own pictures with the labels that they come with: a small network and as many steps as a CPU bears."""
    return Experiment(
        name="pictures",
        data=DataConfig(name="pictures"),
        model=ModelConfig("small-cnn"),
        graph=GraphConfig(k=20),
        train=TrainConfig(steps=3_000, batch_size=100, labeled_batch_size=20, n_views=2, lr=0.1),
    )


STARTS = {start().name: start for start in (digits, cifar10, cifar100, mini_imagenet, two_moons, pictures)}


def start_named(name: str) -> Experiment:
    if name not in STARTS:
        raise InputError(f"unknown recipe {name!r}; choose one of {', '.join(STARTS)}")
    return STARTS[name]()


def start_for(data: str) -> Experiment:
    """The start for a data set's name; for a folder or a file, that for one's own pictures."""
    if data in STARTS and data != "pictures":
        return STARTS[data]()
    experiment = pictures()
    return replace(experiment, data=replace(experiment.data, name=data))


def supervised_only(experiment: Experiment) -> Experiment:
    """The same network, views, MixUp and steps on the given labels alone: the baseline of every comparison."""
    train = replace(experiment.train, label_source="none")
    return replace(experiment, name=f"{experiment.name}-supervised", train=train)
