"""Which rows may show their label."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from laplacenet.data.images import UNKNOWN, describe_value
from laplacenet.runtime import InputError, stream


@dataclass(frozen=True, eq=False)
class Split:
    """The rows, of `n` in all, whose labels may be seen: ascending, none twice."""

    labeled: Int64[Tensor, " n_labeled"]
    n: int

    def __post_init__(self) -> None:
        labeled: object = self.labeled
        if not isinstance(labeled, Tensor) or labeled.dtype != torch.int64 or labeled.ndim != 1:
            raise InputError(f"a split needs an int64 tensor of row numbers; got {describe_value(labeled)}")
        if len(labeled) == 0:
            raise InputError("a split needs at least one labeled row; got none")
        if not bool((labeled.diff() > 0).all()):
            raise InputError("the rows of a split must ascend, none twice")
        smallest, largest = int(labeled[0]), int(labeled[-1])
        if smallest < 0 or largest >= self.n:
            outside = smallest if smallest < 0 else largest
            raise InputError(f"the split names row {outside}; there are rows 0 to {self.n - 1}")

    def __len__(self) -> int:
        return len(self.labeled)


def balanced_split(labels: Int64[Tensor, " n"], n_labeled: int, seed: int) -> Split:
    """As many rows of every class, drawn from the seed; a larger split of the same seed contains a smaller one."""
    known = labels[labels >= 0].cpu()
    if len(known) == 0:
        raise InputError("no row has a known label to draw a split from")
    counts = torch.bincount(known).tolist()
    if n_labeled < 1 or n_labeled % len(counts):
        raise InputError(
            f"{n_labeled} labels cannot be shared equally by {len(counts)} classes; choose a multiple of {len(counts)}"
        )
    n_per_class = n_labeled // len(counts)
    for number, count in enumerate(counts):
        if count < n_per_class:
            raise InputError(
                f"{n_labeled} labels are {n_per_class} for each class, but class {number} has {count} rows;"
                f" choose at most {min(counts) * len(counts)}"
            )
    members = [np.flatnonzero(labels.cpu().numpy() == number) for number in range(len(counts))]
    drawn = [
        stream(seed, "balanced-split", number).permutation(rows)[:n_per_class] for number, rows in enumerate(members)
    ]
    return Split(torch.from_numpy(np.sort(np.concatenate(drawn))), n=len(labels))


def hide_labels(labels: Int64[Tensor, " n"], split: Split) -> Int64[Tensor, " n"]:
    """The labels of the split; −1 everywhere else."""
    if len(labels) != split.n:
        raise InputError(f"the split is of {split.n} rows, the labels are {len(labels)}")
    rows = split.labeled.to(labels.device)
    hidden = torch.full_like(labels, UNKNOWN)
    hidden[rows] = labels[rows]
    return hidden
