"""Named random streams from one seed.

A stream is a pure function of (seed, name, index): nothing has to be saved to resume, no stream disturbs another, and
the same seed draws the same batches and views on every device, because all draws are made on the host.
"""

import hashlib

import numpy as np


def stream(seed: int, name: str, *index: int) -> np.random.Generator:
    """The generator called `name`, number `index` (an epoch, a pass, a block), of the run with this seed."""
    return np.random.Generator(np.random.Philox(key=_key(seed, name, index)))


def stream_seed(seed: int, name: str, *index: int) -> int:
    """A 63-bit seed for a library that keeps its own generator (torch, scikit-learn takes its low 32 bits)."""
    return int(_key(seed, name, index) >> 65)


def _key(seed: int, name: str, index: tuple[int, ...]) -> int:
    text = "/".join([str(seed), name, *map(str, index)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "big")
