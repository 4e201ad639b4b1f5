"""When: the learning rate of each step and the length of the supervised start."""

import math

import numpy as np
from jaxtyping import Float32

from laplacenet.training.config import TrainConfig


def learning_rates(config: TrainConfig, first_step: int, n_steps: int) -> Float32[np.ndarray, " steps"]:
    """Half a cosine from `lr` to zero at `lr_zero_at_step`, which lies just behind the last step."""
    steps = np.arange(first_step, first_step + n_steps)
    rates: np.ndarray = config.lr * 0.5 * (1 + np.cos(math.pi * steps / config.lr_zero_at_step))
    return rates.astype(np.float32)


def supervised_steps(config: TrainConfig, n_labeled: int) -> int:
    """Steps of the start over Z_l: `supervised_passes` passes, at most a fifth of all; all of them if nobody labels."""
    if config.label_source == "none":
        return config.steps
    return min(wanted_supervised_steps(config, n_labeled), config.steps // 5)


def wanted_supervised_steps(config: TrainConfig, n_labeled: int) -> int:
    batch = min(config.batch_size, n_labeled)
    return config.supervised_passes * max(1, n_labeled // batch)
