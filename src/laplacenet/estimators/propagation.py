"""The graph alone as an estimator: features and a few labels in, a label for every point out."""

import warnings
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Shaped
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from laplacenet.estimators.fitting import fitting
from laplacenet.estimators.labels import SemiSupervisedClassifier, numbered, refuse_masked
from laplacenet.estimators.parameters import real_number, value_errors, whole_number
from laplacenet.estimators.priors import CHOICES, prior_weights
from laplacenet.graph import GraphConfig, PseudoLabels, pseudo_label
from laplacenet.graph.guided import Classifier, GuidedConfig, GuidedLabels, label_landscape, landscape
from laplacenet.graph.induction import directions, neighbor_means
from laplacenet.runtime import InputError, choose_device

FLOATING = (np.float64, np.float32)
PRIORS = f"'auto', 'estimated' (with base='logistic'), {CHOICES}"
OR_AUTO = " or 'auto'"


class LaplacePropagation(SemiSupervisedClassifier, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Spread a few labels to every point over a nearest-neighbor graph, in memory proportional to the points.

    A label travels along a graph whose weights are the cosines between each point and its nearest neighbors: the scores
    minimize a Laplacian energy, found by conjugate gradients. They are then aligned, so that the classes become as
    frequent as `prior` says. A drop-in alternative to :class:`sklearn.semi_supervised.LabelSpreading`.

    Parameters
    ----------
    n_neighbors : int or "auto", default="auto"
        Neighbors of each point, itself not counted; cut to the number of other points. "auto": 50, or 10 with
        `base="logistic"`.
    base : None or "logistic", default=None
        What the graph spreads. None: the given labels alone, as in the paper. "logistic": the probabilities of a
        logistic regression on the given labels, which is better on embeddings of a pretrained network. Features are
        centered first, and replaced by their square roots before that if none is negative. The regularization is chosen
        by cross-validation, and the probabilities are calibrated. The folds depend on the order of the rows, so that
        another order may change the result slightly.
    mu : float or "auto", default="auto"
        How much the scores hold on to what is spread; the smaller, the farther it travels. "auto": 0.01, or 0.18 with
        `base="logistic"` and up to two labels a class, and more for more labels, whose classifier deserves more trust.
    tol : float, default=1e-4
        Relative residual at which conjugate gradients stop, below 1.
    max_iter : int, default=100
        Most iterations of conjugate gradients; a ConvergenceWarning is given if they did not converge.
    alignment_iterations : int, default=100
        Rounds of the alignment; 0 leaves the scores as they are, exactly as `prior=None` does.
    prior : "auto", "estimated", "labeled", "shrunk", "equal", None or array-like of shape (n_classes,), default="auto"
        The classes' shares to align to. "auto": "labeled", or "estimated" with `base="logistic"`. "estimated": from the
        given labels and from the scores themselves; only with `base="logistic"`. "labeled": the shares among the given
        labels, right where each class was given labels in proportion to its size or equally in equal classes.
        "shrunk": those, drawn towards equal shares as far as so few labels leave room for doubt; better where the
        labeled points were drawn at random. "equal": equal shares. None: no alignment. Numbers: in the order of
        `classes_`, up to a common factor.
    search : {"auto", "exact", "approximate"}, default="auto"
        How neighbors are found; "auto" is exact up to 100 000 points on a CPU and two million on a GPU.
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
    def __init__(  # noqa: PLR0913 - one argument a parameter
        self,
        n_neighbors: Any = "auto",
        *,
        base: Any = None,
        mu: Any = "auto",
        tol: Any = 1e-4,
        max_iter: Any = 100,
        alignment_iterations: Any = 100,
        prior: Any = "auto",
        search: Any = "auto",
        device: Any = "auto",
    ) -> None:
        self.n_neighbors = n_neighbors
        self.base = base
        self.mu = mu
        self.tol = tol
        self.max_iter = max_iter
        self.alignment_iterations = alignment_iterations
        self.prior = prior
        self.search = search
        self.device = device

    def fit(self, X: Any, y: Any) -> "LaplacePropagation":
        """Label every point of X; y holds the given labels, -1 for none."""
        with fitting(self):
            return self._fit(X, y)

    def _fit(self, X: Any, y: Any) -> "LaplacePropagation":
        refuse_masked(X=X, y=y)
        X, y = validate_data(self, X, y, dtype=FLOATING)
        classes, numbers = numbered(y)
        with value_errors():
            spread = self._spread_logistic if self._is_logistic() else self._spread_labels
            found = spread(X, numbers, len(classes), choose_device(str(self.device)))
        if not found.is_converged:
            warnings.warn(
                f"conjugate gradients did not reach tol={self.tol} in max_iter={self.max_iter} iterations",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.X_ = X
        self.classes_ = classes
        self.transduction_ = classes[found.labels.cpu().numpy()]
        self.label_distributions_ = found.scores.double().cpu().numpy()
        return self

    def _spread_labels(self, X: Any, numbers: Any, n_classes: int, device: torch.device) -> PseudoLabels:
        weights = prior_weights(self._prior(), np.bincount(numbers[numbers >= 0]), choices=PRIORS)
        config = self._graph_config(weights)
        self._directions = directions(X)
        self._classifier: Classifier | None = None
        features = torch.from_numpy(self._directions).to(device)
        found = pseudo_label(features, torch.from_numpy(numbers), config, n_classes=n_classes)
        self.class_prior_ = np.array(weights) / sum(weights)
        self.unreachable_ = found.unreachable.cpu().numpy()
        self.n_iter_ = found.n_iterations
        self.recall_ = found.recall
        return found

    def _spread_logistic(self, X: Any, numbers: Any, n_classes: int, device: torch.device) -> GuidedLabels:
        prior = self._prior()
        weights = None
        if not (isinstance(prior, str) and prior == "estimated"):
            weights = prior_weights(prior, np.bincount(numbers[numbers >= 0]), choices=PRIORS)
        config = GuidedConfig(graph=self._graph_config(None), prior=weights)
        land = landscape(as_tensor(X, device), config)
        found = label_landscape(land, torch.from_numpy(numbers), n_classes=n_classes, config=config)
        self._directions = land.X.float().cpu().numpy()
        self._classifier, self._gamma = found.classifier, found.gamma
        self.class_prior_ = found.prior.double().cpu().numpy()
        self.unreachable_ = np.zeros(len(X), dtype=bool)
        self.n_iter_ = found.n_iterations
        self.recall_ = land.graph.recall
        return found

    def _is_logistic(self) -> bool:
        if self.base not in (None, "logistic"):
            raise InputError(f"unknown base {self.base!r}; choose None or 'logistic'")
        return self.base is not None

    def _prior(self) -> Any:
        is_word = isinstance(self.prior, str)
        if is_word and self.prior == "auto":
            return "estimated" if self._is_logistic() else "labeled"
        return self.prior

    def predict(self, X: Any) -> Shaped[np.ndarray, " n"]:
        """The most likely class of each point, of `predict_proba`."""
        most_likely = self.predict_proba(X).argmax(axis=1)
        labels: np.ndarray = self.classes_[most_likely]
        return labels

    def predict_proba(self, X: Any) -> Float64[np.ndarray, "n C"]:
        """The mean of the label distributions of the `n_neighbors` nearest training points, weighted by cosine.

        A training point is its own nearest neighbor here. Where no neighbor was reached by a label, `class_prior_`.
        """
        check_is_fitted(self, "label_distributions_")
        X = validate_data(self, X, dtype=FLOATING, reset=False)
        with value_errors():
            device = choose_device(str(self.device))
        heard = np.where(self.unreachable_[:, None], 0, self.label_distributions_)
        config, classifier = self._graph_config(None), self._classifier
        rows = directions(X) if classifier is None else classifier.transform(as_tensor(X)).float().cpu().numpy()
        queries, points, distributions, prior = (
            torch.from_numpy(array).to(device) for array in (rows, self._directions, heard, self.class_prior_)
        )
        means = neighbor_means(queries, points, distributions, k=config.k, otherwise=prior)
        if classifier is not None:  # as the energy weighs a point's own opinion against its neighbors'
            own = classifier.probabilities(as_tensor(X, device)).double()
            means = self._gamma * means + (1 - self._gamma) * own
        return means.cpu().numpy()

    def _graph_config(self, weights: tuple[float, ...] | None) -> GraphConfig:
        n_rounds = whole_number("alignment_iterations", self.alignment_iterations)
        tol = real_number("tol", self.tol)
        if tol >= 1:
            raise ValueError(f"tol = {self.tol!r}; it must be below 1, the residual before the first iteration")
        usual = GuidedConfig().graph if self._is_logistic() else GraphConfig()
        is_k_usual, is_mu_usual = (isinstance(value, str) and value == "auto" for value in (self.n_neighbors, self.mu))
        return GraphConfig(
            k=usual.k if is_k_usual else whole_number("n_neighbors", self.n_neighbors, otherwise=OR_AUTO),
            mu=usual.mu if is_mu_usual else real_number("mu", self.mu, otherwise=OR_AUTO),
            tol=tol,
            max_iterations=whole_number("max_iter", self.max_iter),
            alignment_iterations=0 if self.prior is None else n_rounds,
            prior=weights,
            search=self.search,
        )


def as_tensor(X: Float[np.ndarray, "n d"], device: torch.device | None = None) -> Float[Tensor, "n d"]:
    """A copy on the device: torch reads no array whose rows run backwards, as those of X[::-1] do."""
    return torch.from_numpy(X.copy()).to(device)
