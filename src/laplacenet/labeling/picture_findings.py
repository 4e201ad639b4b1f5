"""What the stages of a labeling of pictures come to: the estimate, two temperatures, suspects, and the labels."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from laplacenet.labeling.calibration import calibrate, fit_temperature
from laplacenet.labeling.estimate import FEWEST, estimate_accuracy
from laplacenet.labeling.evidence import no_evidence, score_evidence
from laplacenet.labeling.findings import Findings
from laplacenet.labeling.intervals import LEVEL
from laplacenet.labeling.label_pass import LabelPass, vote
from laplacenet.labeling.pictures import Passes
from laplacenet.labeling.result import Calibration, ClassEstimate, Estimate


@dataclass(frozen=True, eq=False)
class PictureFindings:
    """`network_temperature` is that of the network's own outputs, for pictures that come later."""

    findings: Findings
    estimate: Estimate
    calibration: Calibration | None
    network_temperature: float
    prior: tuple[float, ...]
    n_unreachable: int


def picture_findings(
    passes: Passes, latest: LabelPass, given: Int64[Tensor, " n"], *, class_names: tuple[str, ...]
) -> PictureFindings:
    """`latest` gives the labels; the stage that hid a fifth of them gives the estimate and the temperatures."""
    calibration, network_temperature = None, 1.0
    judged = torch.full_like(latest.graph, torch.nan)
    estimate = no_estimate(class_names, passes)
    if passes.estimate is not None and passes.folds is not None:
        is_hidden = passes.folds == 0
        evidence = passes.estimate.evidence
        calibration = calibrate(evidence.rows(is_hidden), given[is_hidden])
        network_temperature = fit_temperature(score_evidence(passes.estimate.network).rows(is_hidden), given[is_hidden])
        judged = torch.where(is_hidden[:, None], evidence.at(temperature_of(calibration)), judged)
        estimate = estimate_accuracy(judged, given, latest.prior, method=method(passes.folds), class_names=class_names)
    temperature = temperature_of(calibration)
    voted = vote([latest, *passes.voters])
    unseen = torch.where(judged.isnan(), suspect_scores(passes, given, judged.shape[1]), judged)
    findings = Findings(voted.evidence, temperature, unseen, voted.finders, latest.features)
    prior = tuple(latest.prior.tolist())
    n_unreachable = int(latest.unreachable.sum())
    return PictureFindings(findings, estimate, calibration, network_temperature, prior, n_unreachable)


def temperature_of(calibration: Calibration | None) -> float:
    return 1.0 if calibration is None else calibration.temperature


def suspect_scores(passes: Passes, given: Int64[Tensor, " n"], n_classes: int) -> Float[Tensor, "n C"]:
    """Scores of given rows by the network that did not see their labels; shorter training asks for a temperature of its
    own. NaN where no network was kept from a label."""
    evidence = no_evidence(len(given), n_classes)
    for fold, found in passes.suspects.items():
        assert passes.folds is not None
        evidence = evidence.to(passes.folds == fold, found.evidence)
    is_judged = ~evidence.logits.isnan().any(dim=1)
    if not bool(is_judged.any()):
        return evidence.at(1.0)
    return evidence.at(fit_temperature(evidence.rows(is_judged), given[is_judged]))


def method(folds: Int64[Tensor, " n"]) -> str:
    """Which labels were kept from what, in sentences."""
    n_hidden, n_folds = int((folds == 0).sum()), int(folds.max()) + 1
    part = {5: "A fifth", 4: "A quarter", 3: "A third"}[n_folds]
    return (
        f"{part} of the given labels, {n_hidden} of all classes with two or more, was hidden from the network and from"
        " the graph; both then labeled these pictures like all others. Afterwards these labels were given back and the"
        " network was trained on, so the labels that came out should be slightly better than this says."
    )


def no_estimate(class_names: tuple[str, ...], passes: Passes) -> Estimate:
    reason = (
        f"No estimate: fewer than {FEWEST} given labels could be hidden without taking a third of them or a class's"
        " only one. Give more labels, at least three of each class."
        if passes.folds is None
        else "No estimate yet: the labels that will judge are still hidden."
    )
    classes = tuple(ClassEstimate(name, 0, None) for name in class_names)
    return Estimate(method=reason, level=LEVEL, n=0, accuracy=None, classes=classes)
