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
        averaged = [name for name, tensor in teacher.items() if tensor.is_floating_point()]
        means, values = [teacher[name] for name in averaged], [student[name] for name in averaged]
        # a few kernels for all tensors together: one each would take longer than the step's own arithmetic
        differences = torch._foreach_sub(values, means)
        torch._foreach_mul_(differences, share)
        torch._foreach_add_(means, differences)
        for name in teacher.keys() - set(averaged):
            teacher[name].copy_(student[name])  # batch norm's count of batches
        self.n_updates += 1
