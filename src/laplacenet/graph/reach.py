"""Which points the labels reach, and scores for those where the solver's are still zero."""

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Bool, Float, Int
from scipy.sparse.csgraph import dijkstra
from torch import Tensor


def reach_every_point(
    F: Float[Tensor, "n C"], W_normalized: Float[Tensor, "n n"]
) -> tuple[Float[Tensor, "n C"], Bool[Tensor, " n"]]:
    """Scores for every point that a path joins to a label, and a mask of the others.

    A row of F is exactly zero where no path leads to a label: every iterate is a polynomial in 𝒲 times Y. It may also
    hold nothing positive at the far end of a long path, where the true values are below the tolerance; such a point
    takes the scores of the nearest point that has any. Paths are followed on the host, and only if there are such rows.
    """
    is_scored = F.amax(1) > 0
    if is_scored.all():
        return F, ~is_scored
    source = torch.from_numpy(nearest_scored(W_normalized, is_scored.cpu().numpy())).to(F.device)
    unreachable = source < 0
    return torch.where(unreachable[:, None], 0, F[source.clamp(min=0)]), unreachable


def nearest_scored(W_normalized: Float[Tensor, "n n"], is_scored: Bool[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """The scored point nearest to each point, the smaller an edge's weight the longer the edge; −1 where none is."""
    n = len(is_scored)
    starts, columns, values = edges_of(W_normalized, np.flatnonzero(~is_scored))
    lengths = 1 / np.maximum(values, np.finfo(values.dtype).tiny)
    # A scored point is its own source, so only the edges of unscored points are walked.
    edges = scipy.sparse.csr_array((lengths, columns, starts), shape=(n, n)).T.tocsr()
    nearest = np.where(is_scored, np.arange(n), -1)
    borders = np.flatnonzero(is_scored & (np.diff(edges.indptr) > 0))
    if len(borders):
        _, _, source = dijkstra(edges, indices=borders, min_only=True, return_predecessors=True)
        nearest = np.where(is_scored, nearest, np.maximum(source, -1))
    return nearest


def edges_of(
    W: Float[Tensor, "n n"], rows: Int[np.ndarray, " some"]
) -> tuple[Int[np.ndarray, " bounds"], Int[np.ndarray, " edges"], Float[np.ndarray, " edges"]]:
    """The matrix on the host with all rows but these emptied: where rows begin, columns, values."""
    where = torch.from_numpy(rows).to(W.device)
    first = W.crow_indices()[where].long()
    counts = W.crow_indices()[where + 1].long() - first
    ends = counts.cumsum(0)
    entries = torch.repeat_interleave(first - (ends - counts), counts) + torch.arange(
        int(counts.sum()), device=W.device
    )
    sizes = np.zeros(W.shape[0], dtype=np.int64)
    sizes[rows] = counts.cpu().numpy()
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return starts, W.col_indices()[entries].cpu().numpy(), W.values()[entries].cpu().numpy()
