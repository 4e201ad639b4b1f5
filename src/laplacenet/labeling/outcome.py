"""What a labeling leaves in its run folder."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from laplacenet.data import ImageSet
from laplacenet.labeling.estimate import WRONG_SHARE, suspect_labels
from laplacenet.labeling.evidence import Evidence
from laplacenet.labeling.gallery import save_gallery, shown_rows
from laplacenet.labeling.job import Job
from laplacenet.labeling.result import SOURCES, Labeling, Summary, save_labeling, write_labels
from laplacenet.runtime import RunFolder


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
    suspect_ratio: float = (1 - WRONG_SHARE) / WRONG_SHARE


def labeling_of(
    findings: Findings,
    summary: Summary,
    positions: Float[Tensor, "n 2"],
    *,
    names: tuple[str, ...],
    given: Int64[Tensor, " n"],
) -> Labeling:
    """Given labels stay; the scores of a suspect one are those that contradict it."""
    is_suspect = suspect_labels(findings.unseen, given, least_ratio=findings.suspect_ratio)
    scores = findings.evidence.at(findings.temperature)
    scores = torch.where(is_suspect[:, None], findings.unseen, scores)
    return Labeling(
        summary=summary,
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


def write_outcome(folder: RunFolder, labeling: Labeling, job: Job) -> None:
    """The pictures that its page shows, the labeling for other commands, and the labels for everybody, last."""
    rows = job.collection.rows
    if isinstance(rows, ImageSet):
        shown = shown_rows(labeling)
        save_gallery(folder.path, shown, rows.images[shown])
    save_labeling(folder.path, labeling)
    write_labels(folder.path, labeling)
