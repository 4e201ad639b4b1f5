"""The learning rate of each step, and how other weights rise at the beginning."""

import math

import numpy as np
from jaxtyping import Float32

from laplacenet.training.config import TrainConfig

RISE, FALL, LATE = 80 / 300, 50 / 300, 40 / 500


def learning_rates(config: TrainConfig, first_step: int, n_steps: int) -> Float32[np.ndarray, " steps"]:
    """`cosine` and `linear` reach zero at `lr_zero_at_step`, which lies just behind the last step."""
    steps = np.arange(first_step, first_step + n_steps)
    match config.schedule:
        case "cosine-7/16":
            rates: np.ndarray = config.lr * np.cos(7 * math.pi * steps / (16 * config.steps))
        case "rise-and-fall":
            fall = np.exp(-12.5 * np.maximum(0.0, 1 - (config.steps - steps) / (FALL * config.steps)) ** 2)
            rates = config.lr * sigmoid_ramp_up(first_step, n_steps, RISE * config.steps) * fall
        case "two-drops":
            rates = config.lr * 0.1 ** ((steps >= 5 / 8 * config.steps).astype(int) + (steps >= 7 / 8 * config.steps))
        case "late-linear":
            rates = config.lr * np.minimum(1.0, (1 - steps / config.steps) / LATE)
        case "cosine":
            rates = config.lr * 0.5 * (1 + np.cos(math.pi * steps / config.lr_zero_at_step))
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
