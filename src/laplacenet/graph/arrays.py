"""Arrays or tensors in, tensors out."""

from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from laplacenet.runtime import InputError
from laplacenet.runtime.errors import first_line

Array: TypeAlias = Tensor | np.ndarray


def as_tensor(values: Array, *, what: str) -> Tensor:
    """The values as a tensor without history; what is no array of numbers is refused, and so is a mask, which would be
    dropped."""
    if np.ma.is_masked(values):
        raise InputError(f"{what} are a masked array; fill in what is masked")
    try:
        return torch.as_tensor(values).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{what} are not an array of numbers ({first_line(error)})") from error


def as_floating(values: Array, *, what: str = "values") -> Tensor:
    """The values as a tensor without history, in float64 if they are, else in float32."""
    tensor = as_tensor(values, what=what)
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()
