"""Conjugate gradients for (I − γ𝒲) F = Y, all classes at once."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Num
from torch import Tensor

from laplacenet.graph.arrays import Array, as_floating
from laplacenet.runtime.threads import by_pieces

# A look at the residuals makes the host wait for the device: dear on a GPU, free on a CPU. A class that has
# converged is frozen, so looking late changes no result.
ITERATIONS_PER_LOOK = {"cpu": 1, "cuda": 8}
# On a CPU the product is bound by its cache, so only so many classes are solved at a time.
CPU_BLOCK_BYTES = 1 << 22
LINE = 16  # classes whose values fill one line of the cache, so that a neighbor is read at once


@dataclass(frozen=True)
class Solution:
    """F, the iterations until the last class converged, and each class's final relative residual."""

    F: Float[Tensor, "n C"]
    n_iterations: int
    residual: Float[Tensor, " C"]
    is_converged: bool


def propagate(
    W_normalized: Float[Tensor, "n n"], Y: Num[Array, "n C"], *, gamma: float, tol: float, max_iterations: int
) -> Float[Tensor, "n C"]:
    """The paper's F: the solution of (I − γ𝒲) F = Y. The minimiser of the energy is (1 − γ)F: same labels."""
    return solve(W_normalized, as_floating(Y), gamma=gamma, tol=tol, max_iterations=max_iterations).F


@torch.no_grad()
def solve(
    W_normalized: Float[Tensor, "n n"], Y: Float[Tensor, "n C"], *, gamma: float, tol: float, max_iterations: int
) -> Solution:
    """Each class stops by itself when ‖Y_c − (I − γ𝒲)F_c‖ ≤ tol ‖Y_c‖; a class without labels stays zero.

    𝒲 has its eigenvalues in [−1, 1] and γ < 1, so the system is positive definite.
    """
    Y = Y.to(W_normalized.dtype)
    n_at_once = Y.shape[1]
    if Y.device.type == "cpu":
        n_at_once = LINE * max(1, CPU_BLOCK_BYTES // (len(Y) * Y.element_size() * LINE))

    def solve_some(some: Float[Tensor, "n some"]) -> Solution:
        return _conjugate_gradients(W_normalized, some, gamma=gamma, tol=tol, max_iterations=max_iterations)

    pieces = [some.contiguous() for some in torch.split(Y, n_at_once, dim=1)]
    # A block by itself is shared by all threads.
    blocks = by_pieces(solve_some, pieces) if len(pieces) > 1 else [solve_some(Y)]
    return Solution(
        torch.cat([block.F for block in blocks], dim=1),
        max(block.n_iterations for block in blocks),
        torch.cat([block.residual for block in blocks]),
        all(block.is_converged for block in blocks),
    )


def _conjugate_gradients(
    W_normalized: Float[Tensor, "n n"], Y: Float[Tensor, "n C"], *, gamma: float, tol: float, max_iterations: int
) -> Solution:
    F, R, P, A_P = torch.zeros_like(Y), Y.clone(), Y.clone(), torch.empty_like(Y)
    rho = R.square().sum(0)
    # R goes on shrinking when F no longer changes; where its squares would vanish, alpha would be 1/0.
    size, target = rho, rho * max(tol, torch.finfo(Y.dtype).eps ** 2) ** 2
    n_iterations = torch.zeros((), dtype=torch.int64, device=Y.device)
    for iteration in range(max_iterations):
        is_active = rho > target
        if iteration % ITERATIONS_PER_LOOK[Y.device.type] == 0 and not is_active.any():
            break
        n_iterations += is_active.any()
        torch.mm(W_normalized, P, out=A_P)
        torch.sub(P, A_P, alpha=gamma, out=A_P)
        alpha = torch.where(is_active, rho / (P * A_P).sum(0), 0)
        F.addcmul_(P, alpha)
        R.addcmul_(A_P, alpha, value=-1)
        rho_next = R.square().sum(0)
        P.mul_(torch.where(is_active, rho_next / rho, 0)).add_(R)
        rho = rho_next
    residual = torch.where(size > 0, (rho / size).sqrt(), 0)
    return Solution(F, int(n_iterations), residual, bool((rho <= target).all()))
