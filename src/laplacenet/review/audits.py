"""Estimate the accuracy of all labels from answers that the model has not seen.

Questions chosen because they are hard are a biased sample. So a fifth of the questions is drawn at random from the
pictures without an answer, and those answers are held out from the model until the queue or a grid would have asked for
that picture anyway. The answers still held out are then a uniform sample of all pictures that the model labels itself:
which pictures it learns from does not depend on which were drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from laplacenet.labeling.estimate import wilson

FEWEST = 50
"""With fewer audits only the range is shown."""
GOALS = (0.90, 0.95, 0.99)
LEAST_POINTS = 4


@dataclass(frozen=True)
class AccuracyEstimate:
    """Share of all labels that are right: `low` to `high` with 95 % confidence; `value` is None below 50 audits."""

    n_audits: int
    value: float | None
    low: float
    high: float


def estimate_accuracy(n_right: int, n_audits: int, *, n_known: int, n_pictures: int) -> AccuracyEstimate:
    """`n_right` of `n_audits` kept-back answers are what the model says; `n_known` pictures have a person's label."""
    n_others = n_pictures - n_known
    if n_pictures == 0 or n_others == 0:
        share = 1.0 if n_pictures else 0.0
        return AccuracyEstimate(n_audits, share, share, 1.0)
    known = n_known / n_pictures
    if n_audits == 0:
        return AccuracyEstimate(0, None, known, 1.0)
    found = wilson(n_right / n_audits, n_audits, n_others=n_others)
    value, low, high = (known + (1 - known) * share for share in (found.value, found.low, found.high))
    return AccuracyEstimate(n_audits, value if n_audits >= FEWEST else None, low, high)


def answers_to_goals(
    estimate: AccuracyEstimate,
    doubts: Float64[np.ndarray, " m"],
    *,
    n_pictures: int,
    curve: Sequence[tuple[float, float]],
) -> dict[float, int | None]:
    """About how many more answers each goal takes; None while the estimate is not known.

    `doubts` are 1 − confidence of the pictures without an answer, `curve` earlier (answers, accuracy). If the model
    learned nothing more, the most doubtful pictures would be answered one by one: that many are enough. If accuracy
    goes on to rise as it did, fewer are.
    """
    if estimate.value is None:
        return dict.fromkeys(GOALS)
    n_wrong = (1 - estimate.value) * n_pictures
    doubts = np.sort(doubts)[::-1]
    left = n_wrong * (1 - np.cumsum(doubts) / max(float(doubts.sum()), 1e-12))
    needed: dict[float, int | None] = {}
    for goal in GOALS:
        if estimate.value >= goal:
            needed[goal] = 0
            continue
        enough = left <= (1 - goal) * n_pictures + 1e-9
        one_by_one = int(np.argmax(enough)) + 1 if enough.any() else len(doubts)
        needed[goal] = max(1, min(one_by_one, along_the_curve(curve, goal) or one_by_one))
    return needed


def along_the_curve(curve: Sequence[tuple[float, float]], goal: float) -> int | None:
    """More answers until error = a · answers^(−b), fitted to what was measured, falls below the goal."""
    points = np.array([(n, 1 - accuracy) for n, accuracy in curve if n > 0 and accuracy < 1])
    if len(points) < LEAST_POINTS:
        return None
    slope, offset = np.polyfit(np.log(points[:, 0]), np.log(points[:, 1]), 1)
    if slope > -0.2:
        return None
    total = np.exp((np.log(1 - goal) - offset) / slope)
    return max(1, int(np.ceil(total - points[-1, 0])))
