"""Accuracy of a network or a graph; unknown labels (−1) do not count."""

from jaxtyping import Bool, Int64
from torch import Tensor

from laplacenet.models import Inference
from laplacenet.runtime import InputError


def error_rate(inference: Inference, inputs: Tensor, labels: Int64[Tensor, " n"]) -> float:
    """The top-1 error in [0, 1] over the inputs whose label is known."""
    return share(~correct(inference, inputs, labels))


def errors_by_class(
    is_right: Bool[Tensor, " n_known"], labels: Int64[Tensor, " n"], *, n_classes: int
) -> list[float | None]:
    """The error among the inputs of each class, from what is `correct`; None for a class that has none."""
    classes = labels[labels >= 0].to(is_right.device)
    members = [is_right[classes == number] for number in range(n_classes)]
    return [share(~rows) if len(rows) else None for rows in members]


def correct(inference: Inference, inputs: Tensor, labels: Int64[Tensor, " n"]) -> Bool[Tensor, " n_known"]:
    """argmax f(x_i) = y_i, for the inputs whose label is known."""
    is_known = labels >= 0
    if not bool(is_known.any()):
        raise InputError("no label is known, so there is nothing to judge by")
    predicted = inference.logits(inputs).argmax(dim=1)
    is_right: Tensor = predicted == labels.to(predicted.device)
    return is_right[is_known.to(predicted.device)]


def pseudo_label_accuracy(
    pseudo_labels: Int64[Tensor, " n"], true_labels: Int64[Tensor, " n"], given_labels: Int64[Tensor, " n"]
) -> float | None:
    """The accuracy of pseudo-labels on hidden labels whose truth is known; None if there are none."""
    is_judged = (given_labels < 0) & (true_labels >= 0)
    if not bool(is_judged.any()):
        return None
    found = pseudo_labels.to(true_labels.device) == true_labels
    return share(found[is_judged])


def share(is_so: Bool[Tensor, " n"]) -> float:
    """Counted exactly: a mean in single precision is off in the eighth digit."""
    return int(is_so.sum()) / len(is_so)
