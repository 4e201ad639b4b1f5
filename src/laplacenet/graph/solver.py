"""Conjugate gradients for (I − γ𝒲) F = Y, all classes at once."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Num
from torch import Tensor

from laplacenet.graph.arrays import Array, as_floating

# A look at the residuals makes the host wait for the device: dear on a GPU, free on a CPU. A class that has
# converged is frozen, so looking late changes no result.
ITERATIONS_PER_LOOK = {"cpu": 1, "cuda": 8}


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
    F, R, P, A_P = torch.zeros_like(Y), Y.clone(), Y.clone(), torch.empty_like(Y)
    rho = R.square().sum(0)
    target = rho * tol**2
    n_iterations = torch.zeros((), dtype=torch.int64, device=Y.device)
    look_every = ITERATIONS_PER_LOOK.get(Y.device.type, 1)
    for iteration in range(max_iterations):
        is_active = rho > target
        if iteration % look_every == 0 and not is_active.any():
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
    residual = torch.where(target > 0, rho.sqrt() / Y.square().sum(0).sqrt(), 0)
    return Solution(F, int(n_iterations), residual, is_converged=bool((rho <= target).all()))
