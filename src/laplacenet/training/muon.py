"""Muon: a convolution's momentum is made orthogonal before it changes the weights (Jordan et al., 2024)."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from laplacenet.runtime import compute_dtype
from laplacenet.training.parameter_groups import Group, set_apart

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # by its authors: after five rounds singular values lie between 0.7 and 1.2
ITERATIONS = 5
RATE = 0.2  # of `train.lr`: 0.1 there is the 0.02 of its authors
MATRIX_MOMENTUM = "matrix_momentum"
"""In a parameter group: it holds matrices, and this is their momentum."""


def orthogonalize(matrices: Float[Tensor, "n r c"]) -> Float[Tensor, "n r c"]:
    """The same singular vectors with singular values near 1, by a Newton–Schulz iteration: products alone.

    Computed in bf16 on a GPU that has it: singular values need no more digits than that.
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

    A weight is a matrix with a row for each output channel. Matrices with the same number of rows are made orthogonal
    together, the narrower ones filled with columns of zeros, which change nothing else: kernels are short, and there
    are fewer this way. Their own momentum is applied here, so SGD's is 0 in these groups.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        for group in self.param_groups:
            if MATRIX_MOMENTUM in group:
                self._replace_gradients(group)
        return super().step(closure)

    def _replace_gradients(self, group: Group) -> None:
        weights = [weight for weight in group["params"] if weight.grad is not None]
        gradients: list[Tensor] = [weight.grad for weight in weights]
        buffers = [self.state[weight]["momentum_buffer"] for weight in weights]
        torch._foreach_mul_(buffers, group[MATRIX_MOMENTUM])
        torch._foreach_add_(buffers, gradients)
        torch._foreach_add_(gradients, buffers, alpha=group[MATRIX_MOMENTUM])  # Nesterov's
        by_rows: dict[int, list[Tensor]] = {}
        for gradient in gradients:
            by_rows.setdefault(len(gradient), []).append(gradient)
        for n_rows, members in by_rows.items():
            matrices = members[0].new_zeros(len(members), n_rows, max(member[0].numel() for member in members))
            for matrix, gradient in zip(matrices, members, strict=True):
                columns_like(gradient, matrix).copy_(gradient)
            for matrix, gradient in zip(orthogonalize(matrices), members, strict=True):
                gradient.copy_(columns_like(gradient, matrix))
        torch._foreach_mul_(gradients, [max(1.0, len(each) / each[0].numel()) ** 0.5 for each in gradients])


def columns_like(weight: Tensor, matrix: Float[Tensor, "r c"]) -> Tensor:
    """The first columns of the matrix, in the shape of a weight with as many rows."""
    return matrix[:, : weight[0].numel()].view(weight.shape)


def matrices_of(learner: nn.Module) -> Iterator[nn.Parameter]:
    """The weights that Muon is for: those of convolutions whose outputs see all channels."""
    for module in learner.modules():
        if isinstance(module, nn.Conv2d) and module.groups == 1 and isinstance(module.weight, nn.Parameter):
            yield module.weight


def split_groups(learner: nn.Module, groups: Iterable[Group], *, momentum: float, decay: float) -> list[Group]:
    """Each group's matrices apart from the rest. Weights decay as fast as everywhere else."""

    def own(group: Group) -> Group:
        scales = {"lr_scale": RATE * group.get("lr_scale", 1.0), "weight_decay": decay / RATE}
        return scales | {"momentum": 0.0, "nesterov": False, MATRIX_MOMENTUM: momentum}

    return set_apart(groups, matrices_of(learner), own)
