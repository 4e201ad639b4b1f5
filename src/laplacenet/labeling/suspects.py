"""Given labels that are more likely wrong than right."""

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

WRONG_SHARE = 0.05
"""How many given labels are taken to be wrong before any is looked at: one in twenty."""


def suspect_labels(unseen: Float[Tensor, "n C"], given: Int64[Tensor, " n"]) -> Bool[Tensor, " n"]:
    """Where a class other than the given one is so much likelier that a slip is the better explanation.

    If one label in twenty is wrong, and then says something else than the likeliest class, the odds of a slip are
    0.05 · p(likeliest) to 0.95 · p(given). `unseen` are calibrated, NaN for rows without such scores.
    """
    is_judged = (given >= 0) & ~unseen.isnan().any(dim=1)
    likeliest, found = unseen.nan_to_num(0).max(dim=1)
    own = unseen.nan_to_num(0).gather(1, given.clamp(min=0)[:, None]).squeeze(1)
    is_slip = WRONG_SHARE * likeliest > (1 - WRONG_SHARE) * own
    return is_judged & (found != given) & is_slip


def n_agreeing(unseen: Float[Tensor, "n C"], given: Int64[Tensor, " n"]) -> tuple[int, int]:
    """Of the given labels with unseen scores, how many these scores agree with, and how many there are."""
    is_judged = (given >= 0) & ~unseen.isnan().any(dim=1)
    is_same = unseen.nan_to_num(0).argmax(dim=1) == given
    return int((is_judged & is_same).sum()), int(torch.count_nonzero(is_judged))
