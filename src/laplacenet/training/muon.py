"""Muon: a convolution's momentum is made orthogonal before it changes the weights (Jordan et al., 2024)."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from laplacenet.runtime import compute_dtype

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # by its authors: after five rounds singular values lie between 0.7 and 1.2
ITERATIONS = 5
RATE = 0.2  # of `train.lr`: 0.1 there is the 0.02 of its authors
MATRIX_MOMENTUM = "matrix_momentum"
"""In a parameter group: it holds matrices, and this is their momentum."""


def orthogonalize(matrices: Float[Tensor, "n r c"]) -> Float[Tensor, "n r c"]:
    """The same singular vectors with singular values near 1, by a Newton–Schulz iteration: products alone.

    On a GPU that has it in bf16: a singular value need not be near 1 by more digits than that.
    """
    a, b, c = COEFFICIENTS
    X = matrices.mT if matrices.shape[1] > matrices.shape[2] else matrices
    X = X / (torch.linalg.matrix_norm(X, keepdim=True) + 1e-7)
    if X.dtype == torch.float32:
        X = X.to(compute_dtype(X.device))
    for _ in range(ITERATIONS):
        A = X @ X.mT
        X = torch.baddbmm(X, torch.baddbmm(A, A, A, beta=b, alpha=c), X, beta=a)
    X = X.to(matrices.dtype)
    return X.mT if matrices.shape[1] > matrices.shape[2] else X


class Muon(torch.optim.SGD):
    """SGD; but in groups with a `matrix_momentum` the gradient is replaced by what Muon takes in its place.

    A weight is a matrix with a row for each output channel. Matrices of one shape are made orthogonal together. Their
    own momentum is applied here, so SGD's is 0 in these groups.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        for group in self.param_groups:
            if MATRIX_MOMENTUM in group:
                self._replace_gradients(group)
        return super().step(closure)

    def _replace_gradients(self, group: dict[str, Any]) -> None:
        by_shape: dict[tuple[int, int], list[Tensor]] = {}
        for weight in group["params"]:
            if weight.grad is not None:
                by_shape.setdefault((len(weight), weight[0].numel()), []).append(weight)
        for (n_rows, n_columns), weights in by_shape.items():
            directions = torch.stack([self._direction(weight, group[MATRIX_MOMENTUM]) for weight in weights])
            updates = orthogonalize(directions) * max(1.0, n_rows / n_columns) ** 0.5
            for weight, update in zip(weights, updates, strict=True):
                assert weight.grad is not None
                weight.grad.copy_(update.view(weight.shape))

    def _direction(self, weight: Tensor, momentum: float) -> Float[Tensor, "r c"]:
        """Nesterov's momentum."""
        buffer: Tensor = self.state[weight]["momentum_buffer"]
        assert weight.grad is not None
        buffer.mul_(momentum).add_(weight.grad)
        return weight.grad.add(buffer, alpha=momentum).flatten(1)


def matrices_of(learner: nn.Module) -> Iterator[nn.Parameter]:
    """The weights that Muon is for: those of convolutions whose outputs see all channels."""
    for module in learner.modules():
        if isinstance(module, nn.Conv2d) and module.groups == 1 and isinstance(module.weight, nn.Parameter):
            yield module.weight


def split_groups(
    learner: nn.Module, groups: list[dict[str, Any]], *, momentum: float, decay: float
) -> list[dict[str, Any]]:
    """Each group's matrices apart from the rest. Weights decay as fast as everywhere else."""
    matrices = {id(weight) for weight in matrices_of(learner)}
    split = []
    for group in groups:
        of_muon = [parameter for parameter in group["params"] if id(parameter) in matrices]
        rest = [parameter for parameter in group["params"] if id(parameter) not in matrices]
        own = {"lr_scale": RATE * group.get("lr_scale", 1.0), "weight_decay": decay / RATE}
        own |= {"momentum": 0.0, "nesterov": False, MATRIX_MOMENTUM: momentum}
        split += [group | {"params": rest}] if rest else []
        split += [group | own | {"params": of_muon}] if of_muon else []
    return split
