"""Nearest neighbors by inner product: exact by blocked products, through int8 or half precision, or IVF-Flat."""

from laplacenet.graph.search.ivf import ivf_neighbors
from laplacenet.graph.search.ivf_half import half_ivf_neighbors
from laplacenet.graph.search.neighbors import Neighbors, nearest_neighbors

__all__ = ["Neighbors", "half_ivf_neighbors", "ivf_neighbors", "nearest_neighbors"]
