"""The graph alone as an estimator: features and a few labels in, a label for every point out."""

import warnings
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Shaped
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from laplacenet.estimators.labels import SemiSupervisedClassifier, numbered
from laplacenet.estimators.parameters import real_number, value_errors, whole_number
from laplacenet.estimators.priors import class_weights
from laplacenet.graph import GraphConfig, pseudo_label
from laplacenet.graph.induction import directions, neighbor_means
from laplacenet.runtime import choose_device

FLOATING = (np.float64, np.float32)


class LaplacePropagation(SemiSupervisedClassifier, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Spread a few labels to every point over a nearest-neighbor graph, in memory proportional to the points.

    A label travels along a graph whose weights are the cosines between each point and its nearest neighbors: the scores
    minimize a Laplacian energy, found by conjugate gradients. They are then aligned, so that the classes become as
    frequent as `prior` says. Stands where :class:`sklearn.semi_supervised.LabelSpreading` stands.

    Parameters
    ----------
    n_neighbors : int, default=50
        Neighbors of each point, itself not counted; cut to the number of other points.
    mu : float, default=0.01
        How much the scores hold on to the given labels; the smaller, the farther labels travel.
    tol : float, default=1e-4
        Relative residual at which conjugate gradients stop.
    max_iter : int, default=100
        Most iterations of conjugate gradients; a ConvergenceWarning says when they did not do.
    alignment_iterations : int, default=100
        Rounds of the alignment; 0 leaves the scores as they are, exactly as `prior=None` does.
    prior : "labeled", "shrunk", None or array-like of shape (n_classes,), default="labeled"
        The classes' shares to align to. "labeled": those among the given labels, right where each class was given
        labels in proportion to its size or equally in equal classes. "shrunk": those, drawn towards equal shares as
        far as so few labels leave room for doubt; better where the labeled points were drawn at random. None: no
        alignment. Numbers: in the order of `classes_`, up to a common factor.
    search : {"auto", "exact", "approximate"}, default="auto"
        How a CPU finds neighbors; "auto" is exact up to 100 000 points.
    device : str, default="auto"
        "cpu", "cuda", "cuda:N", or "auto": the first GPU if there is one.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes among the given labels.
    transduction_ : ndarray of shape (n_samples,)
        The label of every training point; a given label is kept.
    label_distributions_ : ndarray of shape (n_samples, n_classes)
        The aligned scores, as rows that sum to 1.
    class_prior_ : ndarray of shape (n_classes,)
        The shares that `prior` came to.
    unreachable_ : ndarray of shape (n_samples,)
        True where no path leads to a label; the distribution is then `class_prior_`.
    n_iter_ : int
        Iterations of conjugate gradients.
    recall_ : float or None
        The share of true neighbors that an approximate search found, estimated on a sample; None where it was exact.
    X_ : ndarray of shape (n_samples, n_features)
        The training points.
    n_features_in_ : int
        The number of features; `feature_names_in_` their names where X was a data frame with text columns.

    Notes
    -----
    Features are compared by their angle at the origin, as suits embeddings. Where the origin means nothing (measured
    quantities, few dimensions), put a :class:`sklearn.preprocessing.StandardScaler` before. Sparse features are
    refused: reduce them first, with :class:`sklearn.decomposition.TruncatedSVD`.

    Texts may be labels: in an array of texts "-1" stands for no label, in an object array -1 as well. `score` leaves
    out rows without a label, so that `cross_val_score` judges only what is known; with `scoring="accuracy"` they would
    count as errors.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from laplacenet.estimators import LaplacePropagation
    >>> X, digits = load_digits(return_X_y=True)
    >>> y = np.full(len(digits), -1)
    >>> for digit in range(10):
    ...     y[np.flatnonzero(digits == digit)[:4]] = digit
    >>> propagation = LaplacePropagation(n_neighbors=10).fit(X, y)
    >>> float(np.mean(propagation.transduction_ == digits)) > 0.9
    True
    >>> propagation.predict(X[:5])
    array([0, 1, 2, 3, 4])
    """

    # Any: a constructor of scikit-learn takes whatever it is given; fit looks at it
    def __init__(
        self,
        n_neighbors: Any = 50,
        *,
        mu: Any = 0.01,
        tol: Any = 1e-4,
        max_iter: Any = 100,
        alignment_iterations: Any = 100,
        prior: Any = "labeled",
        search: Any = "auto",
        device: Any = "auto",
    ) -> None:
        self.n_neighbors = n_neighbors
        self.mu = mu
        self.tol = tol
        self.max_iter = max_iter
        self.alignment_iterations = alignment_iterations
        self.prior = prior
        self.search = search
        self.device = device

    def fit(self, X: Any, y: Any) -> "LaplacePropagation":
        """Label every point of X; y holds the given labels, -1 for none."""
        X, y = validate_data(self, X, y, dtype=FLOATING)
        classes, numbers = numbered(y)
        weights = class_weights(self.prior, np.bincount(numbers[numbers >= 0]))
        with value_errors():
            config = self._graph_config(weights)
            device = choose_device(str(self.device))
        self._directions = directions(X)
        features = torch.from_numpy(self._directions).to(device)
        found = pseudo_label(features, torch.from_numpy(numbers), config, n_classes=len(classes))
        if not found.is_converged:
            warnings.warn(
                f"conjugate gradients did not reach tol={self.tol} in max_iter={self.max_iter} iterations",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.X_ = X
        self.classes_ = classes
        self.class_prior_ = np.array(weights) / sum(weights)
        self.transduction_ = classes[found.labels.cpu().numpy()]
        self.label_distributions_ = found.scores.double().cpu().numpy()
        self.unreachable_ = found.unreachable.cpu().numpy()
        self.n_iter_ = found.n_iterations
        self.recall_ = found.recall
        return self

    def predict(self, X: Any) -> Shaped[np.ndarray, " n"]:
        """The most likely class of each point, of `predict_proba`."""
        most_likely = self.predict_proba(X).argmax(axis=1)
        labels: np.ndarray = self.classes_[most_likely]
        return labels

    def predict_proba(self, X: Any) -> Float64[np.ndarray, "n C"]:
        """The mean of the label distributions of the `n_neighbors` nearest training points, weighted by cosine.

        A training point is its own nearest neighbor here. Where no neighbor was reached by a label, `class_prior_`.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATING, reset=False)
        with value_errors():
            device = choose_device(str(self.device))
        heard = np.where(self.unreachable_[:, None], 0, self.label_distributions_)
        queries, points, distributions, prior = (
            torch.from_numpy(array).to(device) for array in (directions(X), self._directions, heard, self.class_prior_)
        )
        k = whole_number("n_neighbors", self.n_neighbors)
        return neighbor_means(queries, points, distributions, k=k, otherwise=prior).cpu().numpy()

    def _graph_config(self, weights: tuple[float, ...]) -> GraphConfig:
        n_rounds = whole_number("alignment_iterations", self.alignment_iterations)
        return GraphConfig(
            k=whole_number("n_neighbors", self.n_neighbors),
            mu=real_number("mu", self.mu),
            tol=real_number("tol", self.tol),
            max_iterations=whole_number("max_iter", self.max_iter),
            alignment_iterations=0 if self.prior is None else n_rounds,
            prior=weights,
            search=self.search,
        )
