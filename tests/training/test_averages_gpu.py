"""On a GPU: the average of weights as a kernel against torch's own operations on a CPU."""

import copy

import pytest
import torch

from laplacenet.models import build_model
from laplacenet.training.averages import StudentAndTeacher

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("model", ["13-cnn", "wrn-28-2", "mlp"])
@pytest.mark.parametrize("statistics", ["average", "copy", "own"])
def test_weights_are_averaged_as_on_a_cpu(model: str, statistics: str) -> None:
    here = StudentAndTeacher(build_model(model, n_classes=10, in_channels=3))
    there = copy.deepcopy(here).to(memory_format=torch.channels_last).cuda()
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        for ours, theirs in zip(here.student.state_dict().values(), there.student.state_dict().values(), strict=True):
            values = 10 * torch.rand(ours.shape, generator=generator)
            ours.copy_(values.to(ours.dtype))
            theirs.copy_(values.to(ours.dtype))
        here.average(0.6, statistics=statistics)
        there.average(0.6, statistics=statistics)
    for name, ours in here.teacher.state_dict().items():
        torch.testing.assert_close(there.teacher.state_dict()[name].cpu(), ours, msg=name)


def test_an_average_follows_tensors_to_another_place() -> None:
    learner = StudentAndTeacher(build_model("mlp", n_classes=2, in_channels=3)).cuda()
    learner.average(0.5)
    learner.cpu().cuda()
    torch.nn.init.ones_(learner.student.head.bias)
    torch.nn.init.zeros_(learner.teacher.head.bias)
    learner.average(0.5)
    assert learner.teacher.head.bias.tolist() == [0.5, 0.5]
