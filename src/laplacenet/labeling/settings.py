"""Every setting of a labeling, as its run folder's `experiment.json` keeps it."""

from dataclasses import dataclass, field

from laplacenet.augment import AugmentConfig
from laplacenet.graph import GraphConfig
from laplacenet.models import ModelConfig
from laplacenet.runtime import InputError, RunFolder
from laplacenet.runtime.run_folder import EXPERIMENT
from laplacenet.runtime.settings import from_json
from laplacenet.training import LaplaceNetConfig, TrainConfig

KIND = "labeling"
SCRATCH = "scratch"
ESTIMATED = "shrunk"  # the prior is estimated from the given labels; with features also from the new ones
PRETRAINED = "pretrained"
BESIDE = ("", PRETRAINED, SCRATCH)
MOST_THREADS = 1024


FIXED = {
    "kind": "another command",
    "name": "--out",
    "collection": "the options of this command",
    "beside": "--features and --for",
    "time.limit_s": "--for",
    "time.steps": "--steps",
    "train.steps": "--steps",
}
"""Fields that `label` sets itself, and what to use in place of --set."""


@dataclass(frozen=True)
class CollectionConfig:
    """What is labeled: `pictures` is a folder or a file of arrays, `labels` are files of labels, `test` a test set.

    `size` is the side in pixels that pictures of a folder are resized to. `strict` refuses files that cannot be read.
    `features` names the pretrained network that embeds the pictures, `scratch` for none; `weights` is a file of its
    weights, None for its usual ones; `pixels` is the side of its input, None for the usual one. `merge_classes` makes
    one class of names that differ only in case, spaces or accents.
    """

    pictures: str = ""
    labels: tuple[str, ...] = ()
    test: str | None = None
    size: int | None = None
    strict: bool = False
    features: str = SCRATCH
    weights: str | None = None
    pixels: int | None = None
    merge_classes: bool = False


@dataclass(frozen=True)
class TimeConfig:
    """How long to train.

    `limit_s` is the time for one session, None for as long as the steps take. `steps` are the training steps that were
    asked for, None for as many as fit into the time. `suspects` says whether to look for wrong labels among those given
    with pictures, which takes a fifth of the time.
    """

    limit_s: float | None = None
    steps: int | None = None
    suspects: bool = True

    def __post_init__(self) -> None:
        if self.limit_s is not None and not 0 < self.limit_s < float("inf"):
            raise InputError(f"time.limit_s = {self.limit_s}; give a positive number of seconds")
        if self.steps is not None and self.steps < 1:
            raise InputError(f"--steps {self.steps}: give a positive number of steps")


@dataclass(frozen=True)
class LabelingSettings:
    """The settings of one labeling.

    `beside` says whether a network is trained in addition to pretrained features, in the time that they leave: not at
    all (empty), started from the `pretrained` network, or from `scratch`. `prior` is a word or numbers, as
    `prior_shares` takes them; embeddings need neither `model` nor `augment` nor `train`. `train.steps` are those of the
    first stage, as planned. `threads` is the number of threads that torch uses on a CPU; None until it is known.
    """

    kind: str = KIND
    name: str = "pictures"
    seed: int = 0
    prior: str = "shrunk"
    threads: int | None = None
    beside: str = ""
    collection: CollectionConfig = field(default_factory=CollectionConfig)
    time: TimeConfig = field(default_factory=TimeConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    graph: GraphConfig = field(default_factory=GraphConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    method: LaplaceNetConfig = field(default_factory=LaplaceNetConfig)

    def __post_init__(self) -> None:
        if self.threads is not None and not 0 < self.threads <= MOST_THREADS:
            raise InputError(f"threads = {self.threads}; give a number between 1 and {MOST_THREADS}")
        if self.beside not in BESIDE:
            raise InputError(f"beside = {self.beside!r}; choose {PRETRAINED}, {SCRATCH} or nothing")


def read_settings(folder: RunFolder) -> LabelingSettings:
    """Of a run of label, or of another command that labels, whose `kind` says so."""
    content = folder.read_experiment()
    if "kind" not in content:
        raise InputError(
            f"{folder.path}: a run of train, not of label; go on with laplacenet train --resume {folder.path}"
        )
    return from_json(LabelingSettings(), content, source=str(folder.path / EXPERIMENT))
