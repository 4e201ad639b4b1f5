"""Arrays as a network reads them: pictures as uint8 tensors with their views, vectors standardized."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float32, Num, UInt8
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from laplacenet.augment import AugmentConfig
from laplacenet.data import channel_statistics
from laplacenet.training import ImageViews, VectorViews, Views

CHANNELS = (1, 3)
LARGEST_SMALL = 48  # pixels; beyond, a network that shrinks its maps early costs less and sees more


@runtime_checkable
class Inputs(Protocol):
    """Measured on the training array; the same numbers serve whatever is read later."""

    @property
    def default_model(self) -> str: ...

    def tensor(self, X: Num[np.ndarray, "n ..."]) -> Tensor: ...

    def views(self, inputs: Tensor, *, flip: bool) -> Views: ...


@dataclass(frozen=True)
class Vectors:
    """Each feature with mean 0 and deviation 1 among the training points."""

    scaler: StandardScaler

    @classmethod
    def measured(cls, X: Num[np.ndarray, "n d"]) -> "Vectors":
        return cls(StandardScaler().fit(X))

    @property
    def default_model(self) -> str:
        return "mlp"

    def tensor(self, X: Num[np.ndarray, "n d"]) -> Float32[Tensor, "n d"]:
        return torch.from_numpy(self.scaler.transform(X).astype(np.float32))

    def views(self, inputs: Tensor, *, flip: bool) -> VectorViews:
        return VectorViews()


@dataclass(frozen=True)
class Pictures:
    """Pictures of `shape` (h, w), (h, w, c) or (c, h, w), whose values from `low` to `high` become 0 to 255."""

    shape: tuple[int, ...]
    low: float
    high: float

    @classmethod
    def measured(cls, X: Num[np.ndarray, "n ..."]) -> "Pictures":
        """uint8 is taken as it is; of other numbers the least and the largest become black and white."""
        if X.ndim > 4 or (X.ndim == 4 and X.shape[3] not in CHANNELS and X.shape[1] not in CHANNELS):
            raise ValueError(
                f"X has shape {X.shape}; give vectors (n, d) or pictures (n, h, w), (n, h, w, c) or (n, c, h, w)"
                " with 1 or 3 channels"
            )
        is_bytes = X.dtype == np.uint8
        return cls(X.shape[1:], *((0.0, 255.0) if is_bytes else (float(X.min()), float(X.max()))))

    @property
    def default_model(self) -> str:
        height, width = self._channels_first(np.empty((1, *self.shape))).shape[2:]
        return "small-cnn" if max(height, width) <= LARGEST_SMALL else "resnet-18"

    def tensor(self, X: Num[np.ndarray, "n ..."]) -> UInt8[Tensor, "n c h w"]:
        if X.shape[1:] != self.shape:
            raise ValueError(f"X has rows of shape {X.shape[1:]}; this classifier was fitted on {self.shape}")
        if X.dtype != np.uint8:
            span = (self.high - self.low) or 1.0
            X = np.rint(np.clip((X - self.low) / span, 0, 1) * 255).astype(np.uint8)
        return torch.from_numpy(self._channels_first(X).copy())

    def views(self, inputs: Tensor, *, flip: bool) -> ImageViews:
        height, width = inputs.shape[2:]
        return ImageViews(AugmentConfig(flip=flip), channel_statistics(inputs), height=height, width=width)

    def _channels_first(self, X: Num[np.ndarray, "n ..."]) -> Num[np.ndarray, "n c h w"]:
        if X.ndim == 3:
            return X[:, None]
        # where both orders would do, the channels are taken to be last, as most arrays of pictures have them
        return X.transpose(0, 3, 1, 2) if X.shape[3] in CHANNELS else X


def measured_inputs(X: Num[np.ndarray, "n ..."]) -> Inputs:
    return Vectors.measured(X) if X.ndim == 2 else Pictures.measured(X)
