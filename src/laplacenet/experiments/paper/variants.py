"""The paper's settings as experiments: LaplaceNet on a data set, and everything the paper takes away or scales.

Each function gives an `Experiment` whose name says what it is, so that one run serves every table that shows it. Split,
seed and schedule are put in by whoever runs it.
"""

from dataclasses import fields, replace
from typing import Any

from laplacenet.experiments.experiment import DataConfig, Experiment, with_method
from laplacenet.models import ModelConfig
from laplacenet.runtime import InputError
from laplacenet.training import LaplaceNetConfig, TrainConfig
from laplacenet.training.methods.laplacenet import MixUpConfig

PAPER_STEPS = 250_000
TRAINING = {  # the paper's Table II; its text says 0.3 for the learning rate, its table and the authors' commands 0.03
    "cifar10": TrainConfig(steps=PAPER_STEPS, batch_size=300, labeled_batch_size=48, lr=0.03),
    "cifar100": TrainConfig(steps=PAPER_STEPS, batch_size=100, labeled_batch_size=50, lr=0.03),
    "mini-imagenet": TrainConfig(steps=PAPER_STEPS, batch_size=100, labeled_batch_size=50, lr=0.1),
}
OWN_METHODS = ("laplacenet", "supervised", "network-labels")  # the method and the baselines of its paper
MIXUP_ALPHA = {"cifar10": 1.0, "cifar100": 0.5, "mini-imagenet": 0.5}


def laplacenet(dataset: str, n_labeled: int, model: str) -> Experiment:
    """The method as the paper runs it: three views, alignment, MixUp, k = 50, µ = 0.01."""
    if dataset not in TRAINING:
        raise InputError(f"the paper has no settings for {dataset!r}; choose one of {', '.join(TRAINING)}")
    return Experiment(
        name=f"{dataset}-{n_labeled}/{model}/laplacenet",
        data=DataConfig(name=dataset, n_labeled=n_labeled),
        model=ModelConfig(name=model),
        train=TRAINING[dataset],
        method=LaplaceNetConfig(mixup_alpha=MIXUP_ALPHA[dataset]),
    )


def supervised(dataset: str, n_labeled: int, model: str) -> Experiment:
    """The labeled images alone. The paper does not say how its baseline was trained; this is LaplaceNet's own training
    without the unlabeled images."""
    experiment = laplacenet(dataset, n_labeled, model)
    name = f"{dataset}-{n_labeled}/{model}/supervised"
    return replace(with_method(experiment, "supervised"), name=name)


def with_views(experiment: Experiment, n_views: int) -> Experiment:
    if getattr(experiment.method, "n_views", None) == n_views:
        return experiment
    return _with_setting(_named(experiment, f"views-{n_views}"), n_views=n_views)


def without_randaugment(experiment: Experiment) -> Experiment:
    """Flip and crop alone: no RandAugment sample and no cutout, the paper's strong augmentations."""
    augment = replace(experiment.augment, n_labeled_samples=0, n_unlabeled_samples=0, cutout=0.0)
    return replace(_named(experiment, "no-randaugment"), augment=augment)


def without_alignment(experiment: Experiment) -> Experiment:
    return replace(_named(experiment, "no-alignment"), graph=replace(experiment.graph, alignment_iterations=0))


def without_mixup(experiment: Experiment) -> Experiment:
    return _with_setting(_named(experiment, "no-mixup"), mixup_alpha=0.0)


def without_graph(experiment: Experiment) -> Experiment:
    """The network's own argmax as pseudo-labels; where there are no graph scores there is nothing to align."""
    return replace(
        with_method(_named(experiment, "network-labels"), "network-labels"),
        graph=replace(experiment.graph, alignment_iterations=0),
    )


def with_class_weighting(experiment: Experiment) -> Experiment:
    """Each image's loss weighted by the certainty of its label and the size of its class, after Iscen et al."""
    return _with_setting(_named(experiment, "class-weighting"), class_weighting=True)


def with_scaled_batch(experiment: Experiment, factor: int) -> Experiment:
    """b and b_l, both."""
    train = experiment.train
    return replace(
        _named(experiment, f"batch-x{factor}"),
        train=replace(
            train, batch_size=factor * train.batch_size, labeled_batch_size=factor * train.labeled_batch_size
        ),
    )


def with_scaled_steps(experiment: Experiment, factor: int) -> Experiment:
    return replace(
        _named(experiment, f"steps-x{factor}"), train=replace(experiment.train, steps=factor * experiment.train.steps)
    )


def varied_as(cell: Experiment, base: Experiment) -> Experiment:
    """`base` with the network, method and number of views of one of the paper's cells, and all that sets it apart.

    A multiple of the paper's batch becomes the same multiple of the base's; a cell without MixUp has no CutMix either.
    """
    assert cell.data.n_labeled is not None, "a cell has its number of labels"
    assert isinstance(cell.method, MixUpConfig), "a cell of LaplaceNet or one of its baselines"
    plain = with_method(laplacenet(cell.data.name, cell.data.n_labeled, cell.model.name), cell.method.name)
    varied = with_method(replace(base, model=cell.model), cell.method.name)
    factor = cell.train.batch_size // plain.train.batch_size
    labeled = factor * varied.train.labeled_batch_size
    apart = {**_changes(cell.method, plain.method), "n_views": cell.method.n_views}
    if not cell.method.mixup_alpha:
        apart["cutmix_share"] = 0.0
    return replace(
        varied,
        augment=replace(varied.augment, **_changes(cell.augment, plain.augment)),
        graph=replace(varied.graph, **_changes(cell.graph, plain.graph)),
        train=replace(varied.train, batch_size=factor * varied.train.batch_size, labeled_batch_size=labeled),
        method=replace(varied.method, **apart),
    )


def _changes(section: Any, plain: Any) -> dict[str, Any]:
    values = {field.name: getattr(section, field.name) for field in fields(section)}
    return {name: value for name, value in values.items() if value != getattr(plain, name)}


def on_split(
    experiment: Experiment,
    split: int,
    *,
    folder: str | None = None,
    split_file: str | None = None,
    base_steps: int = PAPER_STEPS,
) -> Experiment:
    """The experiment on the label split with this number, which is the run's seed too.

    A published split where its file is given, else one drawn equally from every class. `base_steps` stands for the
    paper's 250 000: an experiment that scales the steps scales these.
    """
    data = replace(experiment.data, folder=folder)
    if split_file is None:
        data = replace(data, split_seed=split)
    else:
        key = f"{data.n_labeled}/{split:02d}"
        data = replace(data, n_labeled=None, split_file=split_file, split_key=key)
    train = replace(experiment.train, steps=experiment.train.steps * base_steps // PAPER_STEPS)
    return replace(experiment, seed=split, data=data, train=train)


def n_labels_asked(data: DataConfig) -> int | None:
    """How many labels these are; of a split the first part of its key, as in `4000/00`. None where it has no number."""
    if data.split_key is None:
        return data.n_labeled
    count = data.split_key.partition("/")[0]
    return int(count) if count.isdecimal() else None


def _named(experiment: Experiment, addition: str) -> Experiment:
    return replace(experiment, name=f"{experiment.name}-{addition}")


def _with_setting(experiment: Experiment, **settings: Any) -> Experiment:
    return replace(experiment, method=replace(experiment.method, **settings))
