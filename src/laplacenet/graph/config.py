"""The settings of the pseudo-label pass."""

import math
from dataclasses import dataclass

from laplacenet.runtime import InputError

SEARCHES = ("auto", "exact", "approximate")

MOST_ITERATIONS = 100_000  # a thousand times what either loop needs; more would only look like a hang


@dataclass(frozen=True)
class GraphConfig:
    """How features and a few labels become pseudo-labels.

    `k` counts neighbors without the point itself and is cut to n − 1. `mu` is the paper's µ. `tol` and
    `max_iterations` end the conjugate gradients, `alignment_iterations` is the T of Algorithm 1 (0: no alignment),
    `prior` its D (None: the class shares among the labeled points). `search` says how neighbors are found: `auto` is
    exact up to 100 000 points on a CPU and two million on a GPU.
    """

    k: int = 50
    mu: float = 0.01
    tol: float = 1e-4
    max_iterations: int = 100
    alignment_iterations: int = 100
    prior: tuple[float, ...] | None = None
    search: str = "auto"

    def __post_init__(self) -> None:
        for name, least in (("k", 1), ("max_iterations", 1), ("alignment_iterations", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InputError(f"graph.{name} = {value!r}; give an integer of at least {least}")
        for name in ("max_iterations", "alignment_iterations"):
            if getattr(self, name) > MOST_ITERATIONS:
                raise InputError(f"graph.{name} = {getattr(self, name)}; give at most {MOST_ITERATIONS}")
        for name in ("mu", "tol"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"graph.{name} = {value!r}; give a positive number")
        if self.prior is not None and not (self.prior and all(math.isfinite(p) and p > 0 for p in self.prior)):
            raise InputError(f"graph.prior = {self.prior!r}; give one positive number per class")
        if self.search not in SEARCHES:
            raise InputError(f"unknown graph.search {self.search!r}; choose one of {', '.join(SEARCHES)}")

    def require_classes(self, n_classes: int) -> None:
        """Refuse a prior for another number of classes."""
        if self.prior is not None and len(self.prior) != n_classes:
            raise InputError(f"graph.prior has {len(self.prior)} entries; give one for each of the {n_classes} classes")

    def notes(self, n: int) -> list[str]:
        """What a person should know before the first step on n inputs."""
        if self.k < n:
            return []
        said = f"graph.k is reduced from {self.k} to {n - 1}, so all {n} inputs are neighbors of one another"
        return [f"{said}; lower graph.k to keep only the most similar"]

    @property
    def gamma(self) -> float:
        """The paper's γ, from γ(1 + µ) = 1."""
        return 1 / (1 + self.mu)
