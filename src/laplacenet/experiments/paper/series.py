"""Records of one experiment grouped into what may be averaged: one schedule, one kind of splits."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from laplacenet.evaluation import mean_and_std
from laplacenet.experiments.experiment import DataConfig, Experiment
from laplacenet.experiments.paper.moons_record import MoonsRecord
from laplacenet.experiments.paper.records import Record, RunKey
from laplacenet.experiments.paper.variants import PAPER_STEPS, n_labels_asked

if TYPE_CHECKING:
    from laplacenet.experiments.benchmark import SideBySide  # whose rivals take a second to import

Measure = Callable[[Record], float | None]


def last_error(record: Record) -> float | None:
    """The last network's error in percent: the result."""
    return _percent(record.outcome.test_error)


def invariance_on_test(record: Record) -> float | None:
    return _percent(record.outcome.test_invariance)


def invariance_on_test_as_labeled(record: Record) -> float | None:
    return _percent(record.outcome.test_invariance_as_labeled)


def invariance_on_train(record: Record) -> float | None:
    return _percent(record.outcome.train_invariance)


def pseudo_label_accuracy(record: Record) -> float | None:
    return _percent(record.outcome.pseudo_label_accuracy)


def hours(record: Record) -> float | None:
    return record.outcome.total_s / 3600


def minutes(record: Record) -> float | None:
    return record.outcome.total_s / 60


def step_ms(record: Record) -> float | None:
    """Milliseconds a step, labeling and judging included, compilation not."""
    outcome = record.outcome
    return 1000 * (outcome.total_s - outcome.compile_s) / outcome.steps if outcome.steps else None


@dataclass(frozen=True)
class Spread:
    """The mean over n runs and, from two runs on, their standard deviation."""

    mean: float
    std: float | None
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.2f}" + ("" if self.std is None else f" ± {self.std:.2f}")


@dataclass(frozen=True)
class Series:
    """Runs of one experiment, one a split, in the splits' order."""

    base_steps: int
    split_source: str
    records: tuple[Record, ...]

    @property
    def is_full(self) -> bool:
        return self.base_steps == PAPER_STEPS

    @property
    def rank(self) -> tuple[bool, int, bool]:
        """Higher for what is to be preferred: the paper's schedule, then the longest, then published splits."""
        return self.is_full, self.base_steps, self.split_source == "published"

    @property
    def splits(self) -> set[int]:
        return {record.key.split for record in self.records}

    @property
    def n_diverged(self) -> int:
        return sum(record.diverged_at_step is not None for record in self.records)

    def on(self, splits: set[int]) -> "Series":
        return replace(self, records=tuple(record for record in self.records if record.key.split in splits))

    def spread(self, measure: Measure) -> Spread | None:
        """None where no run has the number; a run that diverged has none."""
        values = [measure(record) for record in self.records if record.diverged_at_step is None]
        known = [value for value in values if value is not None]
        return Spread(*mean_and_std(known), n=len(known)) if known else None


def schedule(series: Series) -> str:
    """n runs (of how many, if some diverged), steps, and whose splits: what must be known beside any mean."""
    drawn = "" if series.split_source == "published" else ", drawn splits"
    of_all = f" of {len(series.records)}" if series.n_diverged else ""
    return f"n = {len(series.records) - series.n_diverged}{of_all}, {steps_of(series)}{drawn}"


def steps_of(series: Series) -> str:
    return f"{series.base_steps:,} steps".replace(",", " ")


class RecordBook:
    """All records, to be asked for by experiment.

    A record counts for an experiment if every setting but seed, split and schedule is the experiment's, and the number
    of labels that its run had: one that was made otherwise under the same name does not.
    """

    def __init__(
        self, records: Iterable[Record], *, moons: MoonsRecord | None = None, epochs: "SideBySide | None" = None
    ) -> None:
        self.records, self.moons, self.epochs = tuple(records), moons, epochs

    def series(self, experiment: Experiment) -> list[Series]:
        """What is recorded of an experiment, the paper's schedule first, then the longest, published splits first."""
        groups: dict[tuple[int, str], list[Record]] = {}
        for record in self.records:
            if belongs_to(record, experiment):
                groups.setdefault((record.key.base_steps, record.key.split_source), []).append(record)
        found = [Series(*key, records=_by_split(group)) for key, group in groups.items()]
        return sorted(found, key=lambda series: series.rank, reverse=True)

    def with_other_settings(self) -> list[Series]:
        """Runs for which something was set otherwise than their recipe says: by preset or setting, the longest first.

        A preset may change under its name; runs are averaged only if all their settings are the same.
        """
        groups: dict[tuple[RunKey, Experiment], list[Record]] = {}
        for record in self.records:
            if record.key.overrides and has_labels_of(record, record.experiment):
                group = replace(record.key, split=0), settings_of(record.experiment)
                groups.setdefault(group, []).append(record)
        found = [Series(key.base_steps, key.split_source, records=_by_split(g)) for (key, _), g in groups.items()]
        return sorted(found, key=lambda series: (series.records[0].key.name, -series.base_steps))

    def together(self, experiments: Sequence[Experiment]) -> list[list[Series]]:
        """The experiments' series under each schedule that all have runs of, the best first, on the splits all have."""
        by_key = [{(s.base_steps, s.split_source): s for s in self.series(experiment)} for experiment in experiments]
        keys = [key for key in by_key[0] if all(key in found for found in by_key)]
        splits = {key: set.intersection(*(found[key].splits for found in by_key)) for key in keys}
        return [[found[key].on(splits[key]) for found in by_key] for key in keys if splits[key]]


def belongs_to(record: Record, experiment: Experiment) -> bool:
    if record.key.name != experiment.name or record.key.overrides:
        return False
    return settings_of(record.experiment) == settings_of(experiment) and has_labels_of(record, experiment)


def has_labels_of(record: Record, experiment: Experiment) -> bool:
    """Whether its run had as many labels as the experiment asks for; a split that was cut short has fewer."""
    return n_labels_asked(experiment.data) in (None, record.outcome.n_labeled)


def settings_of(experiment: Experiment) -> Experiment:
    """The experiment without what differs between the runs of one series and of others: split, seed, steps."""
    data = DataConfig(name=experiment.data.name)
    return replace(experiment, seed=0, data=data, train=replace(experiment.train, steps=PAPER_STEPS))


def _by_split(records: list[Record]) -> tuple[Record, ...]:
    return tuple(sorted(records, key=lambda record: record.key.split))


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
