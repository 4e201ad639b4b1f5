"""How long a run will take, roughly, on the machine whose times are known.

Step times: one NVIDIA H200, compiled and replayed, bf16, 300 images a step (b = 100, n_a = 3); a step of more images
takes proportionally longer. A pseudo-label pass over CIFAR's 50 000 images: 0.5 s there.
"""

from laplacenet.experiments.experiment import Experiment

MEASURED_ON = "one NVIDIA H200"
STEP_MS = {"13-cnn": 3.6, "wrn-28-2": 4.3, "wrn-28-8": 14.0}
MEASURED_IMAGES = 300
LABEL_S = 0.5
N_TRAIN = 50_000


def cost_s(experiment: Experiment) -> float | None:
    """Seconds for the whole experiment; None for a network that has not been measured."""
    train = experiment.train
    if experiment.model.name not in STEP_MS:
        return None
    images = train.batch_size * train.n_views
    step_s = STEP_MS[experiment.model.name] / 1000 * images / MEASURED_IMAGES
    n_passes = 0.0 if train.label_source == "none" else train.steps * train.unlabeled_batch_size / N_TRAIN
    return train.steps * step_s + n_passes * LABEL_S
