"""While the tests run on a CPU, a tensor of another shape or kind than a signature of the package says is an error."""

import pytest
import torch
from jaxtyping import TypeCheckError

from laplacenet.augment.sampling import ViewParameters
from laplacenet.graph import nearest_neighbors

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="Triton's kernels are not checked")


def test_a_function_is_not_called_with_an_argument_of_another_shape() -> None:
    with pytest.raises(TypeCheckError, match="nearest_neighbors"):
        nearest_neighbors(torch.ones(4), k=2)


def test_fields_of_different_length_make_no_dataclass() -> None:
    with pytest.raises(TypeCheckError, match="ViewParameters"):
        ViewParameters(torch.zeros(3, 21, dtype=torch.int32), torch.zeros(4, 2))
