"""An experiment: every setting of a run, in pieces owned by the rooms that they describe."""

from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path

from laplacenet.augment import AugmentConfig
from laplacenet.graph import GraphConfig
from laplacenet.models import ModelConfig
from laplacenet.runtime import InputError
from laplacenet.training import LaplaceNetConfig, MethodConfig, TrainConfig, config_class


@dataclass(frozen=True)
class DataConfig:
    """Which data, and which of its labels may be seen.

    `name` is a data set's name, a folder or an `.npz` file. Labels come from `label_file` (names and labels; several
    files are added up), from `split_file` (row numbers; `split_key` where it holds several), or else `n_labeled` of
    them are drawn equally from every class by `split_seed` (the run's own seed if None). With none of the three, every
    label in the data is given.
    """

    name: str = "digits"
    folder: str | None = None
    size: int | None = None
    n_labeled: int | None = None
    split_file: str | None = None
    split_key: str | None = None
    split_seed: int | None = None
    label_file: str | tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.n_labeled is not None and self.n_labeled < 1:
            raise InputError(f"data.n_labeled = {self.n_labeled}; give at least one label for each class")
        named = [name for name in ("n_labeled", "split_file", "label_file") if getattr(self, name) is not None]
        if len(named) > 1:
            raise InputError(f"labels are asked for in {len(named)} ways, data.{' and data.'.join(named)}; keep one")
        if self.split_key is not None and self.split_file is None:
            raise InputError(
                f"data.split_key = {self.split_key!r} names an entry of data.split_file, which is not given"
            )


@dataclass(frozen=True)
class Experiment:
    """Made by a recipe or by the command line; a run folder keeps the resolved one."""

    name: str = "custom"
    seed: int = 0
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    graph: GraphConfig = field(default_factory=GraphConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    method: MethodConfig = field(default_factory=LaplaceNetConfig)


def with_method(experiment: Experiment, name: str) -> Experiment:
    """The same experiment by another method; the settings that both inherit are kept.

    Those that only have the same name are not: a decay of 0 is LaplaceNet's way to have no average, and would leave
    Mean Teacher without a teacher. The 13-CNN gets or loses its ℓ2-normalized embedding with the method.
    """
    kind, former = config_class(name), type(experiment.method)
    common = next(base for base in kind.__mro__ if issubclass(former, base) and is_dataclass(base))
    kept = {field.name: getattr(experiment.method, field.name) for field in fields(common)}
    return with_own_embedding(replace(experiment, method=kind(**{**kept, "name": name})))


def with_own_embedding(experiment: Experiment) -> Experiment:
    """The 13-CNN with or without the ℓ2-normalized embedding, as the method has it."""
    if experiment.model.name != "13-cnn":
        return experiment
    return replace(experiment, model=replace(experiment.model, unit_length=type(experiment.method).unit_length))


def without_paths(experiment: Experiment) -> Experiment:
    """The same on every machine: files by name, without their folders."""
    data = experiment.data
    labels = data.label_file
    if labels is not None:
        labels = Path(labels).name if isinstance(labels, str) else tuple(Path(file).name for file in labels)
    file = data.split_file and Path(data.split_file).name
    bare = replace(data, name=Path(data.name).name, folder=None, split_file=file, label_file=labels)
    return replace(experiment, data=bare)
