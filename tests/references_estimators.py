"""Digits with a few labels, and slow literal forms of what the estimators compute."""

import numpy as np
from sklearn.datasets import load_digits


def digits():
    """The pictures as vectors in double precision, and what they show."""
    return load_digits(return_X_y=True)


def some_labels(truth, n_per_class, seed=0):
    """As many labels of each class, −1 elsewhere."""
    rng = np.random.default_rng(seed)
    y = np.full(len(truth), -1)
    for label in np.unique(truth):
        y[rng.permutation(np.flatnonzero(truth == label))[:n_per_class]] = label
    return y


def random_labels(truth, n_labeled, seed=0):
    """Labels of points drawn whatever their class, −1 elsewhere."""
    rows = np.random.default_rng(seed).permutation(len(truth))[:n_labeled]
    y = np.full(len(truth), -1)
    y[rows] = truth[rows]
    return y


def literal_neighbor_means(queries, points, distributions, k):
    """Point by point: the mean of the k nearest points' distributions, weighted by cosine."""
    means = []
    for query in queries:
        cosines = [query @ point / (np.linalg.norm(query) * np.linalg.norm(point)) for point in points]
        nearest = np.argsort(cosines)[::-1][:k]
        total = sum(max(cosines[i], 0) * distributions[i] for i in nearest)
        means.append(total / total.sum())
    return np.array(means)
