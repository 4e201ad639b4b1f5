"""How the network is trained: the paper's table of parameters, CIFAR-100's column as the defaults."""

from dataclasses import dataclass

from laplacenet.runtime import InputError

LABEL_SOURCES = ("graph", "network", "none")
MOST = {"steps": 10**12, "batch_size": 10**6, "labeled_batch_size": 10**6, "n_views": 1000}


@dataclass(frozen=True)
class TrainConfig:
    """`label_source`: who labels the unlabeled images each epoch: the graph (LaplaceNet), the network's own argmax (the
    paper's comparison), or nobody (the supervised-only baseline: all steps are supervised ones).
    `class_weighting` weights each image's loss as Iscen et al. do, which the paper found harmful.

    `mixup_alpha=0` is training without MixUp. The supervised start counts as steps and takes at most a fifth of them.
    """

    steps: int = 250_000
    batch_size: int = 100
    labeled_batch_size: int = 50
    n_views: int = 3
    lr: float = 0.03
    momentum: float = 0.9
    weight_decay: float = 5e-4
    mixup_alpha: float = 0.5
    supervised_passes: int = 100
    label_source: str = "graph"
    class_weighting: bool = False

    def __post_init__(self) -> None:
        for field, most in MOST.items():
            if getattr(self, field) < 1:
                raise InputError(f"train.{field} = {getattr(self, field)}; it must be at least 1")
            if getattr(self, field) > most:
                raise InputError(f"train.{field} is larger than {most}; that is no schedule for any machine")
        for field in ("lr", "weight_decay", "mixup_alpha", "supervised_passes"):
            if not 0 <= getattr(self, field) < float("inf"):
                raise InputError(f"train.{field} = {getattr(self, field)}; it must not be negative or infinite")
        if not 0 <= self.momentum < 1:
            raise InputError(f"train.momentum = {self.momentum}; it must lie in [0, 1)")
        if self.labeled_batch_size >= self.batch_size:
            raise InputError(
                f"train.labeled_batch_size = {self.labeled_batch_size} leaves no room for unlabeled images; "
                f"it must be below train.batch_size = {self.batch_size}"
            )
        if self.label_source not in LABEL_SOURCES:
            raise InputError(f"train.label_source = {self.label_source!r}; choose one of {', '.join(LABEL_SOURCES)}")

    @property
    def unlabeled_batch_size(self) -> int:
        return self.batch_size - self.labeled_batch_size

    @property
    def lr_zero_at_step(self) -> float:
        """The paper's 255 000 for its 250 000 steps, in the same ratio for shorter runs."""
        return 1.02 * self.steps
