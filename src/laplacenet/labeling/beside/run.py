"""A session of training in addition to pretrained features, up to the labels of the better of the two."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from laplacenet.data import ImageSet, VectorSet
from laplacenet.graph.pseudo_labels import unit_rows
from laplacenet.graph.transform import RowTransform
from laplacenet.labeling.beside.contest import (
    BOTH,
    FROZEN,
    Candidate,
    Contest,
    FoldPlan,
    StagesBeside,
    Verdict,
    choose,
    describe_choice,
    verdict_of,
)
from laplacenet.labeling.beside.joined_model import JoinedModel, save_joined_model
from laplacenet.labeling.estimate import fit_temperature
from laplacenet.labeling.evidence import score_evidence
from laplacenet.labeling.feature_model import FeatureModel, fit_head
from laplacenet.labeling.features import FeatureLabels, save_pictures, summary_of
from laplacenet.labeling.job import Job
from laplacenet.labeling.outcome import labeling_of, map_positions
from laplacenet.labeling.pictures import describe_progress
from laplacenet.labeling.result import Labeling, save_labeling, write_labels
from laplacenet.labeling.stage_plan import (
    FEWEST_STEPS,
    FINAL,
    PASSES_PER_STAGE,
    measure_threads,
    number_of,
    reporting_s,
    threads_to_try,
    with_settings,
)
from laplacenet.labeling.stages import LabelingContext, StageEpoch, trained_network
from laplacenet.models import Inference, Network, save_model
from laplacenet.models.features import FeatureNetwork
from laplacenet.runtime import RunFolder, current_group
from laplacenet.runtime.settings import to_json


@dataclass(frozen=True, eq=False)
class FrozenRun:
    """What the pretrained features gave: the job with their vectors, the network, the labels, and why in sentences."""

    job: Job
    network: FeatureNetwork
    labels: FeatureLabels
    choices: tuple[str, ...]


class BesideRun:
    """`context` has the same pictures as images; what is trained is kept in its folder, so that a session can go on."""

    def __init__(self, frozen: FrozenRun, context: LabelingContext, folds: Int64[Tensor, " n"]) -> None:
        self.frozen = frozen
        settings, limit_s = context.job.settings, context.job.settings.time.limit_s
        assert limit_s is not None
        self.ends_at = context.started_at + limit_s
        trains_until = self.ends_at - reporting_s(len(context.rows), limit_s)
        numbers = [settings.threads] if settings.threads else threads_to_try(context)
        threads, step_s, pass_s = measure_threads(context, numbers)
        plan = FoldPlan(context, folds)
        group = current_group()
        steps = plan.steps_within(trains_until - time.monotonic(), step_s=step_s, pass_s=pass_s)
        train = group.by_first(lambda: plan.begun_config or replace(settings.train, steps=max(1, steps)))
        self.is_worthwhile = train.steps >= FEWEST_STEPS
        self.context = with_settings(context, replace(settings, threads=threads, train=train))
        self.stages = StagesBeside(self.context, step_s=None, ends_at=trains_until, plan=FoldPlan(self.context, folds))
        self.stages.vote_s = train.steps * step_s + PASSES_PER_STAGE * pass_s
        can_join = frozen.network.module is not None
        self.contest = Contest(self.context, self.stages, frozen.labels, frozen.job.settings.graph, can_join=can_join)
        self._candidates: list[Candidate] | None = None

    def epochs(self) -> Iterator[StageEpoch]:
        """Train what is left to train; the folder keeps the settings with which it began.

        The graph among them is that of the frozen features; training has its own by the number of rows.
        """
        settings = replace(self.context.job.settings, graph=self.frozen.job.settings.graph)
        group = current_group()
        group.by_first(lambda: self.context.folder.write_experiment(to_json(settings)))
        yield from self.stages.epochs_while(lambda: group.by_first(self.winner))

    @property
    def candidates(self) -> list[Candidate] | None:
        if self._candidates is None:
            self._candidates = self.contest.candidates()
        return self._candidates

    @property
    def chosen(self) -> Candidate | None:
        """None until the folds are done."""
        found = self.candidates
        return None if found is None else choose(found[0], found[1:])

    def winner(self) -> str:
        chosen = self.chosen
        return FROZEN if chosen is None else chosen.name

    @property
    def is_decided(self) -> bool:
        """Whether the winner can label the pictures."""
        return self.chosen is not None and (self.winner() == FROZEN or self.stages.is_done(FINAL))

    def sentences(self) -> tuple[str, ...]:
        """What was chosen by which numbers, or how far it got."""
        if self.candidates is None or self.chosen is None or not self.is_decided:
            got = describe_progress(self.stages.progress())
            return (
                f"The network trained in addition is not finished ({got}), so the labels of the pretrained features are"
                " kept.",
            )
        return (describe_choice(self.candidates, self.chosen, self.context.job.settings),)

    def write(self) -> Labeling | None:
        """Write the labels and the model of the winner; None if the frozen features are kept."""
        chosen = self.chosen
        if chosen is None or chosen.name == FROZEN or not self.is_decided:
            return None
        frozen, job, folder = self.frozen, self.frozen.job, self.context.folder
        verdict = verdict_of(self.contest, chosen)
        positions = map_positions(verdict.findings.features, seed=job.settings.seed)
        summary = summary_of(job, frozen.labels, (*frozen.choices, *self.sentences()), kind="pictures")
        summary = replace(summary, prior=verdict.prior, calibration=chosen.calibration)
        labeling = labeling_of(verdict.findings, summary, positions, names=job.collection.names, given=job.given)
        predicted = self._save_model(verdict, folder)
        estimate = job.tested(verdict.estimate, labeling.labels, predicted)
        elapsed_s = time.monotonic() - self.context.started_at
        labeling = replace(labeling, summary=replace(summary, estimate=estimate, elapsed_s=elapsed_s))
        save_pictures(folder, labeling, job.collection)
        save_labeling(folder.path, labeling)
        write_labels(folder.path, labeling)
        return labeling

    def _save_model(self, verdict: Verdict, folder: RunFolder) -> Int64[Tensor, " m"] | None:
        """Write the model for new pictures; returns its predictions for the test set, if there is one."""
        network = trained_network(self.context, FINAL)
        if verdict.candidate.name != BOTH:
            save_model(folder.path, network, self.context.description(self._network_temperature()))
            tests = self._test_inputs(network)
            return None if tests is None else network.cpu().head(tests[1]).argmax(dim=1)
        model = self._joined_model(verdict, network)
        save_joined_model(folder.path, model)
        tests = self._test_inputs(network)
        if tests is None:
            return None
        vectors, embeddings = tests
        frozen = model.frozen(vectors)
        return model.head.probabilities(torch.cat([frozen, unit_rows(embeddings)], dim=1)).argmax(dim=1)

    def _joined_model(self, verdict: Verdict, network: Network) -> JoinedModel:
        assert verdict.joined is not None
        land = verdict.joined
        job, features = self.frozen.job, self.frozen.network
        scores = verdict.findings.evidence.at(verdict.findings.temperature).to(land.X)
        labels = torch.where(job.given >= 0, job.given, scores.argmax(dim=1).cpu()).to(land.X.device)
        weights, offsets, temperature = fit_head(land.X, labels, scores, seed=job.settings.seed)
        head = FeatureModel(
            features=features.name,
            weights_file=job.settings.collection.weights,
            pixels=job.settings.collection.pixels,
            fingerprint=features.fingerprint,
            transform=on_cpu(land.transform),
            weights=weights,
            offsets=offsets,
            temperature=temperature,
            class_names=job.class_names,
        )
        return JoinedModel(head, on_cpu(self.frozen.labels.land.transform), network, self.context.description())

    def _network_temperature(self) -> float:
        """Of the networks' own outputs, by the labels hidden from each."""
        given, folds = self.context.job.given, self.stages.plan.folds
        assert folds is not None
        outputs = torch.full((len(given), len(self.context.job.class_names)), torch.nan)
        for name in self.stages.plan.fold_names:
            found, is_hidden = self.stages.found(name), folds == number_of(name)
            assert found is not None
            outputs[is_hidden] = found.network[is_hidden]
        is_judged = ~outputs.isnan().any(dim=1)
        return fit_temperature(score_evidence(outputs[is_judged]), given[is_judged])

    def _test_inputs(self, network: Network) -> tuple[Float[Tensor, "m d"], Float[Tensor, "m e"]] | None:
        """Vectors of the frozen and of the trained network for the pictures of a test folder."""
        frozen, trained = self.frozen.job.judges, self.context.job.judges
        if frozen is None or trained is None or self.context.job.are_judges_inside:
            return None
        assert isinstance(frozen.rows, VectorSet)
        assert isinstance(trained.rows, ImageSet)
        inference = Inference(network.to(self.context.execution.device), self.context.views.plain)
        return frozen.rows.vectors, inference.embed(trained.rows.images).cpu()


def on_cpu(transform: RowTransform) -> RowTransform:
    return RowTransform(transform.center.float().cpu(), transform.is_rooted)


def same_pictures(job: Job, images: Job) -> bool:
    """Whether both jobs have the same rows in one order, with the same labels."""
    one, other = job.collection, images.collection
    is_same = one.names == other.names and one.class_names == other.class_names
    return is_same and torch.equal(one.labels, other.labels)
