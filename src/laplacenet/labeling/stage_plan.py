"""Which stages a labeling has, which labels each may see, and how many steps it takes.

Stage `estimate` keeps a fifth of the given labels from network and graph, which then judge what it found. Each stage
`suspects-N` keeps another part of them from a network of its own. Stage `final` goes on from the first network with all
labels. Beyond some epochs a network learns nothing new, so that more time makes more networks: stages `vote-N`.
"""

from dataclasses import dataclass, replace

from jaxtyping import Int64
from torch import Tensor

from laplacenet.labeling.estimate import FEWEST
from laplacenet.labeling.folds import stratified_folds, without_fold
from laplacenet.labeling.stages import Stage, Workshop, planned_config
from laplacenet.labeling.timing import FEWEST_STEPS, SHARES, steps_within
from laplacenet.training import TrainConfig

ESTIMATE, SUSPECTS, FINAL, VOTE = "estimate", "suspects", "final", "vote"
FOLDS = (5, 4, 3)
"""A fifth is hidden; with few labels a fourth or a third, for fewer than ten could not judge."""
FINAL_LR = 0.5
"""Of the first learning rate: the network has been trained, but some labels are new."""
MOST_EPOCHS, LEAST_CAP = 16, 600
"""Beyond so many epochs, or steps where an epoch is short, accuracy on hidden labels of CIFAR-10 rose no more."""


def hidden_folds(given: Int64[Tensor, " n"], *, seed: int) -> Int64[Tensor, " n"] | None:
    """Folds of the given labels, of which fold 0 judges; None where too few could be hidden."""
    for n_folds in FOLDS:
        folds = stratified_folds(given, n_folds, seed=seed)
        if int((folds == 0).sum()) >= FEWEST:
            return folds
    return None


def kind_of(name: str) -> str:
    return name.split("-", maxsplit=1)[0]


def number_of(name: str) -> int:
    return int(name.rpartition("-")[2])


@dataclass(frozen=True, eq=False)
class StagePlan:
    """`folds` are None where there are too few labels to judge by: then all of them teach from the start."""

    workshop: Workshop
    folds: Int64[Tensor, " n"] | None

    @property
    def names(self) -> list[str]:
        """The stages of every labeling; votes come after them, as time allows."""
        if self.folds is None:
            return [FINAL]
        n_suspects = int(self.folds.max()) if self.workshop.job.settings.time.suspects else 0
        return [ESTIMATE, *(f"{SUSPECTS}-{fold}" for fold in range(1, n_suspects + 1)), FINAL]

    @property
    def most_steps(self) -> int:
        """Of one network from scratch."""
        config, n_unlabeled = self.workshop.job.settings.train, int((self.workshop.job.given < 0).sum())
        return max(LEAST_CAP, MOST_EPOCHS * n_unlabeled // config.unlabeled_batch_size)

    def weight(self, name: str) -> float:
        """A stage's share of the time, beside those of the others."""
        if kind_of(name) == SUSPECTS:
            return SHARES[SUSPECTS] / (len(self.names) - 2)
        return SHARES.get(kind_of(name), SHARES[ESTIMATE])

    def stage(self, name: str, *, seconds: float | None, step_s: float | None) -> Stage:
        """As it was begun, or else with the steps that these seconds hold; where no time is set, in proportion."""
        seen, begins_with = self.seen(name), self.begins_with(name)
        begun = planned_config(self.workshop, name)
        if begun is not None:
            return Stage(name, seen, TrainConfig(**begun), begins_with)
        config, share = self.workshop.job.settings.train, min(1.0, self.weight(name) / SHARES[ESTIMATE])
        steps = config.steps if self.folds is None else max(FEWEST_STEPS, round(config.steps * share))
        if seconds is not None and step_s is not None:
            cap = self.most_steps if begins_with is None else round(self.most_steps * share)
            steps = min(steps_within(seconds, step_s), cap)
        config = replace(config, steps=steps)
        if begins_with is not None:
            config = replace(config, lr=config.lr * FINAL_LR, supervised_passes=0)
        return Stage(name, seen, config, begins_with)

    def seen(self, name: str) -> Int64[Tensor, " n"]:
        given = self.workshop.job.given
        if self.folds is None or kind_of(name) not in (ESTIMATE, SUSPECTS):
            return given
        return without_fold(given, self.folds, 0 if name == ESTIMATE else number_of(name))

    def begins_with(self, name: str) -> str | None:
        return ESTIMATE if name == FINAL and self.folds is not None else None
