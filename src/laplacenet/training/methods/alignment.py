"""Distribution alignment: guesses are scaled so that, on the average, their classes have the wanted shares."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

TINY = 1e-6  # keeps a class that is never guessed from being divided by zero


def align(
    probabilities: Float[Tensor, "b C"], wanted: Float[Tensor, " C"], found: Float[Tensor, " C"]
) -> Float[Tensor, "b C"]:
    """q·wanted/found, each row with sum 1 again."""
    return functional.normalize(probabilities * (wanted + TINY) / (found + TINY), p=1, dim=1)


@torch.no_grad()
def move_average(average: Tensor, value: Tensor, momentum: float, n_updates: Tensor) -> None:
    """average ← m·average + (1 − m)·value; the first value takes the place of whatever was there."""
    average.lerp_(value, 1 - momentum * (n_updates > 0).to(average.dtype))
