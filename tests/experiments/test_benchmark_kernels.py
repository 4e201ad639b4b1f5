"""Without a GPU: the benchmark of a network's parts where the first layer is one operation, its kernels interpreted."""

import pytest
from references_kernels import interpreted, pretend_to_be_on_a_gpu
from references_training import CPU

from laplacenet.experiments.benchmark.bare_step import BareStep
from laplacenet.experiments.benchmark.parts import FIRST_LAYER, parts_of, recorded_calls
from laplacenet.experiments.benchmark.settings import StepCase

pytestmark = interpreted


def test_a_first_layer_of_kernels_is_a_part_with_the_operations_of_its_convolution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bare = BareStep(StepCase("13-cnn", 2, 1, 3, n_views=1), CPU, side=12)
    apart = recorded_calls(bare)
    pretend_to_be_on_a_gpu(monkeypatch)
    together = recorded_calls(bare)
    assert {call.name for call in apart} - {call.name for call in together} == {"body.0", "body.1"}
    (first,) = [part for call in together if call.name == "body" for part in parts_of(call, CPU.device, 1)]
    assert first.kind == FIRST_LAYER
    assert first.ms > 0
    assert first.flop == sum(part.flop for part in parts_of(apart[0], CPU.device, 1))
