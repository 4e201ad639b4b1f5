"""The loss: MixUp or CutMix, then one plain cross-entropy over all views."""

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor
from torch.nn import functional

from laplacenet.runtime.device import at_least_float32
from laplacenet.runtime.kernels import fits_eager_kernels

N_AXES = 5  # of views of pictures: views, rows, channels, height, width
MOST_CLASSES = 4096  # that one program of the loss holds at once


def multi_view_cross_entropy(logits: Float[Tensor, "n_views b C"], targets: Int64[Tensor, " b"]) -> Float[Tensor, ""]:
    """L_ssl with n_a views (and L_sup, the same sum over labeled images): 1/(b·n_a) Σ_i Σ_j l_s(f(t_j(x_i)), y_i)."""
    n_views = logits.shape[0]
    return functional.cross_entropy(logits.flatten(0, 1), targets.repeat(n_views))


def weighted_cross_entropy(
    logits: Float[Tensor, "n_views b C"], targets: Int64[Tensor, " b"], weights: Float[Tensor, " b"]
) -> Float[Tensor, ""]:
    """1/(b·n_a) Σ_i Σ_j w_i·l_s(f(t_j(x_i)), y_i)."""
    n_views = logits.shape[0]
    losses = functional.cross_entropy(logits.flatten(0, 1), targets.repeat(n_views), reduction="none")
    return (losses * weights.repeat(n_views)).mean()


def sample_partners(n_steps: int, batch: int, rng: np.random.Generator) -> Int64[np.ndarray, "steps b"]:
    """Whom each image of a batch is mixed with: one permutation a step."""
    return rng.permuted(np.tile(np.arange(batch), (n_steps, 1)), axis=1)


def sample_mix_weights(n_steps: int, alpha: float, rng: np.random.Generator) -> Float32[np.ndarray, " steps"]:
    """MixUp's λ ~ Beta(α, α), one a step; α = 0 is no MixUp: λ = 1."""
    if alpha == 0:
        return np.ones(n_steps, dtype=np.float32)
    return rng.beta(alpha, alpha, size=n_steps).astype(np.float32)


def sample_boxes(n_steps: int, rng: np.random.Generator) -> Float32[np.ndarray, "steps 4"]:
    """CutMix's rectangles, one a step: top, bottom, left and right as fractions of the picture's height and width.

    Their area is uniform between 0 and 1 (1 − λ with λ ~ Beta(1, 1)) and their center anywhere in the picture; what
    lies outside of it is cut off.
    """
    side, center = np.sqrt(rng.random((n_steps, 1))), rng.random((n_steps, 2))
    first, last = np.clip(center - side / 2, 0, 1), np.clip(center + side / 2, 0, 1)
    return np.stack([first, last], axis=2).reshape(n_steps, 4).astype(np.float32)


def boxes_in_pixels(boxes: Float32[np.ndarray, "steps 4"], height: int, width: int) -> Int64[np.ndarray, "steps 4"]:
    """The pixels whose centers lie inside: first row and the one behind the last, first column and the one behind."""
    rows, columns = (((np.arange(n) + 0.5) / n).astype(np.float32) for n in (height, width))
    return np.hstack([np.searchsorted(rows, boxes[:, :2]), np.searchsorted(columns, boxes[:, 2:])])


def own_shares(boxes: Int64[np.ndarray, "steps 4"], height: int, width: int) -> Float32[np.ndarray, " steps"]:
    """The share of each image's own pixels, outside of the box."""
    top, bottom, left, right = boxes.T
    return np.asarray(1 - (bottom - top) * (right - left) / (height * width), dtype=np.float32)


def pixel_weights(
    box: Int64[Tensor, "4"], mix_weight: Float[Tensor, ""], height: int, width: int
) -> Float[Tensor, "h w"]:
    """How much of its own picture each pixel keeps: nothing inside the box, all outside; without a box λ everywhere."""
    top, bottom, left, right = box
    rows, columns = torch.arange(height, device=box.device), torch.arange(width, device=box.device)
    is_pasted = ((rows >= top) & (rows < bottom))[:, None] & ((columns >= left) & (columns < right))
    outside = torch.where(is_pasted.any(), torch.ones_like(mix_weight), mix_weight)
    return outside.masked_fill(is_pasted, 0)


def mix(
    views: Float[Tensor, "n_views n ..."],
    partners: Int64[Tensor, " b"],
    mix_weight: Float[Tensor, ""],
    box: Int64[Tensor, "4"] | None = None,
) -> Float[Tensor, "n_views b ..."]:
    """λ·x_i + (1 − λ)·x_partner(i), the same partner and the same λ in every view; of rows with a partner.

    Where there is a box, and it is not empty, the partner's pixels are pasted into it instead.
    """
    if fits_eager_kernels(views) and _is_channels_last(views) and not views.requires_grad:
        from laplacenet.training.objective_kernels import mix_pictures  # noqa: PLC0415 - needs Triton

        return mix_pictures(views, partners, mix_weight, box)
    others = views.index_select(1, partners)
    # not in bf16: a rounded λ in the picture would not be the λ of the loss
    precise = at_least_float32(views[:, : len(partners)])
    weight = mix_weight.to(precise.dtype)
    if box is not None:
        weight = pixel_weights(box, weight, *views.shape[-2:])
    return torch.lerp(at_least_float32(others), precise, weight).to(views.dtype)


def mixed_cross_entropy(
    logits: Float[Tensor, "n_views b C"],
    targets: Int64[Tensor, " n"],
    partners: Int64[Tensor, " b"],
    mix_weight: Float[Tensor, ""],
) -> Float[Tensor, ""]:
    """Cross-entropy is linear in its target, so a mixed target is a mixture of two plain losses."""
    if fits_eager_kernels(logits) and logits.dtype is torch.float32 and logits.shape[-1] <= MOST_CLASSES:
        from laplacenet.training.objective_kernels import MixedCrossEntropy  # noqa: PLC0415 - needs Triton

        return MixedCrossEntropy.apply(logits, targets, partners, mix_weight)  # type: ignore[no-any-return,no-untyped-call]
    own = multi_view_cross_entropy(logits, targets[: len(partners)])
    other = multi_view_cross_entropy(logits, targets.index_select(0, partners))
    return torch.lerp(other, own, mix_weight.to(own.dtype))


def _is_channels_last(views: Float[Tensor, "n_views n ..."]) -> bool:
    """Whether they are pictures that lie one behind another without a gap, each pixel by pixel."""
    return views.ndim == N_AXES and views.permute(0, 1, 3, 4, 2).is_contiguous()


def mixed_weighted_cross_entropy(
    logits: Float[Tensor, "n_views b C"],
    targets: Int64[Tensor, " n"],
    partners: Int64[Tensor, " b"],
    *,
    mix_weight: Float[Tensor, ""],
    weights: Float[Tensor, " n"],
) -> Float[Tensor, ""]:
    """The same mixture, each target with the weight of the image that it comes from."""
    own = weighted_cross_entropy(logits, targets[: len(partners)], weights[: len(partners)])
    other = weighted_cross_entropy(logits, targets.index_select(0, partners), weights.index_select(0, partners))
    return torch.lerp(other, own, mix_weight.to(own.dtype))


def mixed_soft_cross_entropy(
    logits: Float[Tensor, "n_views b C"],
    targets: Float[Tensor, "n C"],
    partners: Int64[Tensor, " b"],
    mix_weight: Float[Tensor, ""],
) -> Float[Tensor, ""]:
    """The same for soft targets; rows that do not sum to 1 are weighted by their sum."""
    mixed = torch.lerp(targets.index_select(0, partners), targets[: len(partners)], mix_weight.to(targets.dtype))
    return -(mixed.to(logits.dtype) * logits.log_softmax(dim=-1)).sum(dim=-1).mean()
