"""scikit-learn's contract over the graph and over training: `fit(X, y)` with −1 for "no label"."""

from laplacenet.estimators.classifier import LaplaceNetClassifier
from laplacenet.estimators.features import PretrainedFeatures
from laplacenet.estimators.propagation import LaplacePropagation

__all__ = ["LaplaceNetClassifier", "LaplacePropagation", "PretrainedFeatures"]
