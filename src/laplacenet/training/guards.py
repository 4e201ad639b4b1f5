"""Checks before a run and during it: inputs that fit, numbers that stay finite; and a measure of collapse."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from laplacenet.augment import shrunk
from laplacenet.models import Network, require_fit
from laplacenet.runtime import InputError, RunError
from laplacenet.training.config import TrainConfig
from laplacenet.training.muon import matrices_of

SAMPLE = 500


class DivergedError(RunError):
    """A loss, a feature or a weight is no longer a number; what was saved before is still good."""


def require_trainable(network: Network, example: Tensor, train: TrainConfig, *, name: str) -> None:
    """Refuse a network that cannot read such an input, also as small as `train.small_scale` makes it."""
    require_fit(network, example, name=name)
    if train.optimizer == "muon" and next(matrices_of(network), None) is None:
        raise InputError(
            f"train.optimizer = muon trains the weights of convolutions, but {name} has none, or uses weight norm;"
            " choose sgd or adamw, or model.weight_norm=false"
        )
    if train.small_share:
        if example.ndim != 4:
            raise InputError("train.small_share: only pictures can be shrunk; leave it out for vectors")
        scale = train.small_scale
        remedy = f"a train.small_scale above {scale}, or "
        require_fit(network, shrunk(example, scale), name=name, remedy=remedy)


def require_finite(values: Float[Tensor, "n d"], *, what: str, step: int) -> None:
    """Features or outputs of the inputs: once a label pass or a checkpoint, where the device is waited for anyway."""
    n_bad = int((~values.isfinite().all(dim=1)).sum())
    if n_bad:
        raise DivergedError(
            f"the {what} of {n_bad} of {len(values)} inputs are not finite at step {step} (a lower train.lr may help)"
        )


def require_finite_weights(tensors: Mapping[str, Tensor], *, step: int) -> None:
    """Before they are saved: the last step's loss may still be finite when its gradients are not."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise DivergedError(f"{name} is not finite at step {step} (a lower train.lr may help)")


def mean_cosine(features: Float[Tensor, "n d"]) -> float:
    """Between all pairs of up to 500 rows, evenly spread: 1 where every input has the same embedding."""
    sample = functional.normalize(evenly_spread(features).double(), dim=1)
    n = len(sample)
    # the square of the sum holds every ordered pair and, once each, the rows with themselves
    return float((sample.sum(dim=0).square().sum() - sample.square().sum()) / max(1, n * (n - 1)))


def evenly_spread(rows: Tensor, n: int = SAMPLE) -> Tensor:
    """n of the rows; all where there are fewer."""
    n = min(n, len(rows))
    return rows[torch.arange(n, device=rows.device) * len(rows) // max(1, n)]
