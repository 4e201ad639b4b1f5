"""What is compared: the methods, their settings, labels and time, and how learning rates are chosen."""

from dataclasses import dataclass, replace
from typing import Any

from laplacenet.experiments.experiment import Experiment, with_method, without_paths
from laplacenet.experiments.finished_runs import ComparedRun
from laplacenet.experiments.notation import CHOOSE, by_path, override, to_json, with_later_settings
from laplacenet.experiments.presets import with_method_preset
from laplacenet.runtime import InputError
from laplacenet.runtime.decoding import decode
from laplacenet.training import method_class

MOST_SEEDS = 1000
FIXED = {
    "name": "it follows from the data and the method",
    "seed": "--seeds says how many there are",
    "method.name": "name the methods with --methods",
    "train.steps": "all methods get the same time or the same steps, by --for or --steps",
    "data.split_key": "use --split-key",
}
"""What a comparison decides itself, and how."""
OPTIONS = {
    **{"methods": "--methods", "for_s": "--for", "seeds": "--seeds", "tuning": "--tune", "finalists": "--finalists"},
    **{"settings": "--set", "split_key": "--split-key", "preset": "--preset"},
}
"""By which the entries of a comparison are given."""


@dataclass(frozen=True)
class Tuning:
    """Each method's learning rate among `rates`, by runs of `for_s` that are judged on `held_out` of the labels."""

    for_s: float
    rates: tuple[float, ...]
    held_out: int

    def __post_init__(self) -> None:
        if not self.rates or not all(0 < rate < float("inf") for rate in self.rates):
            raise InputError("--rates: give learning rates above 0, such as 0.01,0.03,0.1")
        named = [f"{rate:g}" for rate in self.rates]  # as their runs are named
        if len(set(named)) < len(named):
            raise InputError(f"--rates {','.join(named)}: name each rate once; they may have six digits")
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
        if not self.methods:
            raise InputError("--methods: name at least one method; laplacenet methods lists them")
        if len(set(self.methods)) < len(self.methods):
            raise InputError(f"--methods {','.join(self.methods)}: name each method once")
        if not 1 <= len(self.seeds) <= MOST_SEEDS:
            raise InputError(f"--seeds {len(self.seeds)}: give a number between 1 and {MOST_SEEDS}")
        if self.finalists is not None and self.finalists < 1:
            raise InputError(f"--finalists {self.finalists}: give at least one")
        for text in self.settings:
            self._refuse_unequal(text)
        for method in self.methods:
            self.experiment(method, self.seeds[0])

    def _refuse_unequal(self, text: str) -> None:
        """Settings that would be ignored, or would make the runs unequal where they must be equal."""
        owner, path = owner_of(text), path_of(text)
        if owner and owner not in self.methods:
            raise InputError(f"--set {text}: {owner} is not among --methods {','.join(self.methods)}")
        remedy = FIXED.get(path)
        if owner and path.startswith("data."):
            remedy = "all methods see the same data; set it for all"
        if path == "train.lr" and self.tuning is not None:
            remedy = "the learning rate is chosen among --rates"
        if remedy is not None:
            raise InputError(f"--set {text}: {path} cannot be set in a comparison; {remedy}")

    def experiment(self, method: str, seed: int) -> Experiment:
        """The method with its settings, on the labels of this seed."""
        data = self.base.data
        if self.split_key is not None:
            data = replace(data, split_key=split_name(self.split_key, seed))
        experiment = with_method(replace(self.base, seed=seed, data=data), method)
        if self.preset is not None:
            laid = with_method_preset(experiment, self.preset)
            train = replace(laid.train, steps=self.base.train.steps)
            experiment = replace(laid, model=experiment.model, train=train)
        try:
            return override(replace(experiment, name=f"{self.base.name}-{method}"), self.settings_of(method))
        except InputError as error:  # another method may accept it
            raise InputError(f"{method}: {error}") from error

    def settings_of(self, method: str) -> list[str]:
        """The settings for this method; those of the form METHOD:section.field=value are for one method only."""
        own = [text.removeprefix(f"{method}:") for text in self.settings if owner_of(text) == method]
        shared = [text for text in self.settings if not owner_of(text)]
        return [*shared, *own]

    @property
    def tuning_runs(self) -> list[ComparedRun]:
        rates = () if self.tuning is None else self.tuning.rates
        return [ComparedRun(method, self.seeds[0], rate, is_tuning=True) for method in self.methods for rate in rates]

    @property
    def final_runs(self) -> list[ComparedRun]:
        """All that there could be; tuning decides their rates, and `finalists` how many are made."""
        return [ComparedRun(method, seed) for seed in self.seeds for method in self.methods]

    @property
    def identity(self) -> dict[str, Any]:
        """The comparison as JSON, the same on every machine."""
        return to_json(replace(self, base=without_paths(self.base)))

    def differences(self, other: "Comparison") -> str:
        """Where the other one differs: by option, such as `--seeds is 1, here 2`, and by setting inside the base."""
        here, there = self.identity, other.identity
        named = []
        for key in (key for key in here if here[key] != there[key]):
            if key == "base":
                named += differing_settings(there[key], here[key]) or [key]
            else:
                named.append(f"{OPTIONS[key]} is {spoken(key, there[key])}, here {spoken(key, here[key])}")
        return "; ".join(named)


def owner_of(text: str) -> str:
    """The method that METHOD:section.field=value is for; nothing if it is for all."""
    return text.partition("=")[0].rpartition(":")[0]


def path_of(text: str) -> str:
    """Its section.field."""
    return text.partition("=")[0].rpartition(":")[2].strip()


def spoken(key: str, value: Any) -> str:
    """An entry of a comparison, about as its option is written."""
    if not value:
        return "not given"
    if key == "for_s":
        return f"{value:g}s"
    if key == "seeds":
        return str(len(value))
    if key == "tuning":
        rates = ",".join(f"{rate:g}" for rate in value["rates"])
        return f"{value['for_s']:g}s (--rates {rates} --held-out {value['held_out']})"
    return (" " if key == "settings" else ",").join(value) if isinstance(value, list) else str(value)


def differing_settings(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Such as `train.lr is 0.7, here 0.05`, for experiments as JSON."""
    known = by_path(found)
    pairs = [(path, known.get(path), value) for path, value in by_path(expected).items()]
    return [f"{path} is {was}, here {value}" for path, was, value in pairs if was != value]


def read_comparison(content: Any, *, source: str) -> Comparison:
    """What `identity` gave; settings that are newer than it have their defaults."""
    if isinstance(content, dict) and "base" in content:
        content = content | {"base": with_later_settings(content["base"], source=f"{source}: base")}
    return decode(Comparison, content, source=source, choose=CHOOSE)


def split_name(template: str, split: int) -> str:
    """`4000/{split:02d}` for split 3 is `4000/03`."""
    try:
        return template.format(split=split)
    except (KeyError, IndexError, ValueError, AttributeError, TypeError, MemoryError) as error:
        raise InputError(f"--split-key {template}: write the number as {{split}} or {{split:02d}}") from error
