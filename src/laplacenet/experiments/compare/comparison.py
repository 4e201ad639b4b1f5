"""What is compared: the methods, their settings, labels and time, and how learning rates are chosen."""

from dataclasses import dataclass, replace
from typing import Any

from laplacenet.experiments.experiment import Experiment, with_method
from laplacenet.experiments.finished_runs import without_paths
from laplacenet.experiments.notation import override, to_json
from laplacenet.experiments.presets import with_method_preset
from laplacenet.runtime import InputError
from laplacenet.training import method_class


@dataclass(frozen=True)
class Tuning:
    """Each method's learning rate among `rates`, by runs of `for_s` that are judged on `held_out` of the labels."""

    for_s: float
    rates: tuple[float, ...]
    held_out: int

    def __post_init__(self) -> None:
        if not self.rates or not all(0 < rate < float("inf") for rate in self.rates):
            raise InputError("--rates: give learning rates above 0, such as 0.01,0.03,0.1")
        if self.held_out < 1:
            raise InputError(f"--held-out {self.held_out}: give at least one label to judge by")


@dataclass(frozen=True)
class Comparison:
    """What is compared. `for_s` is the training time of a run; without it a run has the base's steps.

    Seed i trains on the split that `split_key` names with `split` = i, where it is given, and else on the labels that
    the base draws by its seed. `finalists` limits the seeds after the first to that many of the best methods. `preset`
    is one of the methods' own, under which network and steps stay the base's.
    """

    base: Experiment
    methods: tuple[str, ...]
    for_s: float | None = None
    seeds: tuple[int, ...] = (0,)
    tuning: Tuning | None = None
    finalists: int | None = None
    settings: tuple[str, ...] = ()
    split_key: str | None = None
    preset: str | None = None

    def __post_init__(self) -> None:
        for name in self.methods:
            method_class(name)
        if not self.methods or len(set(self.methods)) < len(self.methods):
            raise InputError(f"--methods {','.join(self.methods)}: name each method once")
        if self.finalists is not None and self.finalists < 1:
            raise InputError(f"--finalists {self.finalists}: give at least one")
        for method in self.methods:
            self.experiment(method, self.seeds[0])

    def experiment(self, method: str, seed: int) -> Experiment:
        """The method with its settings, on the labels of this seed."""
        data = self.base.data
        if self.split_key is not None:
            data = replace(data, split_key=split_name(self.split_key, seed))
        experiment = with_method(replace(self.base, seed=seed, data=data), method)
        if self.preset is not None:
            laid = with_method_preset(experiment, self.preset)
            train = replace(laid.train, steps=self.base.train.steps)
            experiment = replace(laid, model=self.base.model, train=train)
        return override(replace(experiment, name=f"{self.base.name}-{method}"), self.settings_of(method))

    def settings_of(self, method: str) -> list[str]:
        """The settings for this method; those of the form METHOD:section.field=value are for one method only."""
        own = [text.partition(":")[2] for text in self.settings if text.partition(":")[0] == method]
        shared = [text for text in self.settings if text.partition(":")[0] not in self.methods]
        return [*shared, *own]

    @property
    def identity(self) -> dict[str, Any]:
        """The comparison as JSON, the same on every machine."""
        return to_json(replace(self, base=without_paths(self.base)))


def split_name(template: str, split: int) -> str:
    """`4000/{split:02d}` for split 3 is `4000/03`."""
    try:
        return template.format(split=split)
    except (KeyError, IndexError, ValueError, AttributeError, TypeError, MemoryError) as error:
        raise InputError(f"--split-key {template}: write the number as {{split}} or {{split:02d}}") from error
