"""Multinomial logistic regression on a few labeled rows, as scikit-learn's, made for many fits on the same rows.

With W the weights and b the offsets it minimizes C·Σ −log p(yᵢ | xᵢ) + ½‖W‖². The solution lies in the span of the
rows, so m rows of more than m numbers are first turned into rows of m numbers with the same inner products.
"""

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
    numbers = np.cumsum(is_present)[y] - 1
    n_present, d = int(is_present.sum()), X.shape[1]
    counts = np.ones(len(X)) if weights is None else weights
    n = counts.sum()
    penalty, share = 1 / (C * n), counts / n
    # single precision halves the time of the products; its rounding is far below any tolerance used
    precision = np.float32 if tol >= LOOSE else np.float64
    rows, places = X.astype(precision), (np.arange(len(X)), numbers)

    def loss(flat: Float64[np.ndarray, " p"]) -> tuple[float, Float64[np.ndarray, " p"]]:
        table = flat.reshape(d + 1, n_present)
        logits = rows @ table[:d].astype(precision) + table[d].astype(precision)
        log_p = normalized_rows(logits)
        residual = np.exp(log_p)
        residual[places] -= 1
        residual *= share[:, None].astype(precision)
        gradient = np.concatenate([rows.T @ residual + penalty * table[:d], residual.sum(0, keepdims=True)])
        value = -float(log_p[places] @ share) + penalty / 2 * float(np.square(table[:d]).sum())
        return value, gradient.ravel()

    first = np.zeros((d + 1, n_present))
    if start is not None:
        first = np.concatenate([start.weights, np.nan_to_num(start.offsets, neginf=0.0)[None]])[:, is_present]
    options = {"maxiter": 1000, "gtol": tol / np.sqrt(d + 1), "ftol": 1e-12, "maxcor": HISTORY}
    found = minimize(loss, first.ravel(), jac=True, method="L-BFGS-B", options=options)
    table = found.x.reshape(d + 1, n_present)
    slopes, offsets = np.zeros((d, n_classes)), np.full(n_classes, -np.inf)
    slopes[:, is_present], offsets[is_present] = table[:d], table[d] - table[d].mean()
    return LogisticModel(slopes, offsets, int(found.nit))


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
