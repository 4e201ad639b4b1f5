"""The only room that sees test labels: errors, pseudo-label accuracy, augmentation invariance, deviations."""

from laplacenet.evaluation.accuracy import correct, error_rate, errors_by_class, pseudo_label_accuracy, share
from laplacenet.evaluation.invariance import augmentation_invariance
from laplacenet.evaluation.spread import mean_and_std

__all__ = [
    "augmentation_invariance",
    "correct",
    "error_rate",
    "errors_by_class",
    "mean_and_std",
    "pseudo_label_accuracy",
    "share",
]
