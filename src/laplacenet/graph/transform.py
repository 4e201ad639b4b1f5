"""Features as rows of length 1: square roots where that helps, centered, normalized."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from laplacenet.graph.pseudo_labels import unit_rows


@dataclass(frozen=True, eq=False)
class RowTransform:
    """Features → their square roots if `is_rooted` → minus `center` → rows of length 1.

    Features without negative numbers are means of rectified activations: most are small and a few large ones would
    decide every cosine. Their square roots are worth one to three points of accuracy.
    """

    center: Float[Tensor, " d"]
    is_rooted: bool

    def __call__(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return unit_rows(self.centered(features))

    def centered(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """The rows before normalization."""
        found = features.to(self.center)
        return (found.clamp(min=0).sqrt() if self.is_rooted else found) - self.center

    def undo(self, centered: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """The features again."""
        found = centered + self.center
        return found.square() if self.is_rooted else found


def fit_row_transform(features: Float[Tensor, "n d"]) -> RowTransform:
    is_rooted = bool((features >= 0).all()) and not are_bytes(features)
    return RowTransform((features.sqrt() if is_rooted else features).mean(dim=0), is_rooted)


def are_bytes(features: Float[Tensor, "n d"]) -> bool:
    """Whether these are counts or pixels, in whole numbers or 255ths: no activations, and their roots are no better."""
    scaled = features * 255
    return bool(torch.isclose(scaled, scaled.round(), rtol=1e-6, atol=1e-3).all())
