"""Gaussian noise as a pure function of a seed on the device: nothing is kept, so a captured step can draw it anew.

torch's own generators keep a state that a replayed graph would have to carry and a checkpoint would have to save. Here
number i of a seed is a hash of both: SplitMix64, then Box and Muller's transform.
"""

import math

import torch
from jaxtyping import Float32, Int64
from torch import Tensor

# SplitMix64's constants as signed 64-bit numbers; products wrap around
INCREMENT = 0x9E3779B97F4A7C15 - 2**64
FIRST_FACTOR = 0xBF58476D1CE4E5B9 - 2**64
SECOND_FACTOR = 0x94D049BB133111EB - 2**64


def random_bits(seed: Int64[Tensor, ""], n: int) -> Int64[Tensor, " n"]:
    """The first n outputs of SplitMix64 from this seed."""
    z = seed + torch.arange(1, n + 1, device=seed.device) * INCREMENT
    z = (z ^ _shift_right(z, 30)) * FIRST_FACTOR
    z = (z ^ _shift_right(z, 27)) * SECOND_FACTOR
    return z ^ _shift_right(z, 31)


def normal_noise(seed: Int64[Tensor, ""], shape: torch.Size) -> Float32[Tensor, "..."]:
    """Independent standard normal numbers; the upper 24 bits give the radius, the lower 24 the angle."""
    bits = random_bits(seed, shape.numel())
    radius = (-2 * ((_shift_right(bits, 40) + 1).float() / 2**24).log()).sqrt()
    angle = 2 * math.pi * (bits & (2**24 - 1)).float() / 2**24
    return (radius * angle.cos()).reshape(shape)


def _shift_right(z: Int64[Tensor, " n"], n_bits: int) -> Int64[Tensor, " n"]:
    """Zeros come in from the left, whatever the sign."""
    return (z >> n_bits) & ((1 << (64 - n_bits)) - 1)
