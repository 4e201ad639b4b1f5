"""A network and the exponential moving average of it, as one learner."""

import copy

import torch
from torch import Tensor, nn

from laplacenet.models import Network


class StudentAndTeacher(nn.Module):
    """The student is trained; the teacher is its average: parameters and batch statistics alike.

    The average is unbiased by its beginning: with `n` updates behind it the decay is at most n/(n + 1), so that the
    first weights do not linger.
    """

    n_updates: Tensor

    def __init__(self, student: Network) -> None:
        super().__init__()
        self.student = student
        self.teacher: Network = copy.deepcopy(student).requires_grad_(False)
        self.register_buffer("n_updates", torch.zeros(()))

    @torch.no_grad()
    def average(self, decay: float) -> None:
        """teacher ← decay·teacher + (1 − decay)·student, on the device and without waiting for it."""
        share = 1 - (self.n_updates / (self.n_updates + 1)).clamp(max=decay)
        teacher, student = self.teacher.state_dict(keep_vars=True), self.student.state_dict(keep_vars=True)
        for mean, value in zip(teacher.values(), student.values(), strict=True):
            if mean.is_floating_point():
                mean.lerp_(value.to(mean.dtype), share.to(mean.dtype))
            else:
                mean.copy_(value)  # batch norm's count of batches
        self.n_updates += 1
