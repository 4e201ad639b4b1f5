"""LaplaceNet as an estimator: arrays and a few labels in, a trained network and a label for each out."""

import copy
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64, Shaped
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from laplacenet.estimators.fitting import fitting
from laplacenet.estimators.inputs import measured_inputs
from laplacenet.estimators.labels import SemiSupervisedClassifier, numbered, refuse_masked
from laplacenet.estimators.parameters import real_number, value_errors, whole_number
from laplacenet.estimators.priors import prior_weights
from laplacenet.graph import GraphConfig, pseudo_label
from laplacenet.models import MODELS, Inference, Network, build_model, learn_patches
from laplacenet.runtime import choose_device, stream_seed
from laplacenet.runtime.group import alone
from laplacenet.training import Execution, LaplaceNet, LaplaceNetConfig, Problem, Run, TrainConfig, train
from laplacenet.training.guards import require_finite, require_finite_weights


class LaplaceNetClassifier(SemiSupervisedClassifier, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """A network trained on a few labels and on pseudo-labels from a graph over its own embeddings.

    Before each epoch a graph over the network's embeddings spreads the given labels to every input; the network then
    trains on these labels with several strong augmentations of each picture. Vectors have no augmentations.

    Parameters
    ----------
    model : str or None, default=None
        The network: "mlp" for vectors; "small-cnn", "patch-cnn" (filters learned from the pictures, without
        labels), "13-cnn", "wrn-28-2", "wrn-28-8", "resnet-18" or "resnet-50" for pictures.
        None chooses "mlp", "small-cnn" or, beyond 48 pixels, "resnet-18".
    steps : int, default=500
        Optimization steps in all; more of them cost time and give accuracy.
    batch_size : int, default=100
        Inputs in a step, half of them labeled ones.
    n_views : int, default=3
        Augmentations of each picture in a step.
    lr : float, default=0.1
        The first learning rate; it falls to zero along a cosine.
    n_neighbors : int, default=50
        Neighbors of each input in the graph, itself not counted; cut to the number of other inputs.
    mu : float, default=0.01
        How much the scores hold on to the given labels; the smaller, the farther they travel.
    prior : "labeled", "shrunk", "equal", None or array-like of shape (n_classes,), default="labeled"
        The classes' shares to align to, with the same meanings as in :class:`LaplacePropagation`.
    flip : bool, default=True
        Mirror half of the views; turn it off where a mirror image is another class, as with digits.
    random_state : int, RandomState instance or None, default=0
        Decides the network's first weights, the batches and the views.
    device : str, default="auto"
        "cpu", "cuda", "cuda:N", or "auto": the first GPU if there is one.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes among the given labels.
    transduction_ : ndarray of shape (n_samples,)
        The label of every training input from the graph over the trained network's embeddings; a given label is kept.
    label_distributions_ : ndarray of shape (n_samples, n_classes)
        The graph's aligned scores, as rows that sum to 1.
    unreachable_ : ndarray of shape (n_samples,)
        True where no path of the graph leads to a label.
    network_ : torch.nn.Module
        The trained network, on the CPU.
    n_features_in_ : int
        The length of a vector; of pictures, the length of their first side.

    Notes
    -----
    X is an array of pictures, (n, h, w), (n, h, w, c) or (n, c, h, w) with 1 or 3 channels, or of vectors, (n, d).
    Pictures are best given as uint8; of other numbers the least becomes black and the largest white. Vectors are
    standardized inside. Labels and `score` are as in :class:`LaplacePropagation`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from laplacenet.estimators import LaplaceNetClassifier
    >>> X, digits = load_digits(return_X_y=True)
    >>> y = np.full(len(digits), -1)
    >>> for digit in range(10):
    ...     y[np.flatnonzero(digits == digit)[:4]] = digit
    >>> classifier = LaplaceNetClassifier(steps=200, device="cpu").fit(X, y)
    >>> float(np.mean(classifier.predict(X) == digits)) > 0.85
    True
    >>> images = X.reshape(-1, 8, 8)
    >>> classifier = LaplaceNetClassifier(steps=5, flip=False, device="cpu").fit(images, y)
    >>> classifier.predict_proba(images[:2]).shape
    (2, 10)
    """

    # Any: a constructor of scikit-learn takes whatever it is given; fit looks at it
    def __init__(  # noqa: PLR0913 - one argument a parameter
        self,
        model: Any = None,
        *,
        steps: Any = 500,
        batch_size: Any = 100,
        n_views: Any = 3,
        lr: Any = 0.1,
        n_neighbors: Any = 50,
        mu: Any = 0.01,
        prior: Any = "labeled",
        flip: Any = True,
        random_state: Any = 0,
        device: Any = "auto",
    ) -> None:
        self.model = model
        self.steps = steps
        self.batch_size = batch_size
        self.n_views = n_views
        self.lr = lr
        self.n_neighbors = n_neighbors
        self.mu = mu
        self.prior = prior
        self.flip = flip
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any) -> "LaplaceNetClassifier":
        """Train on X; y holds the given labels, -1 for none."""
        with fitting(self):
            return self._fit(X, y)

    def _fit(self, X: Any, y: Any) -> "LaplaceNetClassifier":
        refuse_masked(X=X, y=y)
        X, y = validate_data(self, X, y, allow_nd=True)
        classes, numbers = numbered(y)
        labels = torch.from_numpy(numbers)
        self._inputs = measured_inputs(X)
        inputs = self._inputs.tensor(X)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        with value_errors():
            self._views = self._inputs.views(inputs, flip=bool(self.flip))
            graph = self._graph_config(numbers)
            problem = Problem(labels, len(classes), self._views, seed)
            config = LaplaceNetConfig(n_views=whole_number("n_views", self.n_views))
            method = LaplaceNet(problem, self._train_config(), config, graph)
            network = self._network(inputs, len(classes), seed)
            execution = Execution(choose_device(str(self.device)))
            with alone():  # each process may fit its own
                for epoch in train(Run.of(method, network, inputs, execution)):
                    inference = epoch.inference
            features = inference.embed(inputs)
            self._require_finite(inference.network, features)
            found = pseudo_label(features, labels, graph, n_classes=len(classes))
        # on the CPU it can be pickled here and read where there is no GPU
        self.network_ = inference.network.eval().cpu()
        self.classes_ = classes
        self.transduction_ = classes[found.labels.cpu().numpy()]
        self.label_distributions_ = found.scores.double().cpu().numpy()
        self.unreachable_ = found.unreachable.cpu().numpy()
        return self

    def predict(self, X: Any) -> Shaped[np.ndarray, " n"]:
        """The network's most likely class of each input."""
        most_likely = self.predict_proba(X).argmax(axis=1)
        labels: np.ndarray = self.classes_[most_likely]
        return labels

    def predict_proba(self, X: Any) -> Float64[np.ndarray, "n C"]:
        """The network's probability of each class."""
        check_is_fitted(self, "network_")
        X = validate_data(self, X, allow_nd=True, reset=False)
        inputs = self._inputs.tensor(X)
        with value_errors():
            network = copy.deepcopy(self.network_).to(choose_device(str(self.device)))
        logits = Inference(network, self._views.plain).logits(inputs)
        return logits.double().softmax(dim=1).cpu().numpy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def _train_config(self) -> TrainConfig:
        batch_size = whole_number("batch_size", self.batch_size)
        if batch_size < 2:
            raise ValueError(f"batch_size = {batch_size}; it must be at least 2, for half of a batch is labeled")
        return TrainConfig(
            steps=whole_number("steps", self.steps),
            batch_size=batch_size,
            labeled_batch_size=batch_size // 2,
            lr=real_number("lr", self.lr),
        )

    def _graph_config(self, numbers: Int64[np.ndarray, " n"]) -> GraphConfig:
        return GraphConfig(
            k=whole_number("n_neighbors", self.n_neighbors),
            mu=real_number("mu", self.mu),
            alignment_iterations=0 if self.prior is None else GraphConfig.alignment_iterations,
            prior=prior_weights(self.prior, np.bincount(numbers[numbers >= 0])),
        )

    @torch.no_grad()
    def _require_finite(self, network: Network, features: Float[Tensor, "n d"]) -> None:
        """The loss is known before a step: what the last step broke shows in the weights and outputs alone."""
        n_steps = whole_number("steps", self.steps)
        require_finite_weights(network.state_dict(), step=n_steps)
        require_finite(network.head(features), what="outputs", step=n_steps)

    def _network(self, inputs: Tensor, n_classes: int, seed: int) -> Network:
        name = self._inputs.default_model if self.model is None else self.model
        if name not in MODELS:
            raise ValueError(f"unknown model {name!r}; choose one of {', '.join(MODELS)}, or None")
        if inputs.ndim == 2 and name != "mlp":
            raise ValueError(f"model = {name!r} reads pictures; vectors need model='mlp'")
        if inputs.ndim != 2 and name == "mlp":
            raise ValueError(
                f"model = 'mlp' reads vectors, but X holds pictures of shape {tuple(inputs.shape[1:])}; choose another"
            )
        network = build_model(name, n_classes=n_classes, in_channels=inputs.shape[1], seed=stream_seed(seed, "network"))
        network = network.float()  # whatever torch's default type is, the inputs are in single precision
        try:
            Inference(network, self._views.plain).embed(inputs[:1])
        except RuntimeError as error:
            raise ValueError(f"model = {name!r} cannot read pictures of shape {tuple(inputs.shape[1:])}") from error
        learn_patches(network, inputs, self._views.plain, seed=stream_seed(seed, "network"))
        return network
