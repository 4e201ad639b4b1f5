"""From evidence to a labeling: labels, calibrated scores, suspects."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from laplacenet.labeling.evidence import Evidence
from laplacenet.labeling.result import SOURCES, Account, Labeling
from laplacenet.labeling.suspects import suspect_labels


@dataclass(frozen=True, eq=False)
class Findings:
    """What is known of every row when all labels have been seen, and what was known of given rows before theirs was.

    `unseen` are probabilities, NaN where there are none; `finders` are places in SOURCES: who found each row's label.
    """

    evidence: Evidence
    temperature: float
    unseen: Float[Tensor, "n C"]
    finders: UInt8[Tensor, " n"]
    features: Float[Tensor, "n d"]


def labeling_of(
    findings: Findings,
    account: Account,
    positions: Float[Tensor, "n 2"],
    *,
    names: tuple[str, ...],
    given: Int64[Tensor, " n"],
) -> Labeling:
    """Given labels stay; the scores of a suspect one are those that contradict it."""
    is_suspect = suspect_labels(findings.unseen, given)
    scores = findings.evidence.at(findings.temperature)
    scores = torch.where(is_suspect[:, None], findings.unseen, scores)
    return Labeling(
        account=account,
        names=names,
        given=given,
        labels=torch.where(given >= 0, given, scores.argmax(dim=1)),
        scores=scores,
        sources=torch.where(given >= 0, SOURCES.index("given"), findings.finders).to(torch.uint8),
        unseen_scores=findings.unseen,
        is_suspect=is_suspect,
        features=findings.features,
        positions=positions,
    )
