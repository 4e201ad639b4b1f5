"""How sure a classifier can be whose features have length 1.

Its logits are at most as large as its weights, and weight decay keeps these small. A method that waits for a
probability of 0.95 may then never use an unlabeled image, without a warning.
"""

import math

from laplacenet.experiments.experiment import Experiment


def largest_confidence(n_classes: int, *, decay: float) -> float:
    """The probability of the right class where cross-entropy and weight decay hold the balance.

    For classes of equal size whose features have become one vector each, as far apart as possible: the classifier's
    rows are then s times these vectors, and the gradient of the cross-entropy, (1 − p)/(C − 1) along each, equals
    decay · s.
    """
    from scipy.optimize import brentq  # noqa: PLC0415 - takes 0.3 s, and most runs have no threshold

    if decay == 0 or n_classes < 2:
        return 1.0

    def confidence(s: float) -> float:
        return 1 / (1 + (n_classes - 1) * math.exp(-s * n_classes / (n_classes - 1)))

    most = 1 / ((n_classes - 1) * decay)  # where p would have to be 0
    return confidence(brentq(lambda s: (1 - confidence(s)) / (n_classes - 1) - decay * s, 0, most))


def confidence_notes(experiment: Experiment, *, n_classes: int) -> list[str]:
    """A warning where a method's threshold lies above what the network can reach."""
    train, model = experiment.train, experiment.model
    threshold = getattr(experiment.method, "threshold", None) if experiment.method.threshold_is_fixed else None
    if threshold is None or model.name != "13-cnn" or not model.unit_length or train.optimizer == "adamw":
        return []
    decay = train.weight_decay if train.head_decay is None else train.head_decay
    largest = largest_confidence(n_classes, decay=decay)
    if threshold <= largest:
        return []
    return [
        f"method.threshold = {threshold} can hardly be reached: with features of length 1 and a weight decay of"
        f" {decay:g} the network gives its {n_classes} classes probabilities up to about {largest:.2f};"
        " --set model.unit_length=false lets it be surer"
    ]
