"""Exact neighbors on a GPU by half-precision products with exact re-ranking.

Products of half-precision features find k candidates and a few more. They are scored in full precision, and the best k
of them are kept. The norm of the rounding errors bounds how far a half-precision score can lie from the true one: where
the k-th best true score is above everything that a point outside the candidates could reach, the result is exact. The
other rows are searched again in full precision. Where features have collapsed, that is nearly every row, and the rest
is searched in full precision at once.

Up to some 200 000 points a feature is the sum of two half-precision numbers: three times the products, with errors so
small that hardly a row is in doubt. Beyond, memory and time count for more, and a feature is one such number.
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from laplacenet.graph.search.exact import BLOCK_BYTES, exact_rows, full_precision, padded_columns, top_k
from laplacenet.graph.search.sharing import Found, of_all, own_rows
from laplacenet.runtime.group import ALONE, Group

EXTRA = 16  # candidates beyond k: rounding moves a score past fewer others, unless features have collapsed
EXTRA_SPLIT = 8
LEAST_POINTS = 200_000  # below, features are split in two
LEAST_SPLIT_POINTS = 20_000  # below, a search in full precision takes a few milliseconds
MOST_FEATURES = 1 << 14  # so that the bound on sums stays far below 1
MOST_DOUBTFUL = 1 / 4  # of the rows of a block; with more, the candidates do not pay
HALF_ROUNDING, LEAST_HALF = 2.0**-11, 2.0**-24


@dataclass(frozen=True)
class Rounded:
    """Half-precision numbers whose products are scores of `scale` times the features, summed in single precision.

    `slack` is by how much a true score may exceed such a sum, before that is rounded to `scores`.
    """

    queries: Float[Tensor, "n e"]
    points: Float[Tensor, "n e"]
    scale: float
    slack: Float[Tensor, " n"]
    scores: torch.dtype
    extra: int

    @property
    def rounding(self) -> tuple[float, float]:
        """Of the scores: relative, and at least."""
        return (HALF_ROUNDING, LEAST_HALF) if self.scores is torch.float16 else (torch.finfo(self.scores).eps, 0.0)


def can_halve(X: Float[Tensor, "n d"], k: int) -> bool:
    """Whether half-precision products are faster here, and there are enough points for them to pay."""
    n, d = X.shape
    is_single_on_gpu = X.device.type == "cuda" and X.dtype is torch.float32
    return is_single_on_gpu and n >= LEAST_SPLIT_POINTS and 0 < k <= n // 64 and d <= MOST_FEATURES


def half_neighbors(X: Float[Tensor, "n d"], k: int, group: Group = ALONE) -> Found:
    """Similarities and indices of the k nearest neighbors of every row."""
    return _neighbors(X, k, group, rounded_once if len(X) >= LEAST_POINTS else split_in_two)


def _neighbors(X: Float[Tensor, "n d"], k: int, group: Group, rounded_by: Callable[[Tensor], Rounded]) -> Found:
    rounded = rounded_by(X)
    n_padded = padded_columns(len(X), k + rounded.extra)[0]
    n_at_once = max(1, BLOCK_BYTES[X.device.type] // (rounded.scores.itemsize * n_padded))
    return of_all(*half_rows(X, rounded, own_rows(len(X), n_at_once, group), n_at_once, k), group)


def rounded_once(X: Float[Tensor, "n d"]) -> Rounded:
    """A feature is one half-precision number, a score too."""
    scale = power_of_two_below(X)
    halves = (X * scale).half()
    return Rounded(halves, halves, scale, score_slack(X, scale), torch.float16, EXTRA)


def split_in_two(X: Float[Tensor, "n d"]) -> Rounded:
    """A feature x is h + l: of a product, hh + hl + lh are summed, side by side; ll is lost."""
    scale = power_of_two_below(X)
    scaled = X * scale
    high = scaled.half()
    low = (scaled - high).half()
    represented = high.float() + low
    error, length, lost = (torch.linalg.vector_norm(x.float(), dim=1) for x in (scaled - represented, represented, low))
    slack = slack_of(error, length, n_sums=3 * X.shape[1]) + lost * lost.amax()
    queries, points = torch.cat([high, high, low], 1), torch.cat([high, low, high], 1)
    return Rounded(queries, points, scale, slack, torch.float32, EXTRA_SPLIT)


def half_rows(X: Float[Tensor, "n d"], rounded: Rounded, own: slice, n_at_once: int, k: int) -> Found:
    """Those of some rows."""
    n, n_own = len(X), own.stop - own.start
    similarities, indices = X.new_empty(n_own, k), torch.empty(n_own, k, dtype=torch.int64, device=X.device)
    n_padded, width = padded_columns(n, k + rounded.extra)
    scores = torch.full((min(n_own, n_at_once), n_padded), -math.inf, dtype=rounded.scores, device=X.device)
    doubtful = [torch.empty(0, dtype=torch.int64, device=X.device)]
    for start in range(own.start, own.stop, n_at_once):
        rows = slice(start, min(start + n_at_once, own.stop))
        here = slice(start - own.start, rows.stop - own.start)
        block = scores[: rows.stop - start]
        half_products(rounded.queries[rows], rounded.points, block[:, :n])
        block.diagonal(start).fill_(-math.inf)
        nearest, candidates = top_k(block, k + rounded.extra, width)
        similarities[here], indices[here] = best_candidates(X, X[rows], candidates, k)
        highest = highest_beyond(nearest, rounded.slack[rows], rounded.rounding)
        is_in_doubt = similarities[here, -1] * rounded.scale**2 < highest
        in_doubt = start + is_in_doubt.nonzero().flatten()
        doubtful.append(in_doubt)
        if len(in_doubt) > MOST_DOUBTFUL * len(block):
            doubtful.append(torch.arange(rows.stop, own.stop, device=X.device))
            break
    again = torch.cat(doubtful)
    similarities[again - own.start], indices[again - own.start] = exact_rows(X, again, k)
    return similarities, indices


def power_of_two_below(X: Float[Tensor, "n d"]) -> float:
    """A factor that rounds nothing and makes every row at most 1 long, so that no product overflows."""
    longest = float(torch.linalg.vector_norm(X, dim=1).amax())
    return 2.0 ** -math.ceil(math.log2(longest)) if longest > 0 and math.isfinite(longest) else 1.0


def score_slack(X: Float[Tensor, "n d"], scale: float) -> Float[Tensor, " n"]:
    """By how much a true score may exceed the product of the rounded features, before that is rounded itself."""
    error, rounded = torch.empty_like(X[:, 0]), torch.empty_like(X[:, 0])
    for start in range(0, len(X), 1 << 20):
        some = X[start : start + (1 << 20)] * scale
        halves = some.half().float()
        error[start : start + len(some)] = torch.linalg.vector_norm(some - halves, dim=1)
        rounded[start : start + len(some)] = torch.linalg.vector_norm(halves, dim=1)
    return slack_of(error, rounded, n_sums=X.shape[1])


def slack_of(error: Float[Tensor, " n"], rounded: Float[Tensor, " n"], *, n_sums: int) -> Float[Tensor, " n"]:
    """From the lengths of the rounding errors and of the rounded features, by Cauchy and Schwarz."""
    # Sums of products in single precision; tensor cores may cut off where others round.
    summing = 4 * n_sums * torch.finfo(torch.float32).eps
    return error * (rounded.amax() + error.amax()) + rounded * error.amax() + summing


def highest_beyond(
    nearest: Float[Tensor, "m c"], slack: Float[Tensor, " m"], rounding: tuple[float, float]
) -> Float[Tensor, " m"]:
    """The highest true score that a point outside the candidates of each row could have."""
    least, (relative, absolute) = nearest[:, -1].float(), rounding
    return least + least.abs() * relative + absolute + slack


def half_products(queries: Float[Tensor, "m d"], points: Float[Tensor, "n d"], out: Float[Tensor, "m n"]) -> None:
    """All inner products, summed in single precision; where a CPU does that to half-precision numbers, slowly."""
    if queries.device.type == "cpu" and queries.dtype is torch.float16:
        out.copy_(queries.float() @ points.float().T)
        return
    with single_precision_sums():
        if out.dtype is queries.dtype:
            torch.mm(queries, points.T, out=out)
        else:
            torch.mm(queries, points.T, out_dtype=out.dtype, out=out)


def best_candidates(
    X: Float[Tensor, "n d"], queries: Float[Tensor, "m d"], candidates: Int[Tensor, "m c"], k: int
) -> tuple[Float[Tensor, "m k"], Int[Tensor, "m k"]]:
    """The k best candidates of each query by their scores in full precision, best first."""
    with full_precision(X.device):
        points = X.index_select(0, candidates.flatten()).view(*candidates.shape, -1)
        scores = torch.bmm(points, queries[:, :, None])[:, :, 0]
    similarities, best = scores.topk(k, dim=1)
    return similarities, candidates.gather(1, best)


@contextlib.contextmanager
def single_precision_sums() -> Iterator[None]:
    """Whatever the caller allows for its network, products of half-precision numbers are summed in fp32."""
    settings = torch.backends.cuda.matmul
    before = settings.allow_fp16_reduced_precision_reduction, settings.allow_fp16_accumulation
    settings.allow_fp16_reduced_precision_reduction = settings.allow_fp16_accumulation = False
    try:
        yield
    finally:
        settings.allow_fp16_reduced_precision_reduction, settings.allow_fp16_accumulation = before
