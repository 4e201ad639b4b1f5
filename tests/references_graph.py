"""Slow literal forms of the graph's steps, in float64."""

import numpy as np


def literal_alignment(F, prior, unlabeled, iterations):
    """Algorithm 1 line by line, with exactly `iterations` rounds over all classes and x/0 → ∞, 0/0 → 1."""
    F = np.array(F, dtype=np.float64)
    n_classes = F.shape[1]
    for _ in range(iterations):
        D_U = np.zeros(n_classes)
        for u in unlabeled:
            D_U[np.argmax(F[u])] += 1 / len(unlabeled)
        R = np.ones(n_classes)
        for c in range(n_classes):
            if D_U[c] > 0:
                R[c] = prior[c] / D_U[c]
            elif prior[c] > 0:
                R[c] = np.inf
        R[R > 1.01] = 1.01
        R[R < 0.99] = 0.99
        for c in range(n_classes):
            F[unlabeled, c] *= R[c]
        F /= F.sum(1, keepdims=True)
    return F / F.sum(1, keepdims=True)


def literal_affinity(X, k):
    """W by its definition, pair by pair."""
    n = len(X)
    similarity = X @ X.T
    W = np.zeros((n, n))
    for i in range(n):
        others = sorted((j for j in range(n) if j != i), key=lambda j: -similarity[i, j])
        for j in others[:k]:
            W[i, j] = W[j, i] = max(similarity[i, j], similarity[j, i], 0)
    return W


def dense_normalized(W):
    """𝒲 = D^(−1/2) W D^(−1/2), with zero rows for points without an edge."""
    degree = W.sum(1)
    scale = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1)), 0)
    return scale[:, None] * W * scale[None, :]


def literal_energy(F, W, Y, mu):
    """¼ Σ W_ij ‖F_i/√d_i − F_j/√d_j‖² + µ/2 Σ ‖F_i − Y_i‖², pair by pair."""
    degree = W.sum(1)
    energy = 0.0
    for i in range(len(W)):
        for j in range(len(W)):
            if W[i, j] > 0:
                energy += W[i, j] * np.sum((F[i] / np.sqrt(degree[i]) - F[j] / np.sqrt(degree[j])) ** 2) / 4
    return energy + mu / 2 * np.sum((F - Y) ** 2)
