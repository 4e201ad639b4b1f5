"""Data sets that need no download: scikit-learn's digits and its two moons."""

import numpy as np
import torch
from sklearn.datasets import load_digits, make_moons

from laplacenet.data.dataset import Dataset
from laplacenet.data.images import ImageSet
from laplacenet.data.vectors import VectorSet
from laplacenet.runtime import InputError, stream, stream_seed

N_DIGITS_TEST_PER_CLASS = 50
N_MOONS = 1000
MOONS_NOISE = 0.1


def digits() -> Dataset:
    """1 797 handwritten digits of 8×8 pixels: 1 297 to train on, 500 to test on, fifty of each.

    Which are which never changes: the split has a stream of its own, apart from any run's seed.
    """
    bunch = load_digits()
    images = torch.from_numpy(np.rint(bunch.images * (255 / 16)).astype(np.uint8)[:, None])
    labels = torch.from_numpy(bunch.target.astype(np.int64))
    is_test = torch.zeros(len(labels), dtype=torch.bool)
    for digit in range(10):
        members = np.flatnonzero(bunch.target == digit)
        is_test[stream(0, "digits-test-set", digit).permutation(members)[:N_DIGITS_TEST_PER_CLASS]] = True
    names = tuple("0123456789")
    train = ImageSet(images[~is_test], labels[~is_test], names)
    return Dataset(train, ImageSet(images[is_test], labels[is_test], names), "digits")


def two_moons(n: int, noise: float, seed: int) -> VectorSet:
    """Two half circles that reach into one another, `n` points in all, with Gaussian `noise`."""
    if n < 2:
        raise InputError(f"two moons need at least 2 points; got n={n}")
    if not 0 <= noise < float("inf"):
        raise InputError(f"noise must be a finite number, 0 or above; got {noise}")
    vectors, labels = make_moons(n, noise=noise, random_state=stream_seed(seed, "two-moons") & 0xFFFFFFFF)
    return VectorSet(
        torch.from_numpy(vectors.astype(np.float32)), torch.from_numpy(labels.astype(np.int64)), ("upper", "lower")
    )


def two_moons_dataset() -> Dataset:
    """A thousand points to train on and a thousand others to test on."""
    return Dataset(two_moons(N_MOONS, MOONS_NOISE, 0), two_moons(N_MOONS, MOONS_NOISE, 1), "two-moons")
