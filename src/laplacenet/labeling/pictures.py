"""Train on pictures in stages, so that held-out labels can test a network before the last one learns from all."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jaxtyping import Int64
from torch import Tensor

from laplacenet.labeling.label_pass import LabelPass
from laplacenet.labeling.result import SUMMARY
from laplacenet.labeling.stage_plan import (
    ESTIMATE,
    FINAL,
    SLACK,
    SUSPECTS,
    VOTE,
    StagePlan,
    hidden_folds,
    kind_of,
    number_of,
    stage_words,
)
from laplacenet.labeling.stages import (
    PASS,
    Deadline,
    LabelingContext,
    Stage,
    StageEpoch,
    StageRun,
    finished_pass,
    planned_config,
)
from laplacenet.runtime import Monitor, current_group
from laplacenet.training.checkpoint import checkpoint_step

LEAST_STEPS = 5
"""Of the planned steps of a stage: with fewer its result is not used."""
WORTH_BEGINNING = 0.6
"""The part of a whole vote that must fit into the time left."""
WORTH_HEARING = 1 / 8
"""The part of the longest training that a network needs to vote: with much less it does harm."""


@dataclass(frozen=True, eq=False)
class Passes:
    """What the finished stages found.

    `estimate` is None where there are too few labels to judge by; `suspects` are by their folds; `latest` is the stage
    whose network took the most steps with all labels, with its name; `voters` are the others that vote beside it.
    """

    folds: Int64[Tensor, " n"] | None
    estimate: LabelPass | None
    suspects: dict[int, LabelPass]
    latest: tuple[str, LabelPass] | None
    voters: tuple[LabelPass, ...]


class StageDeadline(Deadline):
    """Stops a stage when its share of the time is up, but not before it has taken `least_steps`; at the end of the
    whole time, at once."""

    def __init__(self, monitor: Monitor, ends_at: float | None, *, last_at: float | None, least_steps: int) -> None:
        super().__init__(monitor, ends_at)
        self.last_at, self.n_left = last_at, least_steps

    @property
    def is_late(self) -> bool:
        now = time.monotonic()
        is_share_used = self.ends_at is not None and now >= self.ends_at and self.n_left <= 0
        return is_share_used or (self.last_at is not None and now >= self.last_at)

    def advance(self, n: int) -> None:
        self.n_left -= n
        super().advance(n)


@dataclass(frozen=True)
class StageProgress:
    """How far a stage got; `steps` is None if it has not begun."""

    name: str
    step: int
    steps: int | None
    is_done: bool

    def __str__(self) -> str:
        if self.steps is None:
            return f"{stage_words(self.name)} not begun"
        return f"{stage_words(self.name)} {'done ' if self.is_done else ''}at step {self.step} of {self.steps}"


def describe_progress(stages: Sequence[StageProgress]) -> str:
    """How far each stage got; those that have not begun are only counted."""
    begun = [str(one) for one in stages if one.steps is not None]
    n_left = len(stages) - len(begun)
    if n_left:
        begun.append(f"{n_left} {'more ' if begun else ''}stage{'' if n_left == 1 else 's'} not begun")
    return "; ".join(begun)


class PictureStages:
    """The stages of one labeling, one after another, each as long as the time left allows."""

    def __init__(
        self,
        context: LabelingContext,
        *,
        step_s: float | None,
        ends_at: float | None,
        plan: StagePlan | None = None,
    ) -> None:
        """`step_s` is None if the user gave the number of steps; `ends_at` if there is no time limit."""
        self.context, self.step_s, self.ends_at = context, step_s, ends_at
        self.plan = plan or StagePlan(context, hidden_folds(context.job.given, seed=context.job.settings.seed))
        self.group = current_group()
        self.is_vote_owed = self.group.by_first(self._was_complete)
        self.is_out_of_time = False
        self.overhead_s = 0.0
        self.current: StageRun | None = None

    def _was_complete(self) -> bool:
        """Whether an earlier session ended with the labels of all stages; one that was killed may have trained them."""
        return self.context.folder.has(SUMMARY) and all(map(self.is_trained, [*self.plan.names, *self.votes]))

    @property
    def are_done(self) -> bool:
        """A labeling is complete without votes."""
        return all(map(self.is_done, self.plan.names))

    @property
    def votes(self) -> list[str]:
        """Those that have begun."""
        return sorted((path.name for path in self.context.path("").glob(f"{VOTE}-*")), key=number_of)

    def is_done(self, name: str) -> bool:
        return os.path.lexists(self.context.path(name) / PASS)  # what is no file there is refused when it is read

    def is_trained(self, name: str) -> bool:
        """Whether nothing is missing but, at most, the labels of its last network."""
        planned = planned_config(self.context, name)
        step = checkpoint_step(self.context.path(name) / "checkpoint")
        return self.is_done(name) or (planned is not None and step >= int(planned["steps"]))

    def progress(self) -> list[StageProgress]:
        found = []
        for name in [*self.plan.names, *self.votes]:
            planned, step = planned_config(self.context, name), checkpoint_step(self.context.path(name) / "checkpoint")
            steps = None if planned is None else int(planned["steps"])
            found.append(StageProgress(name, step, steps, self.is_done(name)))
        return found

    def epochs(self) -> Iterator[StageEpoch]:
        """Run the stages that are not done, then votes while there is time; stops early on a signal or at the time
        limit.
        """
        names = self.names_left()
        for place, name in enumerate(names):
            share = self.plan.weight(name) / sum(self.plan.weight(later) for later in names[place:])
            yield from self._epochs_of(name, share, n_stages=len(names) - place)
            if self.is_over():
                return
        while self.group.by_first(self._has_time_for_a_vote) and not self.is_over():
            yield from self._epochs_of(self.next_vote(), share=1.0)

    def names_left(self) -> list[str]:
        """The stages that are not done, according to the first process."""
        return self.group.by_first(lambda: [name for name in [*self.plan.names, *self.votes] if not self.is_done(name)])

    def next_vote(self) -> str:
        return self.group.by_first(lambda: f"{VOTE}-{len(self.votes) + 1}")

    def is_over(self) -> bool:
        """Whether the time or a signal ends the session; all processes agree."""
        return self.is_out_of_time or self.group.agree(self.context.monitor.should_stop)

    def _has_time_for_a_vote(self) -> bool:
        """A labeling that was complete when this session began gets at least one, however short the time."""
        is_owed, self.is_vote_owed = self.is_vote_owed, False
        if is_owed or self.ends_at is None or self.step_s is None:
            return is_owed
        return self.ends_at - time.monotonic() > WORTH_BEGINNING * self.plan.most_steps * self.step_s

    def _epochs_of(self, name: str, share: float, *, n_stages: int = 1) -> Iterator[StageEpoch]:
        """A stage is done when it took its steps; where these were fitted to the time, fewer will do.

        `share` is its part of the time left for the training of `n_stages` stages, this one and those after it.
        """
        entered_at = time.monotonic()
        planned = self.group.by_first(lambda: self._planned(name, share, n_stages))
        if planned is None:
            self.is_out_of_time = True
            return
        stage, seconds, n_before = planned
        least_steps = stage.config.steps if self.step_s is None else min(LEAST_STEPS, stage.config.steps)
        self.current = StageRun(self.context, stage)
        n_done, began_at = n_before, time.monotonic()
        for record in self.current.epochs(self._deadline(seconds, least_steps=least_steps - n_before)):
            n_done = record.step
            yield record
        if self.group.agree(self.context.monitor.should_stop):
            return
        if n_done < least_steps:
            self.is_out_of_time = True
            return
        trained_s = time.monotonic() - began_at
        self.current.label()
        self._learn_from(n_done - n_before, trained_s, time.monotonic() - entered_at)

    def _planned(self, name: str, share: float, n_stages: int) -> tuple[Stage, float | None, int] | None:
        """The stage, the seconds for it and its completed steps; None if no time is left."""
        left_s = None if self.ends_at is None else self.ends_at - time.monotonic()
        if left_s is not None and left_s <= 0:
            return None
        seconds = None if left_s is None else max(0.0, left_s - n_stages * self.overhead_s) * share
        stage = self.plan.stage(name, seconds=seconds, step_s=self.step_s)
        return stage, seconds, checkpoint_step(self.context.path(name) / "checkpoint")

    def _learn_from(self, n_steps: int, trained_s: float, total_s: float) -> None:
        """Update the duration of a step and the overhead of a stage, to plan the next one."""
        if n_steps > 0 and self.step_s is not None:
            self.step_s = trained_s / n_steps
            self.overhead_s = total_s - trained_s

    def _deadline(self, seconds: float | None, *, least_steps: int) -> StageDeadline:
        ends_at = None if seconds is None else time.monotonic() + seconds * SLACK
        return StageDeadline(self.context.monitor, ends_at, last_at=self.ends_at, least_steps=least_steps)

    def notes(self) -> list[str]:
        """Stages that did not take all of their steps, in this session or an earlier one."""
        short = [entry for entry in self.progress() if entry.steps is None or entry.step < entry.steps]
        cut = [
            f"{stage_words(entry.name)} stopped at step {entry.step} of {entry.steps}"
            for entry in short
            if entry.is_done
        ]
        return [*cut, *(f"unfinished: {entry}" for entry in short if not entry.is_done)]

    @property
    def has_labels(self) -> bool:
        """Whether any stage can give labels."""
        return any(entry.step > 0 for entry in self.progress())

    @property
    def has_leading_pass(self) -> bool:
        """Whether a finished stage has labels that are not of a suspect fold."""
        leading = [name for name in [*self.plan.names, *self.votes] if kind_of(name) in (ESTIMATE, FINAL, VOTE)]
        return any(map(self.is_done, leading))

    @property
    def has_sound_passes(self) -> bool:
        """Whether any stage is done; a damaged file of one that is, is refused."""
        return self.passes().latest is not None

    def passes(self) -> Passes:
        done = {name: found for name in [*self.plan.names, *self.votes] if (found := finished_pass(self.context, name))}
        suspects = {number_of(name): found for name, found in done.items() if kind_of(name) == SUSPECTS}
        steps = {name: self._steps_behind(name) for name in done}
        leading = [name for name in done if kind_of(name) in (FINAL, VOTE)] or [
            name for name in done if name == ESTIMATE
        ]
        if not leading:
            return Passes(self.plan.folds, None, suspects, None, ())
        latest = max(leading, key=lambda name: steps[name])
        voters = tuple(
            found
            for name, found in done.items()
            if name not in (latest, ESTIMATE) and steps[name] >= WORTH_HEARING * steps[latest]
        )
        return Passes(self.plan.folds, done.get(ESTIMATE), suspects, (latest, done[latest]), voters)

    def _steps_behind(self, name: str) -> int:
        """Its own steps and those of the stage that it continued."""
        before = self.plan.begins_with(name)
        own = checkpoint_step(self.context.path(name) / "checkpoint")
        return own + (0 if before is None else self._steps_behind(before))
