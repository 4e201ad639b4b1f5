"""Sparse matrices in torch's compressed rows."""

import warnings

import torch
from jaxtyping import Float, Int
from torch import Tensor


def compressed_rows(
    starts: Int[Tensor, " bounds"], columns: Int[Tensor, " nnz"], values: Float[Tensor, " nnz"], *, n_columns: int
) -> Float[Tensor, "rows columns"]:
    """The matrix whose row i has the entries from `starts[i]` to `starts[i + 1]`."""
    with warnings.catch_warnings():
        # Said once per process: that CSR is beta (products are checked against dense ones in the tests) and that
        # invariants go unchecked (they hold by construction).
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state", category=UserWarning)
        warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly", category=UserWarning)
        size = (len(starts) - 1, n_columns)
        return torch.sparse_csr_tensor(starts, columns, values, size=size, check_invariants=False)
