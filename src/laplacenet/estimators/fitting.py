"""What surrounds every `fit`: torch ready to train, and an estimator that is fitted wholly or not at all."""

import contextlib
from collections.abc import Iterator

import torch
from sklearn.base import BaseEstimator


@contextlib.contextmanager
def fitting(estimator: BaseEstimator) -> Iterator[None]:
    """Record gradients even where the caller turned them off; after an error or Ctrl-C the estimator is as before.

    scikit-learn sets `n_features_in_` first of all, which alone would make a failed fit look like a finished one.
    """
    before = dict(vars(estimator))
    try:
        with torch.inference_mode(mode=False), torch.enable_grad():
            yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
