"""The other methods of the paper's tables as experiments: as their own papers set them, and on LaplaceNet's terms."""

from dataclasses import replace

from laplacenet.experiments.experiment import Experiment, with_method
from laplacenet.experiments.paper.variants import laplacenet
from laplacenet.experiments.presets import with_method_preset
from laplacenet.training import TrainConfig
from laplacenet.training.methods.presets import METHOD_PRESETS, ORIGINAL, PRESETS

RIVALS = {
    "Π-Model": "pi-model",
    "MT": "mean-teacher",
    "VAT": "vat",
    "MT-LP": "mt-lp",
    "SNTG": "sntg",
    "MT-fast-SWA": "fast-swa",
    "MT-ICT": "ict",
    "Dual Student": "dual-student",
    "TSSDL": "tssdl",
    "LP": "lp",
    "DAG": "dag",
    "Pseudo-Label Mixup": "pl-mixup",
    "MixMatch": "mixmatch",
    "UDA": "uda",
    "FixMatch (RA)": "fixmatch",
    "FlexMatch": "flexmatch",
    "FreeMatch": "freematch",
    "SoftMatch": "softmatch",
    "SimMatch": "simmatch",
    "AdaMatch": "adamatch",
}
"""Rows of the tables by the names that the methods have here."""
DRAWN_FROM_ALL = ("pi-model", "sntg", "mean-teacher")
"""Their batches of 100 are drawn from all 50 000 images, so that the number of labeled ones follows from the labels."""
IN_EPOCHS = ("mt-lp", "fast-swa", "ict", "dual-student", "pl-mixup")
"""Their authors train for so many passes over the unlabeled images, whose number follows from the labels."""
LP_EPOCHS = 180
"""Of each of LP's stages: first over the labeled images, then over the others."""
N_IMAGES, N_LABELED = 50_000, 4_000
"""Of CIFAR and Mini-ImageNet, and the labels for which presets give their steps."""


def presets_of(method: str) -> tuple[str, ...]:
    """Those that say something: the authors' settings are not always known."""
    return tuple(preset for preset in METHOD_PRESETS if preset in PRESETS.get(method, {}))


def rival(method: str, preset: str, dataset: str, n_labeled: int, model: str) -> Experiment:
    """A method on the data and with the network of a table."""
    base = with_method(laplacenet(dataset, n_labeled, model), method)
    laid = with_method_preset(base, preset)
    name = f"{dataset}-{n_labeled}/{model}/{method}-{preset}"
    return with_labels(replace(laid, name=name, model=base.model), preset, n_labeled)


def with_labels(experiment: Experiment, preset: str, n_labeled: int) -> Experiment:
    """What follows from the number of labels: LP's first stage; as in the papers also labeled batches and steps."""
    method, train = experiment.method.name, experiment.train
    if method == "lp":
        labeled, unlabeled = max(1, n_labeled // train.batch_size), unlabeled_steps(train, n_labeled)
        share = replace(experiment.method, first_stage=labeled / (labeled + unlabeled))  # type: ignore[call-arg]
        steps = LP_EPOCHS * (labeled + unlabeled) if preset == ORIGINAL else train.steps
        return replace(experiment, method=share, train=replace(train, steps=steps))
    if preset == ORIGINAL and method in IN_EPOCHS:
        n_epochs = train.steps // unlabeled_steps(train, N_LABELED)
        train = replace(train, steps=n_epochs * unlabeled_steps(train, n_labeled))
    if preset == ORIGINAL and method in DRAWN_FROM_ALL:
        train = replace(train, labeled_batch_size=max(1, round(train.batch_size * n_labeled / N_IMAGES)))
    return replace(experiment, train=train)


def unlabeled_steps(train: TrainConfig, n_labeled: int) -> int:
    """Of an epoch over the unlabeled images."""
    return (N_IMAGES - n_labeled) // train.unlabeled_batch_size


def with_few_labels(method: str, dataset: str, n_labeled: int, *, steps: int) -> Experiment:
    """WRN-28-2 with four labels a class: LaplaceNet as published, the others as in their papers, but shorter."""
    model = "wrn-28-2"
    experiment = laplacenet(dataset, n_labeled, model)
    if method != "laplacenet":
        experiment = rival(method, ORIGINAL, dataset, n_labeled, model)
    name = f"{dataset}-{n_labeled}/{model}/{method}-few-labels"
    return replace(experiment, name=name, train=replace(experiment.train, steps=steps))
