"""Nearest neighbors by inner product: exact by blocked products, exact through int8 quantization, or IVF-Flat."""

from laplacenet.graph.search.ivf import ivf_neighbors
from laplacenet.graph.search.neighbors import Neighbors, nearest_neighbors

__all__ = ["Neighbors", "ivf_neighbors", "nearest_neighbors"]
