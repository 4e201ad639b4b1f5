"""How far a share that was counted on a few may lie from the share among all."""

import math

from jaxtyping import Bool, Float
from scipy.stats import norm
from torch import Tensor

from laplacenet.labeling.result import Interval

LEVEL = 0.95


def wilson(share: float, n: float | int, *, level: float = LEVEL) -> Interval:
    """Wilson's score interval, which keeps its level with few trials and at shares near 0 and 1.

    `n` need not be whole: trials that count unequally are worth fewer than there are of them.
    """
    z = float(norm.ppf((1 + level) / 2))
    center = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return Interval(share, max(0.0, min(share, center - reach)), min(1.0, max(share, center + reach)))


def share_among(
    is_right: Bool[Tensor, " m"], weights: Float[Tensor, " m"], *, n_others: int, level: float = LEVEL
) -> Interval:
    """The share that is right among `n_others` rows, from rows drawn like them of which some count more.

    Kish's effective number of trials is (Σw)²/Σw². The others are a draw too: 1/n + 1/n_others is their joint variance.
    """
    total = weights.double().sum()
    n_effective = float(total**2 / weights.double().square().sum())
    n = 1 / (1 / n_effective + 1 / max(1, n_others))
    return wilson(float((weights.double() * is_right).sum() / total), n, level=level)
