"""A rough estimate of how long a run takes on an H200.

One NVIDIA H200, captured and replayed, bf16. A step has a part that comes with every step and one that comes with every
image in it (views counted): a line through what `laplacenet bench` and whole runs took. An epoch over CIFAR's 50 000
images adds a pseudo-label pass and judging; a run adds start-up and what is asked of the last network.
"""

from dataclasses import dataclass

from laplacenet.experiments.experiment import Experiment

MEASURED_ON = "one NVIDIA H200"
N_TRAIN = 50_000
LABEL_S, JUDGE_S, ONCE_S = 0.21, 0.03, 15.0


@dataclass(frozen=True)
class StepCost:
    """Milliseconds of a step and, beside, of each image in it."""

    step_ms: float
    image_ms: float


STEP_COSTS = {
    "13-cnn": StepCost(0.44, 0.0088),
    "wrn-28-2": StepCost(1.51, 0.0077),
    "wrn-28-8": StepCost(0.0, 0.0452),  # measured for 300 images alone
}


def cost_s(experiment: Experiment) -> float | None:
    """Seconds for the whole experiment; None for a network or a method that has not been measured."""
    train = experiment.train
    n_views: int | None = getattr(experiment.method, "n_views", None)
    if experiment.model.name not in STEP_COSTS or n_views is None:
        return None
    cost = STEP_COSTS[experiment.model.name]
    n_labeled_views = getattr(experiment.method, "n_labeled_views", 0) or n_views
    n_images = train.labeled_batch_size * n_labeled_views + train.unlabeled_batch_size * n_views
    pixels = 1 - train.small_share * (1 - train.small_scale**2)  # of whole images, on average
    step_s = (cost.step_ms + cost.image_ms * n_images * pixels) / 1000
    n_epochs = train.steps * train.unlabeled_batch_size / N_TRAIN
    label_s = 0.0 if experiment.method.name == "supervised" else LABEL_S
    return train.steps * step_s + n_epochs * (label_s + JUDGE_S) + ONCE_S
