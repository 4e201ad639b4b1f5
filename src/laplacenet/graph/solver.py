"""Conjugate gradients for (I − γ𝒲) F = Y, all classes at once."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Num
from torch import Tensor

from laplacenet.graph.arrays import Array, as_floating
from laplacenet.runtime.group import ALONE, Group
from laplacenet.runtime.threads import by_pieces

# A look at the residuals makes the host wait for the device: dear on a GPU, free on a CPU. A class that has
# converged is frozen, so looking late changes no result.
ITERATIONS_PER_LOOK = {"cpu": 1, "cuda": 4}
# On a CPU the product is bound by its cache, so only so many classes are solved at a time.
CPU_BLOCK_BYTES = 1 << 22
SMALL_BYTES = 1 << 28  # on a GPU, so many bytes for each array of n × C fit without asking
N_ARRAYS = 7  # of n × C at once: F, R, P, (I − γ𝒲)P, one more on the way, and room for pieces that do not fit together
MOST_ENTRIES = 2**31 - 1  # of a dense matrix, for cuSPARSE with 32-bit indices
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
    W_normalized: Float[Tensor, "n n"],
    Y: Float[Tensor, "n C"],
    *,
    gamma: float,
    tol: float,
    max_iterations: int,
    group: Group = ALONE,
) -> Solution:
    """Each class stops by itself when ‖Y_c − (I − γ𝒲)F_c‖ ≤ tol ‖Y_c‖; a class without labels stays zero.

    𝒲 has its eigenvalues in [−1, 1] and γ < 1, so the system is positive definite. The processes of a group have the
    same system; each solves for some classes and has the solution for all.
    """
    own = group.part(Y.shape[1])
    some = Y[:, own.start : own.stop] if group.reduces else Y
    solution = solve_classes(W_normalized, some, gamma=gamma, tol=tol, max_iterations=max_iterations)
    if not group.reduces:
        return solution
    ends = torch.tensor([[solution.n_iterations, int(solution.is_converged)]])
    of_each = group.gather(ends)
    return Solution(
        group.gather(solution.F.T.contiguous()).T.contiguous(),
        int(of_each[:, 0].max()),
        group.gather(solution.residual),
        bool(of_each[:, 1].all()),
    )


def solve_classes(
    W_normalized: Float[Tensor, "n n"], Y: Float[Tensor, "n C"], *, gamma: float, tol: float, max_iterations: int
) -> Solution:
    """In this process, in blocks of classes that fit the cache or memory."""
    Y = Y.to(W_normalized.dtype)
    n_at_once = classes_at_once(Y)

    def solve_some(some: Float[Tensor, "n some"]) -> Solution:
        return _conjugate_gradients(
            W_normalized, some.contiguous(), gamma=gamma, tol=tol, max_iterations=max_iterations
        )

    if n_at_once >= Y.shape[1]:
        return solve_some(Y)
    F = torch.empty_like(Y)

    def fill_some(first: int) -> Solution:
        some = slice(first, first + n_at_once)
        solution = solve_some(Y[:, some])
        F[:, some] = solution.F
        return replace(solution, F=F[:, some])

    pieces = range(0, Y.shape[1], n_at_once)
    # A GPU's memory would not hold two of them.
    blocks = by_pieces(fill_some, pieces) if Y.device.type == "cpu" else [fill_some(first) for first in pieces]
    return Solution(
        F,
        max(block.n_iterations for block in blocks),
        torch.cat([block.residual for block in blocks]),
        all(block.is_converged for block in blocks),
    )


def classes_at_once(Y: Float[Tensor, "n C"]) -> int:
    """How many classes are solved at a time."""
    n_bytes = len(Y) * Y.element_size()
    if Y.device.type == "cpu":
        return LINE * max(1, CPU_BLOCK_BYTES // (n_bytes * LINE))
    if Y.nbytes < SMALL_BYTES:
        return Y.shape[1]
    free = torch.cuda.mem_get_info(Y.device)[0]
    unused = torch.cuda.memory_reserved(Y.device) - torch.cuda.memory_allocated(Y.device)
    return max(1, min(Y.shape[1], (free + unused) // (N_ARRAYS * n_bytes), MOST_ENTRIES // len(Y)))


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
