"""The loss weights of Iscen et al. (2019), which the paper tried: certain labels and rare classes count more."""

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from laplacenet.graph import PseudoLabels


def certainty(scores: Float[Tensor, "n C"]) -> Float[Tensor, " n"]:
    """ω_i = 1 − H(ẑ_i)/log C: 1 where one class has all of the score, 0 where all classes share it equally."""
    entropy = -torch.xlogy(scores, scores).sum(dim=1)
    most = math.log(max(2, scores.shape[1]))  # a class that is alone is certain: its entropy is 0
    return (1 - entropy / most).clamp(0, 1)


def inverse_class_sizes(labels: Int64[Tensor, " n"], n_classes: int) -> Float[Tensor, " C"]:
    """ζ_j = 1/|class j|, times n/C: a balanced set is weighted by one, so the learning rate keeps its meaning."""
    counts = torch.bincount(labels, minlength=n_classes)
    return len(labels) / (n_classes * counts.clamp(min=1))


def iscen_weights(pseudo_labels: PseudoLabels, given: Int64[Tensor, " n"], *, n_classes: int) -> Float[Tensor, " n"]:
    """ω_i·ζ_ŷi of every image; a given label is certain."""
    is_given = given.to(pseudo_labels.scores.device) >= 0
    omega = torch.where(is_given, 1.0, certainty(pseudo_labels.scores))
    return omega * inverse_class_sizes(pseudo_labels.labels, n_classes)[pseudo_labels.labels]
