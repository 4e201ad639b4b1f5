"""A network trained in the time that pretrained features leave, and used if it is better on held-out labels.

Three-fold cross-validation: each fold of the given labels is held out from a network of its own. The accuracy of the
frozen features, of the trained network and of both together on the held-out labels decides which of them labels the
pictures; then one more network learns from all labels. Until then, and if nothing is better, the labels of the frozen
features are kept.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from laplacenet.graph import GraphConfig
from laplacenet.graph.guided import GuidedConfig, GuidedLabels, Landscape, label_landscape, landscape
from laplacenet.labeling.estimate import calibrate, estimate_by_folds, shares_to_count
from laplacenet.labeling.evidence import class_shares, score_evidence, stratified_folds, without_fold
from laplacenet.labeling.features import FeatureLabels, suspect_ratio
from laplacenet.labeling.label_pass import LabelPass, vote
from laplacenet.labeling.outcome import Findings
from laplacenet.labeling.pictures import PictureStages
from laplacenet.labeling.result import SOURCES, Calibration, Estimate
from laplacenet.labeling.settings import ESTIMATED, PRETRAINED, LabelingSettings
from laplacenet.labeling.stage_plan import FINAL, FINAL_LR, FOLD, PASSES_PER_STAGE, StagePlan, kind_of, number_of
from laplacenet.labeling.stages import LabelingContext, Stage, StageEpoch, finished_pass, planned_config
from laplacenet.training import TrainConfig

N_FOLDS = 3
FEWEST_JUDGED = 10
MOST_VOTES = 4
FROZEN, TRAINED, BOTH = "frozen", "trained", "both"


@dataclass(frozen=True, eq=False)
class FoldPlan(StagePlan):
    """A stage for each fold and one with all labels, trained alike, so that the estimate of the folds holds for the
    last one.
    """

    @property
    def names(self) -> list[str]:
        return [*self.fold_names, FINAL]

    @property
    def fold_names(self) -> list[str]:
        assert self.folds is not None
        return [f"{FOLD}-{number}" for number in range(int(self.folds.max()) + 1)]

    def weight(self, name: str) -> float:
        return 1.0

    def seen(self, name: str) -> Int64[Tensor, " n"]:
        assert self.folds is not None
        given = self.context.job.given
        return without_fold(given, self.folds, number_of(name)) if kind_of(name) == FOLD else given

    def begins_with(self, name: str) -> str | None:
        """The last network goes on from the first: what judges the labels hidden from that one is its fold alone."""
        return self.fold_names[0] if name == FINAL else None

    def stage(self, name: str, *, seconds: float | None, step_s: float | None) -> Stage:
        """All take as many steps, whatever the time says by then: those of the first that was begun."""
        begins_with, own = self.begins_with(name), planned_config(self.context, name)
        if own is not None:
            return Stage(name, self.seen(name), TrainConfig(**own), begins_with)
        config = self.begun_config or self.context.job.settings.train
        if begins_with is not None:
            config = replace(config, lr=config.lr * FINAL_LR)
        return Stage(name, self.seen(name), config, begins_with)

    @property
    def begun_config(self) -> TrainConfig | None:
        found = (planned_config(self.context, name) for name in self.fold_names)
        return next((TrainConfig(**config) for config in found if config is not None), None)

    def steps_within(self, seconds: float, *, step_s: float, pass_s: float) -> int:
        """Of each stage, if all of them are to fit into this time; what labels all rows twice a stage is taken off."""
        training_s = seconds / len(self.names) - PASSES_PER_STAGE * pass_s
        return min(max(0, int(training_s / step_s)), self.most_steps)


def judging_folds(given: Int64[Tensor, " n"], *, seed: int) -> Int64[Tensor, " n"] | None:
    """None if too few labels could be held out."""
    folds = stratified_folds(given, N_FOLDS, seed=seed)
    is_enough = int((folds >= 0).sum()) >= FEWEST_JUDGED and int(folds.max()) == N_FOLDS - 1
    return folds if is_enough else None


class StagesBeside(PictureStages):
    """The folds one after another, then the network that learns from all labels, unless the frozen features have won.

    A stage takes all of its steps, in one session or several: the folds would not be comparable otherwise.
    """

    plan: FoldPlan
    vote_s = float("inf")  # what one more network would take

    def epochs_while(self, winner: Callable[[], str]) -> Iterator[StageEpoch]:
        """`winner` is asked when the folds are done: the frozen features need no network with all labels."""
        names = self.names_left()
        for place, name in enumerate(names):
            if name == FINAL and winner() == FROZEN:
                return
            yield from self._epochs_of(name, 1 / (len(names) - place), n_stages=len(names) - place)
            if self.is_over():
                return
        while winner() == TRAINED and self.group.by_first(self._has_time_for_a_vote):
            yield from self._epochs_of(self.next_vote(), 1.0)
            if self.is_over():
                return

    def _has_time_for_a_vote(self) -> bool:
        if len(self.votes) >= MOST_VOTES or self.ends_at is None:
            return False
        return self.ends_at - time.monotonic() > self.vote_s

    def found(self, name: str) -> LabelPass | None:
        return finished_pass(self.context, name)


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way to label the pictures, and its held-out scores of the given labels.

    `unseen` are calibrated, NaN for rows that were never hidden.
    """

    name: str
    unseen: Float[Tensor, "n C"]
    calibration: Calibration
    n_judged: int
    n_right: int
    log_loss: float

    @property
    def share(self) -> float:
        return self.n_right / self.n_judged

    @classmethod
    def of(cls, name: str, unseen: Float[Tensor, "n C"], given: Int64[Tensor, " n"]) -> "Candidate":
        is_judged = ~unseen.isnan().any(dim=1)
        evidence, truth = score_evidence(unseen), given[is_judged]
        calibration = calibrate(evidence.rows(is_judged), truth)
        assert calibration is not None
        calibrated = evidence.at(calibration.temperature)
        judged = calibrated[is_judged]
        loss = float(-judged.gather(1, truth[:, None]).clamp(min=1e-12).log().mean())
        return cls(name, calibrated, calibration, len(truth), int((judged.argmax(dim=1) == truth).sum()), loss)


def choose(frozen: Candidate, others: list[Candidate]) -> Candidate:
    """The candidate with the highest accuracy on held-out labels; the frozen features unless its log-loss is lower,
    too.
    """
    better = [one for one in others if one.n_right > frozen.n_right and one.log_loss < frozen.log_loss]
    return max(better, key=lambda one: (one.n_right, -one.log_loss), default=frozen)


SUBJECTS = {
    FROZEN: "the frozen features",
    TRAINED: "the network trained beside them",
    BOTH: "both together",
}


def describe_choice(candidates: list[Candidate], chosen: Candidate, settings: LabelingSettings) -> str:
    """The choice and its numbers, in a sentence."""
    start = "from the pretrained one" if settings.beside == PRETRAINED else "from scratch"
    shares = ", ".join(f"{SUBJECTS[one.name]} {100 * one.share:.0f} %" for one in candidates)
    verb = "label" if chosen.name in (FROZEN, BOTH) else "labels"
    verdict = f"{SUBJECTS[chosen.name]} {verb} the pictures"
    return (
        f"A network was trained {start} in the time left. Of {chosen.n_judged} given labels, a third hidden at a time,"
        f" {shares} are found: {verdict}."
    )


@dataclass(frozen=True, eq=False)
class Contest:
    """The frozen features against the trained networks; `can_join` says whether both can become one model.

    `graph` is that of the frozen features.
    """

    context: LabelingContext
    stages: StagesBeside
    frozen: FeatureLabels
    graph: GraphConfig
    can_join: bool = True

    @property
    def n_classes(self) -> int:
        return len(self.context.job.class_names)

    def candidates(self) -> list[Candidate] | None:
        """The frozen one first; None until the folds are done."""
        folds = self.stages.plan.folds
        assert folds is not None
        unseen = {name: torch.full((len(folds), self.n_classes), torch.nan) for name in SUBJECTS}
        for name in self.stages.plan.fold_names:
            found = self.stages.found(name)
            if found is None:
                return None
            is_hidden = folds == number_of(name)
            for one, scores in self.answers(found, self.stages.plan.seen(name)).items():
                unseen[one][is_hidden] = scores[is_hidden]
        entrants = SUBJECTS if self.can_join else (FROZEN, TRAINED)
        return [Candidate.of(name, unseen[name], self.context.job.given) for name in entrants]

    def answers(self, found: LabelPass, seen: Int64[Tensor, " n"]) -> dict[str, Float[Tensor, "n C"]]:
        """The scores of each candidate for every picture, from these labels only."""
        joined = self.guided(self.joined(found), seen).scores if self.can_join else None
        answers = {
            FROZEN: self.guided(self.frozen.land, seen).scores,
            TRAINED: found.evidence.at(1.0),
            BOTH: joined,
        }
        return {name: scores.float().cpu() for name, scores in answers.items() if scores is not None}

    def joined(self, found: LabelPass) -> Landscape:
        """One graph, and one space for the classifier: the cosine of two pictures is the mean of both networks'."""
        X = self.frozen.land.X
        return landscape(torch.cat([X, found.features.to(X)], dim=1), GuidedConfig(graph=self.graph))

    def guided(self, land: Landscape, seen: Int64[Tensor, " n"]) -> GuidedLabels:
        settings = self.context.job.settings
        prior = None if settings.prior == ESTIMATED else class_shares(settings.prior, seen, self.n_classes)
        config = GuidedConfig(graph=self.graph, prior=prior, n_folds=0, seed=settings.seed)
        return label_landscape(land, seen, n_classes=self.n_classes, config=config)

    def last_passes(self) -> list[LabelPass]:
        """Of the last network first, then of all others that vote beside it."""
        names = (FINAL, *self.stages.votes, *self.stages.plan.fold_names)
        found = [self.stages.found(name) for name in names]
        return [one for one in found if one is not None]


@dataclass(frozen=True, eq=False)
class Verdict:
    """The scores of the winner for every picture, if it is not the frozen one."""

    candidate: Candidate
    findings: Findings
    estimate: Estimate
    prior: tuple[float, ...]
    joined: Landscape | None


def verdict_of(contest: Contest, candidate: Candidate) -> Verdict:
    passes, job = contest.last_passes(), contest.context.job
    if candidate.name == BOTH:
        lands = [contest.joined(one) for one in passes]
        answers = [contest.guided(land, job.given) for land in lands]
        scores, shares = (
            torch.stack([getattr(answer, name).float().cpu() for answer in answers]).mean(dim=0)
            for name in ("scores", "prior")
        )
        finders = torch.full((len(job.given),), SOURCES.index("graph"), dtype=torch.uint8)
        evidence, features, joined = score_evidence(scores), lands[0].X, lands[0]
    else:
        voted = vote(passes)
        evidence, finders, features, shares, joined = voted.evidence, voted.finders, voted.features, voted.prior, None
    temperature, least_ratio = candidate.calibration.temperature, suspect_ratio(contest.n_classes)
    findings = Findings(evidence, temperature, candidate.unseen, finders, features.float().cpu(), least_ratio)
    counted = shares_to_count(job.given, shares) if job.settings.prior == ESTIMATED else (shares,)
    estimate = estimate_by_folds(
        candidate.unseen,
        job.given,
        counted,
        n_folds=N_FOLDS,
        method=method(candidate),
        class_names=job.class_names,
    )
    return Verdict(candidate, findings, estimate, tuple(shares.tolist()), joined)


def method(candidate: Candidate) -> str:
    """How the accuracy was estimated, in words."""
    return (
        f"The {candidate.n_judged} given labels of classes that have at least two were hidden in turn, a third at a"
        " time, from a network of their own, from classifier and graph, which then labeled those pictures from the"
        " other labels. Each of these answers had fewer labels than the one that counts, and a class with a single"
        " label is not judged: the interval allows for both. The same labels chose between frozen features and trained"
        " networks, which favors the choice a little."
    )
