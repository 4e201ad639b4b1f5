"""Settings of every method: its authors' own, and those of a comparison on equal terms.

`original` is each paper's setting for CIFAR-10 with 4 000 labels; what differs on CIFAR-100 stands below, and
`experiments.paper.rivals` has what follows from another number of labels. `equal` is the protocol of LaplaceNet's Table
IV: the network and the steps of the recipe, its optimizer and schedule, and RandAugment for every method but MixMatch,
which the table leaves out of that as well: its guesses are means over views, and strong ones make them poor.
LaplaceNet's own training and its two baselines already follow it on the paper's data sets.
Weight decay concerns all parameters, as in UDA's code; those of MixMatch and FixMatch, and USB, leave out normalization
and biases. SGD's momentum is Nesterov's; the authors of PL-Mixup and ICT have the plain one. PL-Mixup's color jitter is
left out. The 13-CNN scales its embedding to length 1 only under methods whose authors' networks do (`unit_length`).
WRN-28-2 has plain ReLU and batch statistics with momentum 0.1; that of MixMatch, FixMatch and USB has a slope of 0.1
below zero and momentum 0.001.
FreeMatch's and AdaMatch's settings are USB's. USB aligns SimMatch's guesses by the mean of the last 32 batches; a
momentum of 0.94 gives batches the same mean age.
"""

from laplacenet.runtime import InputError
from laplacenet.training.methods.presets_consistency import PRESETS as CONSISTENCY
from laplacenet.training.methods.presets_consistency import SAME, Overrides

ORIGINAL, EQUAL = "original", "equal"
METHOD_PRESETS = (ORIGINAL, EQUAL)

# 64 labeled and 7 × 64 unlabeled images in 2^20 steps
FIXMATCH: Overrides = {
    "model.name": "wrn-28-2",
    **SAME,
    "train.schedule": "cosine-7/16",
    "train.steps": 2**20,
    "train.batch_size": 512,
    "train.labeled_batch_size": 64,
    "method.ema_decay": 0.999,
    "method.unlabeled_weight": 1.0,
}

OWN: dict[str, dict[str, Overrides]] = {
    "laplacenet": {ORIGINAL: {}, EQUAL: {}},
    "supervised": {EQUAL: {}},
    "network-labels": {EQUAL: {}},
    "pl-mixup": {
        # 400 epochs of ⌊46 000/84⌋ steps
        ORIGINAL: {
            "model.name": "13-cnn",
            "augment.pad": 2,
            "train.optimizer": "sgd",
            "train.schedule": "two-drops",
            "train.lr": 0.1,
            "train.weight_decay": 1e-4,
            "train.steps": 218_800,
            "train.batch_size": 100,
            "train.labeled_batch_size": 16,
            "method.mixup_alpha": 1.0,
            "method.balance": 0.8,
            "method.entropy": 0.4,
        },
        EQUAL: {**SAME, "method.strength": "strong"},
    },
    "mixmatch": {
        ORIGINAL: {
            "model.name": "wrn-28-2",
            "train.optimizer": "adamw",
            "train.schedule": "constant",
            "train.lr": 0.002,
            "train.weight_decay": 0.02,
            "train.steps": 2**20,
            "train.batch_size": 128,
            "train.labeled_batch_size": 64,
            "method.unlabeled_weight": 75.0,
            "method.ema_decay": 0.999,
        },
        EQUAL: SAME,
    },
    "uda": {
        ORIGINAL: {
            **FIXMATCH,
            "train.steps": 500_000,
            "method.ema_decay": 0.9999,
            "method.threshold": 0.8,
            "method.temperature": 0.4,
        },
        EQUAL: SAME,
    },
    "fixmatch": {ORIGINAL: {**FIXMATCH, "method.threshold": 0.95}, EQUAL: SAME},
    "flexmatch": {ORIGINAL: {**FIXMATCH, "method.threshold": 0.95}, EQUAL: SAME},
    "freematch": {ORIGINAL: {**FIXMATCH, "method.momentum": 0.999, "method.fairness": 0.001}, EQUAL: SAME},
    "softmatch": {ORIGINAL: {**FIXMATCH, "method.momentum": 0.999, "method.n_sigma": 2.0}, EQUAL: SAME},
    "adamatch": {ORIGINAL: {**FIXMATCH, "method.threshold": 0.95, "method.momentum": 0.999}, EQUAL: SAME},
    "simmatch": {
        ORIGINAL: {
            **FIXMATCH,
            "method.threshold": 0.95,
            "method.temperature": 0.1,
            "method.smoothing": 0.9,
            "method.teacher": "student",
            "method.bank_momentum": 0.7,
            "method.momentum": 0.94,
        },
        EQUAL: SAME,
    },
}


PRESETS = {**CONSISTENCY, **OWN}

# 31 of 128; 180 epochs of 31 steps over 4 000 labeled images, then 180 of ⌊46 000/97⌋
ISCEN_ON_CIFAR100: Overrides = {"train.lr": 0.2, "train.batch_size": 128, "train.labeled_batch_size": 31}
DECAY_ON_CIFAR100: Overrides = {"train.weight_decay": 1e-3}
ON_CIFAR100: dict[str, Overrides] = {
    "lp": {**ISCEN_ON_CIFAR100, "train.steps": 90_900, "method.first_stage": 5_580 / 90_900},
    "mt-lp": {**ISCEN_ON_CIFAR100, "train.steps": 170_640},
    "sntg": {"method.base": "pi-model", "method.consistency": 100.0},  # what the published number is of
    # the published number is that of 240 epochs, two cycles
    "fast-swa": {
        **ISCEN_ON_CIFAR100,
        "train.weight_decay": 2e-4,
        "train.steps": 113_760,
        "method.ramp_up": 5 / 240,
        "method.n_cycles": 2,
        "method.cycle": 30 / 240,
    },
    "dual-student": {**ISCEN_ON_CIFAR100, "train.weight_decay": 2e-4, "train.steps": 142_200},
    **dict.fromkeys(("fixmatch", "flexmatch", "freematch", "softmatch", "adamatch", "simmatch"), DECAY_ON_CIFAR100),
}
"""What `original` has otherwise on CIFAR-100."""
OWN_ON_CIFAR100: dict[str, Overrides] = {
    "temporal-ensembling": {"method.consistency": 100.0},
    "dual-student": {"method.threshold": 0.4},
    "mixmatch": {"method.unlabeled_weight": 150.0},
}
"""What both presets have otherwise there: weights and thresholds that the authors fit to the number of classes."""


def method_preset(method: str, preset: str, *, data: str = "") -> Overrides:
    """The settings, as `section.field`, of one method under one preset; a pair that does not exist is refused.

    `data` names the data set where it may matter.
    """
    known = PRESETS.get(method, {})
    if preset not in known:
        others = [name for name in PRESETS if preset in PRESETS[name]]
        choice = f"choose --preset {' or '.join(known)}" if known else f"these methods have it: {', '.join(others)}"
        raise InputError(f"--preset {preset}: the method {method} has no settings of that name; {choice}")
    return {**known[preset], **(on_cifar100(method, preset) if data == "cifar100" else {})}


def on_cifar100(method: str, preset: str) -> Overrides:
    """What a preset of the method has otherwise on CIFAR-100."""
    if preset not in PRESETS.get(method, {}):
        return {}
    return {**OWN_ON_CIFAR100.get(method, {}), **(ON_CIFAR100.get(method, {}) if preset == ORIGINAL else {})}
