"""Multinomial logistic regression on a few labeled rows, as scikit-learn's, made for many fits on the same rows.

With W the weights and b the offsets it minimizes C·Σ −log p(yᵢ | xᵢ) + ½‖W‖². The solution lies in the span of the
rows, so m rows of more than m numbers are first turned into rows of m numbers with the same inner products.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int64
from scipy.linalg import eigh
from scipy.optimize import minimize

RANK_TOLERANCE = 1e-10  # of the largest eigenvalue; directions below it hold nothing but rounding
HISTORY = 10
LOOSE = 1e-4  # a tolerance from which on single precision is enough


@dataclass(frozen=True, eq=False)
class LogisticModel:
    """Logits are X @ weights + offsets."""

    weights: Float64[np.ndarray, "d C"]
    offsets: Float64[np.ndarray, " C"]
    n_iterations: int

    def logits(self, X: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, "n C"]:
        found: np.ndarray = X @ self.weights + self.offsets
        return found


def fit_logistic(
    X: Float64[np.ndarray, "m d"],
    y: Int64[np.ndarray, " m"],
    *,
    n_classes: int,
    C: float,
    tol: float = 1e-5,
    weights: Float64[np.ndarray, " m"] | None = None,
    start: LogisticModel | None = None,
) -> LogisticModel:
    """The minimizer to within a gradient of `tol` (of the mean loss), from `start` or from zero.

    `weights` say how often each row counts, once where None. A class without rows gets the offset −∞: nothing can be
    said for it.
    """
    is_present = np.bincount(y, minlength=n_classes) > 0
    counts = np.ones(len(X)) if weights is None else weights
    share, places = counts / counts.sum(), (np.arange(len(X)), np.cumsum(is_present)[y] - 1)

    def compare(log_p: Float[np.ndarray, "m C"], residual: Float[np.ndarray, "m C"]) -> float:
        residual[places] -= 1
        return -float(log_p[places] @ share)

    rows = _Rows(X, share, 1 / (C * counts.sum()), compare)
    stop = Stop(tol)
    first = np.zeros((X.shape[1] + 1, int(is_present.sum())))
    if start is not None:
        first = np.concatenate([start.weights, np.nan_to_num(start.offsets, neginf=0.0)[None]])[:, is_present]
    table, n_iterations = _minimize(rows, first, stop)
    slopes, offsets = np.zeros((X.shape[1], n_classes)), np.full(n_classes, -np.inf)
    slopes[:, is_present], offsets[is_present] = table[:-1], table[-1] - table[-1].mean()
    return LogisticModel(slopes, offsets, n_iterations)


@dataclass(frozen=True)
class Stop:
    """When to stop: at a gradient of `tol` (of the mean loss), after so many iterations, or when `is_stale` says so."""

    tol: float
    max_iterations: int = 1000
    is_stale: Callable[[], bool] = lambda: False


def fit_soft_logistic(
    X: Float[np.ndarray, "m d"],
    targets: Float[np.ndarray, "m C"],
    counts: Float[np.ndarray, " m"],
    *,
    C: float,
    start: LogisticModel,
    stop: Stop,
) -> LogisticModel:
    """As `fit_logistic`, for rows that belong to several classes in part: rows of `targets` sum to 1.

    `counts` say how often each row counts.
    """
    share = counts / counts.sum()

    def compare(log_p: Float[np.ndarray, "m C"], residual: Float[np.ndarray, "m C"]) -> float:
        residual -= targets
        return -float(np.einsum("mc,mc,m->", targets, log_p, share))

    rows = _Rows(X, share, 1 / (C * float(counts.sum())), compare)
    table, n_iterations = _minimize(rows, np.concatenate([start.weights, start.offsets[None]]), stop)
    return LogisticModel(table[:-1], table[-1] - table[-1].mean(), n_iterations)


@dataclass(frozen=True, eq=False)
class _Rows:
    """The problem to solve; `compare` subtracts the targets from the probabilities in place and returns the
    cross-entropy.
    """

    X: Float[np.ndarray, "m d"]
    share: Float[np.ndarray, " m"]
    penalty: float
    compare: Callable[[Float[np.ndarray, "m C"], Float[np.ndarray, "m C"]], float]


def _minimize(fitted: _Rows, first: Float64[np.ndarray, "d1 C"], stop: Stop) -> tuple[Float64[np.ndarray, "d1 C"], int]:
    """Weights, and offsets as the last row, by L-BFGS; and the number of iterations."""
    d, penalty = fitted.X.shape[1], fitted.penalty
    # single precision halves the time of the products; its rounding is far below any tolerance used
    precision = np.float32 if stop.tol >= LOOSE else np.float64
    rows, share = fitted.X.astype(precision, copy=False), fitted.share[:, None].astype(precision)

    def loss(flat: Float64[np.ndarray, " p"]) -> tuple[float, Float64[np.ndarray, " p"]]:
        table = flat.reshape(d + 1, -1)
        logits = rows @ table[:d].astype(precision) + table[d].astype(precision)
        log_p = normalized_rows(logits)
        residual = np.exp(log_p)
        cross_entropy = fitted.compare(log_p, residual)
        residual *= share
        gradient = np.concatenate([rows.T @ residual + penalty * table[:d], residual.sum(0, keepdims=True)])
        return cross_entropy + penalty / 2 * float(np.square(table[:d]).sum()), gradient.ravel()

    def look(_: Float64[np.ndarray, " p"]) -> None:
        if stop.is_stale():
            raise StopIteration

    options = {"maxiter": stop.max_iterations, "gtol": stop.tol / np.sqrt(d + 1), "ftol": 1e-12, "maxcor": HISTORY}
    found = minimize(loss, first.ravel(), jac=True, method="L-BFGS-B", options=options, callback=look)
    return found.x.reshape(d + 1, -1), int(found.nit)


def normalized_rows(logits: Float[np.ndarray, "m C"]) -> Float[np.ndarray, "m C"]:
    """The logarithms of the softmax; SciPy's takes several times as long."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    normalized: np.ndarray = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return normalized


def span_basis(X: Float64[np.ndarray, "m d"]) -> Float64[np.ndarray, "d r"]:
    """Orthonormal columns that span the rows; X @ basis has their inner products in r ≤ min(m, d) numbers."""
    if X.shape[0] >= X.shape[1]:
        return np.eye(X.shape[1])
    values, vectors = eigh(X @ X.T)
    is_kept = values > RANK_TOLERANCE * max(values[-1], np.finfo(float).tiny)
    basis: np.ndarray = X.T @ (vectors[:, is_kept] / np.sqrt(values[is_kept]))
    return basis
