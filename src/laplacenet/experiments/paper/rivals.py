"""The other methods of the paper's tables as experiments: as their own papers set them, and on LaplaceNet's terms."""

from dataclasses import replace

from laplacenet.experiments.experiment import Experiment, with_method
from laplacenet.experiments.paper.variants import laplacenet
from laplacenet.experiments.presets import with_method_preset
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
N_CIFAR = 50_000


def presets_of(method: str) -> tuple[str, ...]:
    """Those that say something: the authors' settings are not always known."""
    return tuple(preset for preset in METHOD_PRESETS if preset in PRESETS.get(method, {}))


def rival(method: str, preset: str, dataset: str, n_labeled: int, model: str) -> Experiment:
    """A method on the data and with the network of a table."""
    base = with_method(laplacenet(dataset, n_labeled, model), method)
    laid = with_method_preset(base, preset)
    train = laid.train
    if preset == ORIGINAL and method in DRAWN_FROM_ALL:
        train = replace(train, labeled_batch_size=max(1, round(train.batch_size * n_labeled / N_CIFAR)))
    name = f"{dataset}-{n_labeled}/{model}/{method}-{preset}"
    return replace(laid, name=name, model=base.model, train=train)


def with_few_labels(method: str, dataset: str, n_labeled: int, *, steps: int) -> Experiment:
    """WRN-28-2 with four labels a class: LaplaceNet as published, the others as in their papers, but shorter."""
    model = "wrn-28-2"
    experiment = laplacenet(dataset, n_labeled, model)
    if method != "laplacenet":
        experiment = rival(method, ORIGINAL, dataset, n_labeled, model)
    name = f"{dataset}-{n_labeled}/{model}/{method}-few-labels"
    return replace(experiment, name=name, train=replace(experiment.train, steps=steps))
