"""The classes' shares that labels are aligned to, from a word or from numbers."""

import math

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from laplacenet.graph.priors import shrunk_shares
from laplacenet.runtime import InputError

PRIORS = ("shrunk", "labeled", "equal")


def class_shares(prior: str, given: Int64[Tensor, " n"], n_classes: int) -> tuple[float, ...]:
    """`shrunk`, `labeled`, `equal`, or a number for each class with commas between; as shares that sum to 1.

    A class of which no label is left keeps half a label's share: a share of zero would be a belief that it is empty.
    """
    if prior not in PRIORS:
        return numbers(prior, n_classes)
    if prior == "equal":
        return (1 / n_classes,) * n_classes
    counts = torch.bincount(given[given >= 0], minlength=n_classes).numpy()
    shares = np.maximum(counts, 0.5) if prior == "labeled" else shrunk_shares(counts)
    shares = np.maximum(shares, 0.5 * shares.sum() / max(1, counts.sum()))
    return tuple((shares / shares.sum()).tolist())


def numbers(prior: str, n_classes: int) -> tuple[float, ...]:
    accepted = f"choose {', '.join(PRIORS)} or give {n_classes} positive numbers, a class each, with commas between"
    try:
        shares = [float(part) for part in prior.split(",")]
    except ValueError as error:
        raise InputError(f"--prior {prior}: {accepted}") from error
    if len(shares) != n_classes or not all(math.isfinite(share) and share > 0 for share in shares):
        raise InputError(f"--prior {prior}: {accepted}")
    return tuple(share / sum(shares) for share in shares)
