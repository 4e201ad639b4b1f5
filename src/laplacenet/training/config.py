"""How a network is trained, whatever the method: the paper's parameters, CIFAR-100's column as the defaults."""

from dataclasses import dataclass

from laplacenet.runtime import InputError

MOST = {"steps": 10**12, "batch_size": 10**6, "labeled_batch_size": 10**6}
LARGEST_RATE = 1e37  # single precision has no number for ten times as much, and optimizers take multiples
OPTIMIZERS = ("sgd", "adamw", "muon")
SCHEDULES = ("cosine", "cosine-7/16", "rise-and-fall", "two-drops", "late-linear", "linear", "constant")


@dataclass(frozen=True)
class TrainConfig:
    """A batch has `batch_size` images, `labeled_batch_size` of them labeled.

    `optimizer` is SGD with Nesterov momentum, AdamW, which has no use for `momentum`, or Muon, which makes the momentum
    of convolutions orthogonal and takes a fifth of `lr` for them (all else as in SGD). `head_decay` is the weight decay
    of the classifier where it is not `weight_decay`. `schedule` says how the learning rate changes: `cosine` falls
    along half a cosine to zero just behind the last step, `linear` in a straight line, `constant` not at all.
    `cosine-7/16` is FixMatch's, which ends at a fifth of `lr`; `rise-and-fall` that of temporal ensembling and Mean
    Teacher, which rises in the first 80 of 300 epochs and falls in the last 50; `two-drops` PL-Mixup's, a tenth after
    250 of 400 epochs and a hundredth after 350; `late-linear` VAT's, which falls in a straight line in the last 40 of
    500 epochs. In the first `small_share` of the steps, to the end of a block of at most 64, pictures are scaled down
    by `small_scale`, which makes these steps cheaper. Label passes and tests see whole pictures.
    """

    steps: int = 250_000
    batch_size: int = 100
    labeled_batch_size: int = 50
    lr: float = 0.03
    momentum: float = 0.9
    weight_decay: float = 5e-4
    head_decay: float | None = None
    optimizer: str = "sgd"
    schedule: str = "cosine"
    small_share: float = 0.0
    small_scale: float = 0.75

    def __post_init__(self) -> None:
        for field, most in MOST.items():
            if getattr(self, field) < 1:
                raise InputError(f"train.{field} = {getattr(self, field)}; it must be at least 1")
            if getattr(self, field) > most:
                raise InputError(f"train.{field} = {getattr(self, field)}; it must be at most {most}")
        for field in ("lr", "weight_decay", "head_decay"):
            if getattr(self, field) is not None and not 0 <= getattr(self, field) <= LARGEST_RATE:
                raise InputError(f"train.{field} = {getattr(self, field)}; it must lie between 0 and {LARGEST_RATE}")
        if not 0 <= self.momentum < 1:
            raise InputError(f"train.momentum = {self.momentum}; it must lie in [0, 1)")
        if not 0 <= self.small_share <= 1:
            raise InputError(f"train.small_share = {self.small_share}; it must lie between 0 and 1")
        if not 0 < self.small_scale <= 1:
            raise InputError(f"train.small_scale = {self.small_scale}; it must lie above 0 and be at most 1")
        if self.labeled_batch_size >= self.batch_size:
            raise InputError(
                f"train.labeled_batch_size = {self.labeled_batch_size} leaves no room for unlabeled images; "
                f"it must be below train.batch_size = {self.batch_size}"
            )
        for field, names in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)):
            if getattr(self, field) not in names:
                raise InputError(f"train.{field} = {getattr(self, field)!r}; choose one of {', '.join(names)}")

    @property
    def unlabeled_batch_size(self) -> int:
        return self.batch_size - self.labeled_batch_size

    def view_scale(self, step: int) -> float:
        """The factor by which this step scales its pictures down."""
        return self.small_scale if step < self.small_share * self.steps else 1.0

    @property
    def lr_zero_at_step(self) -> float:
        """The paper's 255 000 for its 250 000 steps, in the same ratio for shorter runs."""
        return 1.02 * self.steps
