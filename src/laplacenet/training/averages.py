"""Averages of a network's weights: a student with its teacher, and batch statistics for averaged weights."""

import copy
import math
from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from laplacenet.models import Head, Inference, Network
from laplacenet.models.inference import chunk_size
from laplacenet.models.norm import FixedBatchNorm2d
from laplacenet.runtime import mixed_precision
from laplacenet.runtime.kernels import fits_eager_kernels
from laplacenet.training.guards import evenly_spread

Statistics = Literal["average", "copy", "own"]
"""A teacher's batch statistics: the average of its student's, the student's latest, or those of its own passes."""
STATISTICS_SAMPLE = 4_000


class StudentAndTeacher(nn.Module):
    """The student is trained; the teacher is its exponential moving average.

    The average is unbiased by its beginning: with `n` updates behind it the decay is at most n/(n + 1), so that the
    first weights do not linger.
    """

    n_updates: Tensor

    def __init__(self, student: Network) -> None:
        super().__init__()
        self.student = student
        self.teacher: Network = copy.deepcopy(student).requires_grad_(False)
        self.register_buffer("n_updates", torch.zeros(()))
        self._chunks: dict[tuple[int, ...], Tensor] = {}

    @torch.no_grad()
    def average(self, decay: float, *, statistics: Statistics = "average") -> None:
        """teacher ← decay·teacher + (1 − decay)·student, on the device and without waiting for it."""
        share = 1 - (self.n_updates / (self.n_updates + 1)).clamp(max=decay)
        teacher, student = self.teacher.state_dict(keep_vars=True), self.student.state_dict(keep_vars=True)
        averaged = {name for name, _ in self.teacher.named_parameters()}
        if statistics == "average":
            averaged = {name for name, tensor in teacher.items() if tensor.is_floating_point()}
        names = [name for name in teacher if name in averaged]
        self._move([teacher[name] for name in names], [student[name] for name in names], share)
        if statistics != "own":  # batch norm's count of batches is never averaged
            copied = [name for name in teacher if name not in averaged]
            if copied:
                torch._foreach_copy_([teacher[name] for name in copied], [student[name] for name in copied])
        self.n_updates += 1

    def _move(self, means: list[Tensor], values: list[Tensor], share: Float[Tensor, ""]) -> None:
        """means ← means + share·(values − means), in a few launches: one for each tensor would take longer."""
        if can_be_moved_at_once(means, values):
            from laplacenet.training.averages_kernel import list_chunks, move_chunks  # noqa: PLC0415 - needs Triton

            addresses = tuple(tensor.data_ptr() for tensor in (*means, *values))
            if addresses not in self._chunks:  # in the warm-up, before a step is captured; captured steps read it later
                self._chunks[addresses] = list_chunks(means, values)
            move_chunks(self._chunks[addresses], share)
            return
        differences = torch._foreach_sub(values, means)
        torch._foreach_mul_(differences, share)
        torch._foreach_add_(means, differences)

    @torch.no_grad()
    def restart(self) -> None:
        """The teacher is a fresh copy of the student."""
        for mean, value in zip(self.teacher.state_dict().values(), self.student.state_dict().values(), strict=True):
            mean.copy_(value)
        self.n_updates.zero_()


def can_be_moved_at_once(means: Sequence[Tensor], values: Sequence[Tensor]) -> bool:
    """Whether they lie on a GPU in single precision, and each mean in the order of its value and without gaps."""

    def fits(mean: Tensor, value: Tensor) -> bool:
        is_on_gpu = fits_eager_kernels(mean) and fits_eager_kernels(value)
        is_single = mean.dtype == value.dtype == torch.float32
        is_dense = mean.is_contiguous() or (mean.ndim == 4 and mean.is_contiguous(memory_format=torch.channels_last))
        return is_on_gpu and is_single and is_dense and mean.stride() == value.stride()

    return all(map(fits, means, values))


@torch.no_grad()
def move_toward(average: nn.Module, network: nn.Module, share: float | Tensor) -> None:
    """average ← (1 − share)·average + share·network: parameters and batch statistics alike.

    A share of 0 or 1 leaves or copies the numbers exactly.
    """
    pairs = list(zip(average.state_dict().values(), network.state_dict().values(), strict=True))
    means = [mean for mean, _ in pairs if mean.is_floating_point()]
    torch._foreach_mul_(means, 1 - share)
    torch._foreach_add_(means, torch._foreach_mul([value for _, value in pairs if value.is_floating_point()], share))
    for mean, value in pairs:
        if not mean.is_floating_point():
            mean.copy_(value)


@torch.no_grad()
def recompute_statistics(network: nn.Module, batches: Iterable[Tensor]) -> None:
    """Batch statistics for weights that no forward pass has seen: the plain mean over these batches."""
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d | nn.BatchNorm1d)]
    momenta, was_training = [norm.momentum for norm in norms], network.training
    network.train()
    try:
        for n, batch in enumerate(batches):
            for norm in norms:
                norm.momentum = 1 / (n + 1)
            network(batch)
    finally:
        network.train(was_training)
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum


def take_plain_statistics(inference: Inference, inputs: Tensor, *, at_least: int) -> None:
    """Replace the network's batch statistics by those of unaugmented inputs, as label passes and tests see them.

    They are taken from up to 4 000 inputs in passes as large as those of `embed`, but of `at_least` this many inputs:
    the variance between passes is not part of the statistics.
    """
    norms = (module for module in inference.network.modules() if isinstance(module, nn.BatchNorm2d | nn.BatchNorm1d))
    sample = evenly_spread(inputs, STATISTICS_SAMPLE)
    if len(sample) < 2 or all(isinstance(norm, FixedBatchNorm2d) for norm in norms):
        return
    size = max(at_least, chunk_size(inputs, inference.device, pixels=inference.network.pixels))
    n_passes = max(1, min(math.ceil(len(sample) / size), len(sample) // 2))
    with mixed_precision(inference.device):
        recompute_statistics(inference.network, map(inference.prepare_chunk, torch.tensor_split(sample, n_passes)))


class TwoHeads(StudentAndTeacher):
    """The student's second head is trained with it; the teacher has but one."""

    def __init__(self, student: Network, *, seed: int) -> None:
        super().__init__(student)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.second_head = Head(student.embedding_size, student.n_classes)
