"""Presets: sets of defaults, for each named data set and for the user's own pictures.

The preset of the data set is the default; another may override it.
"""

from dataclasses import replace

from laplacenet.augment import AugmentConfig
from laplacenet.data import DATASET_NAMES
from laplacenet.experiments.experiment import DataConfig, Experiment, with_method
from laplacenet.experiments.paper.variants import TRAINING, laplacenet
from laplacenet.graph import GraphConfig
from laplacenet.models import ModelConfig
from laplacenet.runtime import InputError
from laplacenet.training import LaplaceNetConfig, TrainConfig, config_class
from laplacenet.training.methods.presets import METHOD_PRESETS, ORIGINAL, method_preset
from laplacenet.training.methods.presets_consistency import SAME


def digits() -> Experiment:
    """Minutes on a laptop: four labels a class, a small network, few steps at a rate that suits them.

    Images of 8×8 pixels need weaker augmentation than 32×32: the grey square is smaller, and digits are not mirrored.
    """
    return Experiment(
        name="digits",
        data=DataConfig(name="digits", n_labeled=40),
        model=ModelConfig("small-cnn"),
        augment=AugmentConfig(flip=False, cutout=0.25),
        graph=GraphConfig(k=15),
        train=TrainConfig(steps=1_200, batch_size=80, labeled_batch_size=20, lr=0.1),
        method=LaplaceNetConfig(n_views=2, mixup_alpha=1.0),
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
        train=TrainConfig(steps=1_000, batch_size=100, labeled_batch_size=20, lr=0.1),
        method=LaplaceNetConfig(n_views=1, mixup_alpha=0.0),
    )


def pictures() -> Experiment:
    """The user's own pictures with the labels that they have: a small network, and few enough steps for a CPU."""
    return Experiment(
        name="pictures",
        data=DataConfig(name="pictures"),
        model=ModelConfig("small-cnn"),
        graph=GraphConfig(k=20),
        train=TrainConfig(steps=3_000, batch_size=100, labeled_batch_size=20, lr=0.1),
        method=LaplaceNetConfig(n_views=2),
    )


def fast() -> Experiment:
    """CIFAR-100 in five minutes of an H200: few steps at a high rate, the first half of them on small pictures.

    Labels come from averaged weights, with batch statistics of unaugmented pictures, because those of small pictures do
    not fit whole ones. Weights decay less than in the paper, because at a higher rate the same decay forgets sooner;
    those of the classifier least, so that it may be surer. MixUp is stronger, and half of the steps have CutMix in its
    place: otherwise the network memorizes its labels, wrong ones too.
    """
    experiment = replace(cifar100(), name="fast")
    train = replace(
        experiment.train, steps=86_000, lr=0.2, schedule="linear", weight_decay=2e-4, head_decay=1e-4, small_share=0.5
    )
    method = LaplaceNetConfig(mixup_alpha=1.0, cutmix_share=0.5, ema_decay=0.99, plain_statistics=True)
    return replace(experiment, train=train, method=method)


PRESETS = {preset().name: preset for preset in (digits, cifar10, cifar100, mini_imagenet, two_moons, pictures, fast)}
JUDGED_EVERY = {"fast": 10}
"""After so many epochs a preset's runs are judged by the test set, if not after each: a test takes 1 % of an epoch."""
VECTORS = "two-moons"  # the one data set, and the one preset, without pictures


def preset_named(name: str) -> Experiment:
    if name not in PRESETS:
        known = ", ".join([*PRESETS, *METHOD_PRESETS])
        raise InputError(f"unknown preset {name!r}; choose one of {known}")
    return PRESETS[name]()


def preset_for(data: str) -> Experiment:
    """The preset of a named data set; for a folder or a file, that for one's own pictures."""
    if data in DATASET_NAMES:
        return PRESETS[data]()
    experiment = pictures()
    return replace(experiment, data=replace(experiment.data, name=data))


def with_preset(experiment: Experiment, name: str) -> Experiment:
    """The same data, labels and seed with every other setting of this preset."""
    preset, data = preset_named(name), experiment.data.name
    if (name == VECTORS) != (data == VECTORS):
        kind, other = ("vectors", "pictures") if name == VECTORS else ("pictures", "vectors")
        fitting = [known for known in (data, "pictures") if known in PRESETS] if name == VECTORS else [VECTORS]
        raise InputError(f"--preset {name} is for {kind}, and {data} holds {other}; choose {' or '.join(fitting)}")
    return replace(preset, name=f"{experiment.name}-{name}", seed=experiment.seed, data=experiment.data)


def with_method_preset(experiment: Experiment, name: str) -> Experiment:
    """The experiment's method as in its own paper (`original`) or on LaplaceNet's terms (`equal`).

    Where a preset says anything, the method's other settings are its defaults. On the paper's data
    LaplaceNet and its two baselines follow the paper anyway; on other data `equal` gives them the others' optimizer.
    """
    method = experiment.method.name
    overrides = method_preset(method, name, data=experiment.data.name)
    if not overrides and experiment.data.name in TRAINING:
        return experiment
    if experiment.data.name == VECTORS:
        raise InputError(f"--preset {name} is for pictures, and {VECTORS} holds vectors; choose --preset {VECTORS}")
    if not overrides and name == ORIGINAL:
        known = ", ".join(TRAINING)
        raise InputError(f"--preset {name}: the paper of {method} has settings for {known} only; leave it out")
    sections: dict[str, dict[str, object]] = {}
    for path, value in (overrides or SAME).items():
        section, _, field = path.partition(".")
        sections.setdefault(section, {})[field] = value
    fresh = replace(experiment, method=config_class(method)(**{"name": method})) if overrides else experiment
    changed = {section: replace(getattr(fresh, section), **fields) for section, fields in sections.items()}
    return replace(fresh, name=f"{experiment.name}-{name}", **changed)


def supervised_only(experiment: Experiment) -> Experiment:
    """The same network, views, MixUp and steps on the given labels alone: the baseline of every comparison."""
    return replace(with_method(experiment, "supervised"), name=f"{experiment.name}-supervised")
