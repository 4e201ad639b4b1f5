"""Pictures: a network is trained in stages, so that some labels can judge it before all of them teach it.

Stage `estimate` keeps a fifth of the given labels from network and graph, which then judge what it found. Each stage
`suspects-N` keeps another part of them from a network of its own. Stage `final` goes on from the first network with all
labels. Stages `more-N` go on after that, when a finished labeling is given more time.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from jaxtyping import Int64
from torch import Tensor

from laplacenet.labeling.curves import StageEpoch
from laplacenet.labeling.estimate import FEWEST
from laplacenet.labeling.folds import stratified_folds, without_fold
from laplacenet.labeling.label_pass import LabelPass
from laplacenet.labeling.stages import PASS, Deadline, Stage, StageRun, Workshop, finished_pass, planned_config
from laplacenet.labeling.timing import FEWEST_STEPS, SHARES, SLACK, steps_within
from laplacenet.training import TrainConfig

ESTIMATE, FINAL = "estimate", "final"
FOLDS = (5, 4, 3)
"""A fifth is hidden; with few labels a fourth or a third, for fewer than ten could not judge."""
FINAL_LR = 0.5
"""Of the first learning rate: the network has been trained, but the labels are new."""


def hidden_folds(given: Int64[Tensor, " n"], *, seed: int) -> Int64[Tensor, " n"] | None:
    """Folds of the given labels, of which fold 0 judges; None where too few could be hidden."""
    for n_folds in FOLDS:
        folds = stratified_folds(given, n_folds, seed=seed)
        if int((folds == 0).sum()) >= FEWEST:
            return folds
    return None


@dataclass(frozen=True, eq=False)
class Passes:
    """What the finished stages found; `estimate` is None where there are too few labels to judge by."""

    folds: Int64[Tensor, " n"] | None
    estimate: LabelPass | None
    suspects: dict[int, LabelPass]
    n_suspect_steps: int
    latest: tuple[str, LabelPass] | None
    """The last stage that trains on from those before it, and what it found."""


class PictureStages:
    """The stages of one labeling, one after another, each as long as the time left allows."""

    def __init__(self, workshop: Workshop, *, step_s: float | None, ends_at: float | None) -> None:
        """`step_s` and `ends_at` are None where the number of steps was asked for."""
        self.workshop, self.step_s, self.ends_at = workshop, step_s, ends_at
        given, settings = workshop.job.given, workshop.job.settings
        self.folds = hidden_folds(given, seed=settings.seed)
        self.names = self._names()
        self.notes: list[str] = []
        self.current: StageRun | None = None

    def _names(self) -> list[str]:
        """All stages in order; one more where all were done in earlier sittings."""
        if self.folds is None:
            names = [FINAL]
        elif self.workshop.job.settings.time.suspects:
            names = [ESTIMATE, *(f"suspects-{fold}" for fold in range(1, int(self.folds.max()) + 1)), FINAL]
        else:
            names = [ESTIMATE, FINAL]
        n_more = sum(1 for _ in (self.workshop.folder.path / "stages").glob("more-*"))
        names += [f"more-{number}" for number in range(1, n_more + 1)]
        if all(self.is_done(name) for name in names):
            names.append(f"more-{n_more + 1}")
        return names

    @property
    def are_done(self) -> bool:
        return all(self.is_done(name) for name in self.names)

    def is_done(self, name: str) -> bool:
        return (self.workshop.path(name) / PASS).is_file()

    def epochs(self) -> Iterator[StageEpoch]:
        """Run all stages that are not done; ends early where the monitor says stop, or at once where all are done."""
        names = [name for name in self.names if not self.is_done(name)]
        for place, name in enumerate(names):
            share = weight(name) / sum(weight(later) for later in names[place:])
            yield from self._epochs_of(name, share)
            if self.workshop.monitor.should_stop:
                return

    def _epochs_of(self, name: str, share: float) -> Iterator[StageEpoch]:
        left_s = None if self.ends_at is None else max(0.0, self.ends_at - time.monotonic())
        stage = self._stage(name, None if left_s is None else left_s * share)
        ends_at = None
        if left_s is not None:
            # the last stage has nothing behind it that could give it slack
            ends_at = time.monotonic() + left_s * min(1.0, share * SLACK)
        self.current = StageRun(self.workshop, stage)
        deadline, began_at, n_done = Deadline(self.workshop.monitor, ends_at), time.monotonic(), 0
        for record in self.current.epochs(deadline):
            n_done = record.step
            yield record
        if self.workshop.monitor.should_stop:
            return
        if n_done and self.step_s is not None:
            self.step_s = (time.monotonic() - began_at) / n_done
        if n_done < stage.config.steps:
            self.notes.append(f"stage {name} was cut short at step {n_done} of {stage.config.steps}: its time was up")
        self.current.label()

    def _stage(self, name: str, seconds: float | None) -> Stage:
        seen, begins_with = self._seen(name), self._begins_with(name)
        found = planned_config(self.workshop, name)
        if found is not None:
            return Stage(name, seen, TrainConfig(**found), begins_with)
        config = self.workshop.job.settings.train
        if seconds is not None and self.step_s is not None:
            config = replace(config, steps=steps_within(seconds, self.step_s))
        elif name != ESTIMATE and self.folds is not None:
            share = weight(name) / weight(ESTIMATE)
            config = replace(config, steps=max(FEWEST_STEPS, round(config.steps * share)))
        if begins_with is not None:
            config = replace(config, lr=config.lr * FINAL_LR, supervised_passes=0)
        return Stage(name, seen, config, begins_with)

    def _seen(self, name: str) -> Int64[Tensor, " n"]:
        given = self.workshop.job.given
        if name == ESTIMATE and self.folds is not None:
            return without_fold(given, self.folds, 0)
        if name.startswith("suspects-") and self.folds is not None:
            return without_fold(given, self.folds, int(name.removeprefix("suspects-")))
        return given

    def _begins_with(self, name: str) -> str | None:
        if name == FINAL:
            return None if self.folds is None else ESTIMATE
        if name.startswith("more-"):
            number = int(name.removeprefix("more-"))
            return FINAL if number == 1 else f"more-{number - 1}"
        return None

    def passes(self) -> Passes:
        """What the stages that are done have found."""
        done = {name: finished_pass(self.workshop, name) for name in self.names}
        suspects = {
            int(name.removeprefix("suspects-")): found
            for name, found in done.items()
            if name.startswith("suspects-") and found is not None
        }
        in_line = [(name, found) for name, found in done.items() if not name.startswith("suspects-")]
        finished = [(name, found) for name, found in in_line if found is not None]
        steps = [planned_config(self.workshop, f"suspects-{fold}") for fold in suspects]
        fewest = min((found["steps"] for found in steps if found is not None), default=0)
        return Passes(self.folds, done.get(ESTIMATE), suspects, fewest, finished[-1] if finished else None)


def weight(name: str) -> float:
    """A stage's share of the time, beside the others'."""
    kind = name.split("-", maxsplit=1)[0]
    return SHARES["suspects"] / 4 if kind == "suspects" else SHARES.get(kind, 1.0)
