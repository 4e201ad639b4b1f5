"""Points in a vector space (two moons, embeddings) with what is known of their labels."""

from dataclasses import dataclass

import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from laplacenet.data.images import describe_value, require_labels
from laplacenet.runtime import InputError


@dataclass(frozen=True, eq=False)
class VectorSet:
    """Finite float32 vectors, their labels (−1 = unknown) and the names of the classes."""

    vectors: Float32[Tensor, "n d"]
    labels: Int64[Tensor, " n"]
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        vectors: object = self.vectors
        if not isinstance(vectors, Tensor) or vectors.dtype != torch.float32 or vectors.ndim != 2:
            raise InputError(f"vectors must be a float32 tensor (n, d); got {describe_value(vectors)}")
        if vectors.numel() == 0:
            raise InputError(f"no vectors: the tensor has shape {tuple(vectors.shape)}")
        if not bool(vectors.isfinite().all()):
            raise InputError("vectors must be finite; some hold NaN or infinity")
        require_labels(self.labels, n=len(vectors), class_names=self.class_names)

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def n_classes(self) -> int:
        """C, counting classes of which no label is known."""
        return len(self.class_names)
