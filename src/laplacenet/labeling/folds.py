"""Which given labels are kept from network and graph, so that they can judge them."""

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from laplacenet.data import UNKNOWN
from laplacenet.runtime import stream

NEVER = -1
"""The fold of a row that is never hidden: it has no label, or its class would be left with none."""


def stratified_folds(given: Int64[Tensor, " n"], n_folds: int, *, seed: int) -> Int64[Tensor, " n"]:
    """The fold of every given label: folds of one size, to which every class gives as evenly as it can.

    A class with no more labels than folds loses one label at a time at most; the only label of a class is never hidden.
    """
    folds = torch.full_like(given, NEVER)
    n_dealt = 0
    for number in range(int(given.max()) + 1):
        members = torch.nonzero(given == number).flatten().numpy()
        if len(members) < 2:
            continue
        dealt = torch.from_numpy(np.arange(n_dealt, n_dealt + len(members)) % n_folds)
        folds[torch.from_numpy(stream(seed, "labeling/folds", number).permutation(members))] = dealt
        n_dealt += len(members)
    return folds


def without_fold(given: Int64[Tensor, " n"], folds: Int64[Tensor, " n"], fold: int) -> Int64[Tensor, " n"]:
    """The given labels, those of one fold hidden."""
    return torch.where(folds == fold, UNKNOWN, given)
