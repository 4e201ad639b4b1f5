"""Approximate neighbors for many points on a CPU: IVF-Flat, an inverted file of uncompressed vectors.

k-means puts every point into the list of its nearest centroid, and a point searches only the `n_probes` lists whose
centroids are nearest to it. All points of a list are searched together, so that the work is matrix products. The
number of probes that reaches the target recall is measured on a sample of points whose exact neighbors are computed;
the recall reported is measured on another sample.
"""

import itertools
import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from laplacenet.graph.search.exact import BLOCK_BYTES, exact_rows
from laplacenet.graph.search.neighbors import Neighbors, nearest_neighbors
from laplacenet.graph.search.selection import best_at_least
from laplacenet.graph.search.sharing import of_all
from laplacenet.runtime import stream
from laplacenet.runtime.group import ALONE, Group
from laplacenet.runtime.threads import by_pieces

TARGET_RECALL = 0.97
N_SAMPLED = 512
LLOYD_ITERATIONS = 8
CHUNK_WIDTH = 32
LISTS_PER_ROOT = 0.5  # lists per √n: more of them make small products, fewer make long searches
BUFFER_BYTES = 1 << 25
PIECES_PER_THREAD = 4  # so that threads end at about the same time
ROUNDING = 1e-6  # products of unit vectors, summed in another order
LEAST_POINTS = 4096  # below, the lists would be hardly longer than the neighborhoods


@dataclass(frozen=True)
class Lists:
    """`points`, sorted so that list j is `points[starts[j]:starts[j + 1]]`; `order` says which point each row was."""

    points: Float[Tensor, "n d"]
    order: Int[Tensor, " n"]
    starts: Int[Tensor, " bounds"]
    centroids: Float[Tensor, "lists d"]


@torch.no_grad()
def ivf_neighbors(features: Float[Tensor, "n d"], *, k: int, group: Group = ALONE) -> Neighbors:
    """Most of the k nearest neighbors by inner product, for rows of length 1, and the measured share of them.

    The processes of a group have the same features, and each searches for a part of them.
    """
    n = len(features)
    if n < LEAST_POINTS or k > n // 64:
        return nearest_neighbors(features, k=k, group=group)
    lists = make_lists(features, group=group)
    tuning, judging = torch.from_numpy(stream(0, "graph/recall").permutation(n)[: 2 * N_SAMPLED]).chunk(2)
    n_probes = group.by_first(lambda: probes_for_recall(lists, tuning, k))
    of_group = _pieces(n, group.by_first(torch.get_num_threads))
    pieces = [of_group[number] for number in group.part(len(of_group))]
    first = pieces[0].start if pieces else 0
    n_own = pieces[-1].stop - first if pieces else 0
    similarities, found = features.new_empty(n_own, k), torch.empty(n_own, k, dtype=torch.int64)

    def search(rows: slice) -> None:
        here = slice(rows.start - first, rows.stop - first)
        similarities[here], found[here] = _search(lists, rows, n_probes=n_probes, k=k)

    by_pieces(search, pieces)
    similarities, found = of_all(similarities, found, group)
    short = similarities[:, -1].isinf().nonzero().flatten()
    similarities[short], found[short] = exact_rows(lists.points, short, k)
    recall = share_as_near(similarities[judging], exact_rows(lists.points, judging, k)[0])
    back = lists.order.argsort()
    return Neighbors(lists.order[found[back]], similarities[back], recall)


def make_lists(X: Float[Tensor, "n d"], *, lists_per_root: float = LISTS_PER_ROOT, group: Group = ALONE) -> Lists:
    """Each point goes to its nearest centroid; lists much longer than the mean are split, so that work is even."""
    n, n_centroids = len(X), round(lists_per_root * math.sqrt(len(X)))
    centroids = _centroids(X, n_centroids)
    group.broadcast([centroids])  # a GPU adds in any order
    assigned = nearest_centroids(X, centroids)
    group.broadcast([assigned])  # another kind of processor may round another way
    nearest, order = assigned.sort(stable=True)
    capacity = 2 * n // n_centroids
    rank_in_list = torch.arange(n, device=X.device) - torch.searchsorted(nearest, nearest)
    owners, sizes = torch.unique_consecutive(nearest * n + rank_in_list // capacity, return_counts=True)
    starts = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    return Lists(X[order], order, starts, centroids[owners // n])


def _centroids(X: Float[Tensor, "n d"], n_centroids: int) -> Float[Tensor, "lists d"]:
    """k-means by inner product, on a sample."""
    sample = X[torch.from_numpy(stream(0, "graph/centroids").permutation(len(X))[: 64 * n_centroids])]
    centroids = sample[:n_centroids]
    for _ in range(LLOYD_ITERATIONS):
        nearest = nearest_centroids(sample, centroids)
        sums = torch.zeros_like(centroids).index_add_(0, nearest, sample)
        length = torch.linalg.vector_norm(sums, dim=1, keepdim=True)
        # A centroid that lost all its points stays where it was.
        centroids = torch.where(length > 0, sums / length, centroids)
    return centroids


def nearest_centroids(X: Float[Tensor, "n d"], centroids: Float[Tensor, "lists d"]) -> Int[Tensor, " n"]:
    """The list of each point; on a GPU by half-precision products, for near a border either list will do."""
    n_rows = BLOCK_BYTES[X.device.type] // (4 * len(centroids))
    if X.device.type == "cpu":
        return torch.cat([(block @ centroids.T).argmax(1) for block in torch.split(X, min(n_rows, 1 << 14))])
    columns = centroids.half().T
    return torch.cat([(block.half() @ columns).argmax(1) for block in torch.split(X, n_rows)])


def probes_for_recall(lists: Lists, sample: Int[Tensor, " s"], k: int) -> int:
    """The least number of lists in which the sampled points find the target share of their true neighbors.

    Never so few that lists of one chunk each could not hold k points.
    """
    true = exact_rows(lists.points, sample, k)[1]
    order = (lists.points[sample] @ lists.centroids.T).argsort(1, descending=True)
    rank = torch.empty_like(order).scatter_(1, order, torch.arange(order.shape[1]).expand_as(order))
    needed = rank.gather(1, torch.searchsorted(lists.starts, true, right=True) - 1).flatten()
    enough = int(needed.kthvalue(math.ceil(TARGET_RECALL * len(needed))).values) + 1
    return min(max(enough, math.ceil(k / CHUNK_WIDTH)), len(lists.centroids))


def _pieces(n: int, n_threads: int) -> list[slice]:
    n_pieces = PIECES_PER_THREAD * n_threads
    bounds = [n * number // n_pieces for number in range(n_pieces + 1)]
    return [slice(start, stop) for start, stop in itertools.pairwise(bounds)]


def _search(lists: Lists, rows: slice, *, n_probes: int, k: int) -> tuple[Float[Tensor, "m k"], Int[Tensor, "m k"]]:
    """The best k among the `n_probes` nearest lists of each of these rows, block after block."""
    n, n_lists = len(lists.points), len(lists.centroids)
    n_rows = max(1, BUFFER_BYTES * n_lists // (n_probes * n * lists.points.element_size()))
    chunks_of_longest = math.ceil(int(lists.starts.diff().max()) / CHUNK_WIDTH)
    # Memory that is asked for again and again would be cleared by the system each time.
    buffer = lists.points.new_empty(n_rows * n_probes * chunks_of_longest, CHUNK_WIDTH)
    found = [
        _search_block(lists, slice(start, min(start + n_rows, rows.stop)), buffer, n_probes=n_probes, k=k)
        for start in range(rows.start, rows.stop, n_rows)
    ]
    similarities, indices = zip(*found, strict=True)
    return torch.cat(similarities), torch.cat(indices)


def _search_block(
    lists: Lists, rows: slice, buffer: Float[Tensor, "chunks width"], *, n_probes: int, k: int
) -> tuple[Float[Tensor, "m k"], Int[Tensor, "m k"]]:
    """As in `top_k`: first the best chunks of scores, then the best scores in them."""
    queries = lists.points[rows]
    probed = (queries @ lists.centroids.T).topk(n_probes, dim=1).indices
    # A line is one row's scores in one list. Lines are ordered by list: those of a list are one product.
    list_of_line, pairs = probed.flatten().sort()
    lines = pairs.argsort().view_as(probed)
    chunks, first_chunk = _chunks_of_scores(lists, queries.index_select(0, pairs // n_probes), list_of_line, buffer)
    positions = torch.arange(rows.start, rows.stop)
    own = torch.searchsorted(lists.starts, positions, right=True) - 1
    row, slot = (probed == own[:, None]).nonzero(as_tuple=True)
    itself = first_chunk[lines[row, slot]] * CHUNK_WIDTH + (positions - lists.starts[own])[row]
    chunks.view(-1)[itself] = -math.inf

    n_chunks = first_chunk.diff()
    step = torch.arange(int(n_chunks.max()))
    chunk_of = (first_chunk[lines][:, :, None] + step).clamp_(max=len(chunks) - 1).flatten(1)
    maxima = chunks.amax(1).index_select(0, chunk_of.flatten()).view_as(chunk_of)
    maxima.masked_fill_((step >= n_chunks[lines][:, :, None]).flatten(1), -math.inf)
    maximum, best = maxima.topk(min(k, maxima.shape[1]), dim=1, sorted=False)
    candidates = chunks.index_select(0, chunk_of.gather(1, best).flatten()).view(*best.shape, CHUNK_WIDTH)
    candidates.masked_fill_(maximum.isinf()[:, :, None], -math.inf)
    least = maximum.amin(1) if best.shape[1] == k else maximum.new_full((len(maximum),), -math.inf)
    similarities, places = best_at_least(candidates.flatten(1), least, k)
    best = best.gather(1, places // CHUNK_WIDTH)
    start = lists.starts[probed.gather(1, best // len(step))]
    return similarities, start + best % len(step) * CHUNK_WIDTH + places % CHUNK_WIDTH


def _chunks_of_scores(
    lists: Lists,
    queries: Float[Tensor, "lines d"],
    list_of_line: Int[Tensor, " lines"],
    buffer: Float[Tensor, "most width"],
) -> tuple[Float[Tensor, "chunks width"], Int[Tensor, " bounds"]]:
    """Every line's scores, each filled up to whole chunks with −∞, and where each line's chunks begin."""
    which, counts = torch.unique_consecutive(list_of_line, return_counts=True)
    sizes = lists.starts.diff()
    n_chunks = (sizes + CHUNK_WIDTH - 1) // CHUNK_WIDTH
    first_chunk = torch.cat([counts.new_zeros(1), n_chunks[list_of_line].cumsum(0)])
    chunks = buffer[: int(first_chunk[-1])]
    line = 0
    for j, count in zip(which.tolist(), counts.tolist(), strict=True):
        first, last = int(lists.starts[j]), int(lists.starts[j + 1])
        block = chunks[first_chunk[line] : first_chunk[line + count]].view(count, -1)
        torch.mm(queries[line : line + count], lists.points[first:last].T, out=block[:, : last - first])
        block[:, last - first :] = -math.inf
        line += count
    return chunks, first_chunk


def share_as_near(found: Float[Tensor, "s k"], true: Float[Tensor, "s k"]) -> float:
    """The recall: how many of the found are as near as the true ones; of equally near points any will do."""
    return float((found >= true[:, -1:] - ROUNDING).float().mean())
