"""Arrays or tensors in, tensors out."""

from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

Array: TypeAlias = Tensor | np.ndarray


def as_floating(values: Array) -> Tensor:
    """The values as a tensor without history, in float64 if they are, else in float32."""
    tensor = torch.as_tensor(values).detach()
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()
