"""Of several processes each searches for a part of the points, in whole blocks, and has the neighbors of all.

One block is computed in the same way whoever does it, so that neighbors do not depend on the number of processes.
"""

import math

from jaxtyping import Float, Int
from torch import Tensor

from laplacenet.runtime.group import Group

Found = tuple[Float[Tensor, "found k"], Int[Tensor, "found k"]]


def own_rows(n: int, n_at_once: int, group: Group) -> slice:
    """This process's share of n rows that are searched so many at once."""
    blocks = group.part(math.ceil(n / n_at_once))
    return slice(min(n, blocks.start * n_at_once), min(n, blocks.stop * n_at_once))


def of_all(similarities: Float[Tensor, "own k"], indices: Int[Tensor, "own k"], group: Group) -> Found:
    """The rows of all processes; indices are sent in 32 bits where they fit."""
    if not group.reduces:
        return similarities, indices
    is_long = group.agree(bool(indices.numel()) and int(indices.max()) >= 2**31)
    return group.gather(similarities), group.gather(indices if is_long else indices.int()).to(indices.dtype)
