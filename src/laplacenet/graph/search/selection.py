"""The k largest scores of each row, where most of a row need not be looked at twice."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor


def best_at_least(
    scores: Float[Tensor, "rows columns"], least: Float[Tensor, " rows"], k: int
) -> tuple[Float[Tensor, "rows k"], Int[Tensor, "rows k"]]:
    """The k largest scores of each row and their columns, best first; at least k of each row reach its `least`."""
    n_rows, n_columns = scores.shape
    places = (scores >= least[:, None]).flatten().nonzero().flatten()
    values, best = best_of_each(places // n_columns, scores.flatten().index_select(0, places), k, n_rows=n_rows)
    return values, places[best] % n_columns


def best_of_each(
    rows: Int[Tensor, " entries"], scores: Float[Tensor, " entries"], k: int, *, n_rows: int
) -> tuple[Float[Tensor, "rows k"], Int[Tensor, "rows k"]]:
    """The k largest scores of each row and the entries that they are, best first; entries come row after row."""
    counts = rows.bincount(minlength=n_rows)
    first = counts.cumsum(0) - counts
    width = int(counts.max())
    table = scores.new_full((n_rows, width), -math.inf)
    table_starts = torch.arange(0, n_rows * width, width, device=rows.device)
    places = torch.arange(len(rows), device=rows.device) + (table_starts - first).index_select(0, rows)
    table.view(-1).scatter_(0, places, scores)
    values, best = table.topk(k, dim=1)
    return values, first[:, None] + best
