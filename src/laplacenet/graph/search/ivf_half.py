"""Approximate neighbors for many points on a GPU: IVF-Flat in half precision with exact re-ranking.

As in `ivf.py`, k-means puts every point into the list of its nearest centroid. Here all points of a list search the
same lists, those whose centroids are nearest to their own. That takes more scores than if each point chose its lists,
but a list's work is one large product and one selection, which a GPU does many times faster than many small ones. The
best candidates by half-precision scores are scored again in full precision. On a CPU, where only tests use it, all
products are in full precision.
"""

import contextlib
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int, Int64
from torch import Tensor

from laplacenet.graph.search.exact import BLOCK_BYTES, exact_rows, padded_columns, top_k
from laplacenet.graph.search.half import EXTRA, best_candidates, half_products
from laplacenet.graph.search.ivf import Lists, make_lists, share_as_near
from laplacenet.graph.search.neighbors import Neighbors, nearest_neighbors
from laplacenet.graph.search.sharing import Found, of_all
from laplacenet.runtime import stream
from laplacenet.runtime.group import ALONE, Group

TARGET_RECALL = 0.97
N_SAMPLED = 512
LISTS_PER_ROOT = 3.0  # lists per √n: at ten million points a list of a thousand, which is one product
LEAST_POINTS = 4096  # below, the lists would be hardly longer than the neighborhoods
MOST_PROBED = 0.5  # share of the lists; if more are needed, all points are searched
POINTS_AT_ONCE = 1 << 20

Clock = Callable[[str], AbstractContextManager[None]]
"""Entered around each stage, for those who want to know how long it takes."""


def no_clock(_: str) -> AbstractContextManager[None]:
    return contextlib.nullcontext()


@dataclass(frozen=True)
class Probes:
    """Which lists the points of each list search, nearest first; on the host as well, where sizes are reckoned."""

    lists: Int64[Tensor, "lists probes"]
    on_host: Int64[np.ndarray, "lists probes"]
    starts: Int64[np.ndarray, " bounds"]

    def columns(self, j: int) -> int:
        """How many points are searched for list j."""
        return int((self.starts[self.on_host[j] + 1] - self.starts[self.on_host[j]]).sum())

    def own_column(self, j: int) -> int | None:
        """Where the points of list j lie among those that are searched for it; None where they do not."""
        place = np.flatnonzero(self.on_host[j] == j)
        if not len(place):
            return None
        before = self.on_host[j, : place[0]]
        return int((self.starts[before + 1] - self.starts[before]).sum())


@torch.no_grad()
def half_ivf_neighbors(
    features: Float[Tensor, "n d"], *, k: int, clock: Clock = no_clock, group: Group = ALONE
) -> Neighbors:
    """Most of the k nearest neighbors by inner product, for rows of length 1, and the measured share of them.

    The processes of a group have the same features, and each searches for the points of some lists.
    """
    n, device = len(features), features.device
    if n < LEAST_POINTS or k > n // 64:
        return nearest_neighbors(features, k=k, group=group)
    with clock("lists"):
        lists = make_lists(features, lists_per_root=LISTS_PER_ROOT, group=group)
    sample = torch.from_numpy(stream(0, "graph/recall").choice(n, 2 * N_SAMPLED, replace=False)).to(device)
    tuning, judging = sample.chunk(2)
    with clock("probes"):
        probes = probes_for_recall(lists, tuning, k)
    if probes.lists.shape[1] > MOST_PROBED * len(lists.centroids):
        return nearest_neighbors(features, k=k, group=group)
    with clock("search"):
        similarities, found = of_all(*search_lists(lists, probes, k, group), group)
    with clock("recall"):
        short = similarities[:, -1].isinf().nonzero().flatten()
        similarities[short], again = exact_rows(lists.points, short, k)
        found[short] = again.int()
        recall = share_as_near(similarities[judging], exact_rows(lists.points, judging, k)[0])
    with clock("order"):
        return Neighbors(*in_given_order(lists.order, found, similarities), recall)


def probes_for_recall(lists: Lists, sample: Int[Tensor, " s"], k: int) -> Probes:
    """The least number of lists for each list in which the sampled points find the target share of true neighbors."""
    order = (lists.centroids @ lists.centroids.T).argsort(1, descending=True)
    own, true = list_of(lists, sample), list_of(lists, exact_rows(lists.points, sample, k)[1])
    some = order.index_select(0, own)
    rank = torch.empty_like(some).scatter_(1, some, torch.arange(some.shape[1], device=some.device).expand_as(some))
    needed = rank.gather(1, true).flatten()
    n_probes = int(needed.kthvalue(math.ceil(TARGET_RECALL * len(needed))).values) + 1
    probed = order[:, :n_probes].contiguous()
    return Probes(probed, probed.cpu().numpy(), lists.starts.cpu().numpy())


def list_of(lists: Lists, positions: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    """The list that each position lies in."""
    return torch.searchsorted(lists.starts, positions, right=True) - 1


def search_lists(lists: Lists, probes: Probes, k: int, group: Group = ALONE) -> Found:
    """Similarities and positions of the best k that each point of this process's lists finds; −∞ for fewer."""
    device, own = lists.points.device, group.part(len(probes.on_host))
    n = int(probes.starts[own.stop] - probes.starts[own.start])
    halves = lists.points.half() if device.type == "cuda" else lists.points
    similarities, found = lists.points.new_empty(n, k), torch.empty(n, k, dtype=torch.int32, device=device)
    widest = max(padded_columns(max(probes.columns(j), k + EXTRA), k + EXTRA)[0] for j in range(len(probes.on_host)))
    buffer = halves.new_empty(
        max(widest, min(BLOCK_BYTES[device.type] // halves.element_size(), widest * longest_list(probes)))
    )
    for j in own:
        rows = slice(*(int(bound - probes.starts[own.start]) for bound in probes.starts[j : j + 2]))
        search_list(lists, halves, probes, j, buffer=buffer, out=(similarities[rows], found[rows]))
    return similarities, found


def longest_list(probes: Probes) -> int:
    return int(np.diff(probes.starts).max())


def search_list(
    lists: Lists,
    halves: Float[Tensor, "n d"],
    probes: Probes,
    j: int,
    *,
    buffer: Float[Tensor, " most"],
    out: Found,
) -> None:
    """The neighbors of the points of list j, as many of them at once as the buffer holds scores for."""
    similarities, found = out
    k, n_columns = similarities.shape[1], probes.columns(j)
    positions = members(lists, probes.lists[j], n_columns)
    points, own = halves.index_select(0, positions), probes.own_column(j)
    n_padded, width = padded_columns(max(n_columns, k + EXTRA), k + EXTRA)
    first, last = int(probes.starts[j]), int(probes.starts[j + 1])
    n_rows = len(buffer) // n_padded
    for start in range(first, last, n_rows):
        rows = slice(start, min(start + n_rows, last))
        scores = buffer[: (rows.stop - start) * n_padded].view(-1, n_padded)
        half_products(halves[rows], points, scores[:, :n_columns])
        scores[:, n_columns:] = -math.inf
        if own is not None:
            scores.diagonal(own + start - first).fill_(-math.inf)
        nearest, columns = top_k(scores, k + EXTRA, width)
        candidates = positions.index_select(0, columns.flatten().clamp_(max=n_columns - 1)).view_as(columns)
        best_k, best = best_candidates(lists.points, lists.points[rows], candidates, k)
        here = slice(start - first, rows.stop - first)
        # Where not all candidates are points, the row is searched again.
        similarities[here] = best_k.masked_fill_(nearest[:, -1:].isinf(), -math.inf)
        found[here] = best.int()


def members(lists: Lists, probed: Int[Tensor, " probes"], n_members: int) -> Int[Tensor, " members"]:
    """The positions of all points of these lists, list after list; the host knows how many, so it need not wait."""
    starts = lists.starts.index_select(0, probed)
    sizes = lists.starts.index_select(0, probed + 1) - starts
    shift = torch.repeat_interleave(starts - (sizes.cumsum(0) - sizes), sizes, output_size=n_members)
    return shift + torch.arange(n_members, device=probed.device)


def in_given_order(
    order: Int[Tensor, " n"], found: Int[Tensor, "n k"], similarities: Float[Tensor, "n k"]
) -> tuple[Int[Tensor, "n k"], Float[Tensor, "n k"]]:
    """Rows and the points that they name, as the caller numbers them."""
    indices = torch.empty(found.shape, dtype=torch.int64, device=found.device)
    for start in range(0, len(found), POINTS_AT_ONCE):
        rows = order[start : start + POINTS_AT_ONCE]
        indices[rows] = order.index_select(0, found[start : start + POINTS_AT_ONCE].flatten()).view(len(rows), -1)
    back = torch.empty_like(similarities)
    back[order] = similarities
    return indices, back
