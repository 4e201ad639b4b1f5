"""Every setting of a labeling, as its run folder's `experiment.json` keeps it."""

from dataclasses import dataclass, field

from laplacenet.augment import AugmentConfig
from laplacenet.graph import GraphConfig
from laplacenet.models import ModelConfig
from laplacenet.runtime import InputError
from laplacenet.training import LaplaceNetConfig, TrainConfig

KIND = "labeling"


@dataclass(frozen=True)
class CollectionConfig:
    """What is labeled: `pictures` is a folder or a file of arrays, `labels` a list of given labels, `test` a test set.

    `size` is the side in pixels that pictures of a folder are brought to. `strict` refuses files that cannot be read.
    `features` names the pretrained network that looks at the pictures, `scratch` for none; `weights` is a file of
    its weights, None for its usual ones.
    """

    pictures: str = ""
    labels: str | None = None
    test: str | None = None
    size: int | None = None
    strict: bool = False
    features: str = "scratch"
    weights: str | None = None


@dataclass(frozen=True)
class TimeConfig:
    """`limit_s` is the time for everything, None for as long as the steps take; `suspects` whether to look for wrong
    labels among the given ones of pictures, which takes a fifth of it."""

    limit_s: float | None = None
    suspects: bool = True

    def __post_init__(self) -> None:
        if self.limit_s is not None and not self.limit_s > 0:
            raise InputError(f"time.limit_s = {self.limit_s}; give a positive number of seconds")


@dataclass(frozen=True)
class LabelingSettings:
    """The settings of one labeling. `prior` is a word or numbers, as `class_shares` takes them; embeddings need neither
    `model` nor `augment` nor `train`. `train.steps` are those of the stage that is judged."""

    kind: str = KIND
    name: str = "pictures"
    seed: int = 0
    prior: str = "shrunk"
    collection: CollectionConfig = field(default_factory=CollectionConfig)
    time: TimeConfig = field(default_factory=TimeConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    graph: GraphConfig = field(default_factory=GraphConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    method: LaplaceNetConfig = field(default_factory=LaplaceNetConfig)
