"""The learning rate of each step, and how other weights rise at the beginning."""

import math

import numpy as np
from jaxtyping import Float32

from laplacenet.training.config import TrainConfig


def learning_rates(config: TrainConfig, first_step: int, n_steps: int) -> Float32[np.ndarray, " steps"]:
    """From `lr` along half a cosine (or a line) to zero at `lr_zero_at_step`, which lies just behind the last step."""
    steps = np.arange(first_step, first_step + n_steps)
    match config.schedule:
        case "cosine":
            rates: np.ndarray = config.lr * 0.5 * (1 + np.cos(math.pi * steps / config.lr_zero_at_step))
        case "linear":
            rates = config.lr * (1 - steps / config.lr_zero_at_step)
        case _:
            rates = np.full(n_steps, config.lr)
    return rates.astype(np.float32)


def sigmoid_ramp_up(first_step: int, n_steps: int, length: float) -> Float32[np.ndarray, " steps"]:
    """exp(−5·(1 − t/T)²) for the first T steps, 1 from then on."""
    steps = np.arange(first_step, first_step + n_steps)
    progress = np.minimum(1.0, steps / length) if length > 0 else np.ones(n_steps)
    ramp: np.ndarray = np.exp(-5 * (1 - progress) ** 2)
    return ramp.astype(np.float32)
