"""Features and a few labels become pseudo-labels: neighbors, affinity, conjugate gradients, alignment to a prior."""

from laplacenet.graph.affinity import affinity, laplacian_energy, normalize
from laplacenet.graph.alignment import align_to_prior
from laplacenet.graph.config import GraphConfig
from laplacenet.graph.pseudo_labels import PseudoLabels, hard_labels, pseudo_label
from laplacenet.graph.search import Neighbors, nearest_neighbors
from laplacenet.graph.solver import Solution, propagate, solve

__all__ = [
    "GraphConfig",
    "Neighbors",
    "PseudoLabels",
    "Solution",
    "affinity",
    "align_to_prior",
    "hard_labels",
    "laplacian_energy",
    "nearest_neighbors",
    "normalize",
    "propagate",
    "pseudo_label",
    "solve",
]
