"""The pseudo-label pass as in the authors' code, for comparison with ours.

An exact flat index, SciPy's sparse matrices, SciPy's conjugate gradients for one class after another with a loose
tolerance, and Algorithm 1 as printed, point by point. It computes what `laplacenet.graph` computes: with the same
tolerance the labels are the same.
"""

import importlib.util
import time
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float, Float32, Int, Int64
from numpy import ndarray
from scipy.sparse.linalg import cg
from sklearn.neighbors import NearestNeighbors

HAS_FAISS = importlib.util.find_spec("faiss") is not None


@dataclass(frozen=True)
class AuthorsConfig:
    """The authors' values: residuals of 1e-3, no more than 20 iterations."""

    k: int = 50
    mu: float = 0.01
    tol: float = 1e-3
    max_iterations: int = 20
    alignment_iterations: int = 100


@dataclass(frozen=True)
class AuthorsLabels:
    """A label for every point, the scores behind it, and the seconds that each stage took."""

    labels: Int64[ndarray, " n"]
    scores: Float[ndarray, "n C"]
    stages: dict[str, float]


def authors_labels(
    features: Float32[ndarray, "n d"], labels: Int64[ndarray, " n"], config: AuthorsConfig, *, n_classes: int
) -> AuthorsLabels:
    """Lines 9 to 12 of Algorithm 2 for features of unit length; −1 marks a hidden label."""
    moments = [time.perf_counter()]
    similarities, indices = flat_neighbors(features, config.k)
    moments.append(time.perf_counter())
    W_normalized = normalized_matrix(similarities, indices)
    moments.append(time.perf_counter())
    F = propagate_by_class(W_normalized, labels, config, n_classes=n_classes)
    moments.append(time.perf_counter())
    given = labels[labels >= 0]
    prior = np.bincount(given, minlength=n_classes) / len(given)
    scores = align_by_counting(F, labels < 0, prior, iterations=config.alignment_iterations)
    moments.append(time.perf_counter())
    stages = dict(zip(("neighbors", "affinity", "cg", "alignment"), np.diff(moments).tolist(), strict=True))
    return AuthorsLabels(np.where(labels >= 0, labels, scores.argmax(1)), scores, stages)


def flat_neighbors(features: Float32[ndarray, "n d"], k: int) -> tuple[Float32[ndarray, "n k"], Int64[ndarray, "n k"]]:
    """The k nearest points by inner product, best first, without the point itself."""
    found = _faiss_search(features, k + 1) if HAS_FAISS else _brute_force_search(features, k + 1)
    is_self = found[1] == np.arange(len(features))[:, None]
    order = is_self.argsort(axis=1, kind="stable")[:, :k]  # among many ties the point itself may be missing
    return np.take_along_axis(found[0], order, 1), np.take_along_axis(found[1], order, 1)


def _faiss_search(features: Float32[ndarray, "n d"], k: int) -> tuple[ndarray, ndarray]:
    import faiss  # noqa: PLC0415  an optional package

    index = faiss.IndexFlatIP(features.shape[1])
    index.add(features)
    similarities, indices = index.search(features, k)
    return similarities, indices


def _brute_force_search(features: Float32[ndarray, "n d"], k: int) -> tuple[ndarray, ndarray]:
    """A stand-in of about the same cost: for unit lengths the nearest by distance are the nearest by inner product."""
    search = NearestNeighbors(n_neighbors=k, algorithm="brute", n_jobs=-1).fit(features)
    distances, indices = search.kneighbors(features)
    return (1 - distances**2 / 2).astype(np.float32), indices


def normalized_matrix(similarities: Float32[ndarray, "n k"], indices: Int64[ndarray, "n k"]) -> scipy.sparse.csr_array:
    """𝒲 of the symmetric graph: the larger of the two directions, negative similarities as 0."""
    n, k = indices.shape
    rows = np.repeat(np.arange(n), k)
    directed = scipy.sparse.csr_array((similarities.clip(min=0).ravel(), (rows, indices.ravel())), shape=(n, n))
    W = directed.maximum(directed.T).tocsr()
    degree = np.asarray(W.sum(axis=1)).ravel()
    scale = scipy.sparse.diags_array(1 / np.sqrt(np.where(degree > 0, degree, 1)))
    return (scale @ W @ scale).tocsr()


def propagate_by_class(
    W_normalized: scipy.sparse.csr_array, labels: Int[ndarray, " n"], config: AuthorsConfig, *, n_classes: int
) -> Float[ndarray, "n C"]:
    """F, one system after another, negative entries as 0."""
    gamma = 1 / (1 + config.mu)
    system = scipy.sparse.eye_array(len(labels), format="csr") - gamma * W_normalized
    F = np.zeros((len(labels), n_classes))
    for c in range(n_classes):
        y = (labels == c).astype(np.float64)
        F[:, c], _ = cg(system, y, rtol=config.tol, atol=0.0, maxiter=config.max_iterations)
    return F.clip(min=0)


def align_by_counting(
    F: Float[ndarray, "n C"], is_unlabeled: Bool[ndarray, " n"], prior: Float[ndarray, " C"], *, iterations: int
) -> Float[ndarray, "n C"]:
    """Algorithm 1 as printed: every unlabeled point is counted by itself, every class is deformed by itself."""
    F, unlabeled = F.copy(), np.flatnonzero(is_unlabeled)
    for _ in range(iterations):
        D_U = np.zeros(len(prior))
        for u in unlabeled:
            D_U[np.argmax(F[u])] += 1 / len(unlabeled)
        R = np.where(D_U > 0, prior / np.where(D_U > 0, D_U, 1), np.where(prior > 0, np.inf, 1.0))
        R[R > 1.01] = 1.01
        R[R < 0.99] = 0.99
        for c in range(len(prior)):
            F[unlabeled, c] *= R[c]
        total = F.sum(axis=1, keepdims=True)
        F /= np.where(total > 0, total, 1)
    return F
