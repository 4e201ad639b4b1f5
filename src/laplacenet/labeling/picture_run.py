"""A labeling of pictures, from its rows to its run folder, in one session or several."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from laplacenet.data import ImageSet
from laplacenet.labeling.choices import picture_choices
from laplacenet.labeling.estimate import FEW, FEWEST, LEVEL, calibrate, estimate_accuracy, fit_temperature
from laplacenet.labeling.evidence import no_evidence, score_evidence
from laplacenet.labeling.job import Job
from laplacenet.labeling.label_pass import LabelPass, vote
from laplacenet.labeling.outcome import Findings, labeling_of, map_positions, principal_components, write_outcome
from laplacenet.labeling.pictures import Passes, PictureStages
from laplacenet.labeling.result import SUMMARY, Calibration, ClassEstimate, Estimate, Summary, read_labeling_file
from laplacenet.labeling.stage_plan import ESTIMATE, full_plan, reporting_s
from laplacenet.labeling.stages import LabelingContext, StageEpoch, planned_config, trained_network
from laplacenet.models import Inference, Network, save_model
from laplacenet.runtime import InputError, NullMonitor, RunFolder, current_group
from laplacenet.training import Execution
from laplacenet.training.guards import require_trainable


@dataclass(frozen=True, eq=False)
class PictureFindings:
    """`network_temperature` is that of the network's own outputs, for new pictures."""

    findings: Findings
    estimate: Estimate
    calibration: Calibration | None
    network_temperature: float
    prior: tuple[float, ...]
    n_unreachable: int


def picture_findings(
    passes: Passes, latest: LabelPass, given: Int64[Tensor, " n"], *, class_names: tuple[str, ...]
) -> PictureFindings:
    """`latest` gives the labels; the stage that held out a fifth of them gives the estimate and the temperatures."""
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
    """Scores of given rows by the network that did not see their labels, with a temperature of its own, since its
    training was shorter. NaN for labels that every network saw.
    """
    evidence = no_evidence(len(given), n_classes)
    for fold, found in passes.suspects.items():
        assert passes.folds is not None
        evidence = evidence.with_rows(passes.folds == fold, found.evidence)
    is_judged = ~evidence.logits.isnan().any(dim=1)
    if not bool(is_judged.any()):
        return evidence.at(1.0)
    return evidence.at(fit_temperature(evidence.rows(is_judged), given[is_judged]))


def method(folds: Int64[Tensor, " n"]) -> str:
    """How the accuracy was estimated, in words."""
    n_hidden, n_folds = int((folds == 0).sum()), int(folds.max()) + 1
    part = {5: "A fifth", 4: "A quarter", 3: "A third"}[n_folds]
    return (
        f"{part} of the given labels, {n_hidden} of all classes that have at least two, was hidden from the network and"
        " from the graph; both then labeled these pictures like all others. Afterwards these labels were given back and"
        " the network was trained on, so the labels that came out should be slightly better than this says."
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


class PictureRun:
    """One session of a labeling of pictures.

    `choices` are sentences. `step_s` is the duration of a step, None if the user gave the number of steps; `ends_at` is
    when all must be done, by `time.monotonic`; `elapsed_before_s` is the time of earlier sessions.
    """

    def __init__(
        self,
        context: LabelingContext,
        choices: tuple[str, ...],
        *,
        step_s: float | None,
        ends_at: float | None,
        elapsed_before_s: float = 0.0,
    ) -> None:
        self.context, self.choices, self.elapsed_before_s = context, choices, elapsed_before_s
        self.ends_at = ends_at
        trains_until = ends_at
        if ends_at is not None:
            trains_until = ends_at - reporting_s(len(context.rows), ends_at - context.started_at)
        self.stages = PictureStages(context, step_s=step_s, ends_at=trains_until)

    def epochs(self) -> Iterator[StageEpoch]:
        """Train what is left to train; afterwards the folder holds the labels, complete or not."""
        previous = None
        for record in self.stages.epochs():
            if previous == ESTIMATE and record.stage != ESTIMATE:
                self._keep(is_complete=False)  # so that a power failure cannot lose it
            previous = record.stage
            yield record
        has_labels, is_complete = current_group().by_first(lambda: (self.stages.has_labels, self.stages.are_done))
        if has_labels:
            self._keep(is_complete=is_complete)

    def _keep(self, *, is_complete: bool) -> None:
        """Write labels, model and summary from the last label pass; if there is none, all processes make one now."""
        group, current, look = current_group(), self.stages.current, None
        if not group.by_first(lambda: self.stages.has_leading_pass):
            if current is None:
                return
            look = current.look()
        group.by_first(lambda: self._write(look, is_complete=is_complete))

    def _write(self, look: LabelPass | None, *, is_complete: bool) -> None:
        """`look` is a label pass of the current network, if no finished stage has one."""
        job, passes = self.context.job, self.stages.passes()
        network, latest = self._last_network(passes.latest, look)
        result = picture_findings(passes, latest, job.given, class_names=job.class_names)
        features = latest.features
        positions = (
            map_positions(features, seed=job.settings.seed) if is_complete else principal_components(features, 2)[:, :2]
        )
        summary = self._summary(result, is_complete=is_complete)
        labeling = labeling_of(result.findings, summary, positions, names=job.collection.names, given=job.given)
        estimate = job.tested(result.estimate, labeling.labels, self._predicted(network))
        summary = replace(summary, estimate=estimate, elapsed_s=self._elapsed_s())
        save_model(self.context.folder.path, network, self.context.description(result.network_temperature))
        write_outcome(self.context.folder, replace(labeling, summary=summary), job)

    def _last_network(self, latest: tuple[str, LabelPass] | None, look: LabelPass | None) -> tuple[Network, LabelPass]:
        """The network that gave the last labels, with them."""
        if latest is None:
            assert self.stages.current is not None
            assert look is not None
            return self.stages.current.network, look
        name, found = latest
        return trained_network(self.context, name), found

    def _predicted(self, network: Network) -> Int64[Tensor, " m"] | None:
        judges = self.context.job.judges
        if judges is None or not isinstance(judges.rows, ImageSet) or self.context.job.are_judges_inside:
            return None
        inference = Inference(network.to(self.context.execution.device), self.context.views.plain)
        return inference.logits(judges.rows.images).argmax(dim=1).cpu()

    def _elapsed_s(self) -> float:
        return self.elapsed_before_s + time.monotonic() - self.context.started_at

    def _summary(self, found: PictureFindings, *, is_complete: bool) -> Summary:
        job = self.context.job
        return Summary(
            title=job.settings.name,
            kind="pictures",
            class_names=job.class_names,
            prior=found.prior,
            choices=self.choices,
            notes=(*job.notes, *self.stages.notes(), *remarks(found, is_complete=is_complete)),
            estimate=found.estimate,
            calibration=found.calibration,
            n_skipped=len(job.collection.skipped),
            is_complete=is_complete,
            elapsed_s=0.0,
        )


def remarks(found: PictureFindings, *, is_complete: bool) -> list[str]:
    """Warnings about the labels."""
    notes = []
    if not is_complete:
        notes.append("not finished: these are the labels of the last stage that is, or of the network as it was")
    if found.n_unreachable:
        notes.append(f"no label reaches {found.n_unreachable} pictures over the graph; the network alone labels them")
    if found.calibration is None:
        notes.append("no labels were kept to calibrate by, so confidences are the network's and the graph's own")
    elif found.calibration.n < FEW:
        notes.append(f"confidences are calibrated on {found.calibration.n} labels only, so they are rough")
    return notes


def require_trainable_job(job: Job, execution: Execution) -> None:
    """Refuse a network that cannot read these pictures, also as small as `train.small_scale` makes them, and a crop
    larger than they are, before anything is written.
    """
    settings, nowhere = job.settings, RunFolder(Path())
    context = LabelingContext(job, nowhere, execution, NullMonitor(), 0.0)
    height, width = context.rows.images.shape[2:]
    settings.augment.pad_for(height, width)
    example = context.views.plain(context.rows.images[:1])
    require_trainable(context.description().build(), example, settings.train, name=settings.model.name)


def picture_run(context: LabelingContext, *, step_s: float | None, why: tuple[str, ...] = ()) -> PictureRun:
    limit_s = context.job.settings.time.limit_s
    return PictureRun(
        context,
        (*why, *picture_choices(context.job, steps=first_steps(context), step_s=step_s)),
        step_s=step_s,
        ends_at=None if limit_s is None else context.started_at + limit_s,
        elapsed_before_s=elapsed_before_s(context.folder),
    )


def first_steps(context: LabelingContext) -> int:
    """Of the first stage: those with which it began, in this session or an earlier one."""
    begun = planned_config(context, full_plan(context).names[0])
    return context.job.settings.train.steps if begun is None else int(begun["steps"])


def elapsed_before_s(folder: RunFolder) -> float:
    """The time of earlier sessions, as far as it was recorded; a damaged file will be rewritten."""
    try:
        return read_labeling_file(folder.path).summary.elapsed_s if folder.has(SUMMARY) else 0.0
    except InputError:
        return 0.0
