"""Every method's step beside its own bare passes, and FixMatch beside a plain loop, at toy size."""

import dataclasses

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from laplacenet.experiments.benchmark import (
    BenchSettings,
    LoopRow,
    MethodRow,
    Missing,
    measurements,
    plain_fixmatch,
    take_measurement,
)
from laplacenet.experiments.benchmark.method_steps import BarePasses, MethodCase, MethodSteps, own_case
from laplacenet.experiments.benchmark.methods import describe
from laplacenet.experiments.benchmark.settings import SMALL_METHODS
from laplacenet.reports.bench_table import loop_line, method_line
from laplacenet.training import METHODS, Execution

CPU = Execution(torch.device("cpu"))
TINY = BenchSettings(**{**SMALL_METHODS, "method_images": 60, "method_steps": 1, "method_rounds": 1, "loop_workers": 0})


def steps_of(method: str) -> MethodSteps:
    return MethodSteps(MethodCase(method, "small-cnn", 12, 4), 60, CPU)


@pytest.mark.parametrize(
    ("method", "passes"),
    [
        ("laplacenet", "36 trained"),
        ("fixmatch", "20 trained"),
        ("mean-teacher", "12 trained, 12 forward only"),
        ("pi-model", "12 + 12 trained"),
        ("vat", "4 + 8 trained, 8 to the input, 8 + 8 forward only"),
        ("dual-student", "12 + 12 trained, 12 + 12 forward only"),
        ("sntg", "12 + 12 trained"),
        ("simmatch", "20 trained"),
    ],
)
def test_the_passes_of_a_step_are_recorded_as_it_makes_them(method: str, passes: str) -> None:
    assert describe(steps_of(method).passes) == passes


def test_passes_are_recorded_where_features_are_used_before_they_are_scaled() -> None:
    assert describe(MethodSteps(MethodCase("sntg", "13-cnn", 12, 4), 60, CPU).passes) == "12 + 12 trained"


def test_the_bare_passes_train_every_network_that_the_method_trains() -> None:
    steps = steps_of("dual-student")
    assert {one.network for one in steps.passes} == {0, 1}
    bare = BarePasses(MethodCase("dual-student", "small-cnn", 12, 4), steps.passes, CPU)
    before = [network.head.weight.detach().clone() for network in bare.networks]
    assert len(list(bare.round(2))) == 2
    changed = [not torch.equal(old, network.head.weight) for old, network in zip(before, bare.networks, strict=True)]
    assert changed == [True, True]


def test_recording_leaves_the_network_as_it_was() -> None:
    steps = steps_of("fixmatch")
    assert all("embed" not in vars(module) for module in steps.stepper.learner.modules())


def test_every_method_is_measured_with_its_own_papers_batch() -> None:
    assert own_case("fixmatch") == MethodCase("fixmatch", "wrn-28-2", 512, 64)
    assert own_case("vat") == MethodCase("vat", "13-cnn", 160, 32)
    assert own_case("laplacenet") == MethodCase("laplacenet", "13-cnn", 100, 50)
    asked = dataclasses.replace(BenchSettings(), sections=("methods",))
    assert len(measurements(asked, Execution(torch.device("cuda")))) == len(METHODS)


def test_a_methods_row_has_both_times() -> None:
    settings = dataclasses.replace(TINY, sections=("methods",), method_cases=(MethodCase("uda", "small-cnn", 12, 4),))
    (row,) = [take_measurement(measurement, CPU) for measurement in measurements(settings, CPU)]
    assert isinstance(row, MethodRow)
    assert min(row.step_ms, row.bare_ms, row.whole_ms, row.peak_bytes) > 0
    assert row.n_steps == 1
    line = method_line(row)
    assert line.what == "step of uda, small-cnn, 4 of 12 labeled"
    assert line.ratio == f"{row.step_ms / row.bare_ms:.2f} of bare"


def plain_transforms() -> tuple[plain_fixmatch.Transform, plain_fixmatch.Transform]:
    def tensor(picture: Image.Image) -> Tensor:
        return torch.from_numpy(np.array(picture)).permute(2, 0, 1).float() / 255

    return tensor, tensor


def test_the_plain_loop_is_measured_beside_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_fixmatch, "torchvision_transforms", plain_transforms)
    settings = dataclasses.replace(TINY, sections=("loop",), loop_steps=1)
    (row,) = [take_measurement(measurement, CPU) for measurement in measurements(settings, CPU)]
    assert isinstance(row, LoopRow)
    assert (row.labeled_batch_size, row.unlabeled_batch_size, row.n_workers) == (2, 6, 0)
    assert loop_line(row).ratio == f"{row.ours_per_s / row.plain_per_s:.1f} × as fast"


def test_without_torchvision_the_loop_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torchvision", None)
    settings = dataclasses.replace(TINY, sections=("loop",))
    (result,) = [take_measurement(measurement, CPU) for measurement in measurements(settings, CPU)]
    assert isinstance(result, Missing)
    assert "torchvision" in result.reason


def test_the_plain_network_has_as_many_weights_as_wrn_28_2() -> None:
    network = plain_fixmatch.WideResNet28x2(10)
    assert sum(parameter.numel() for parameter in network.parameters()) == 1_467_610


def test_the_plain_loss_counts_confident_guesses_only() -> None:
    class Fixed(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x

    given, sure, unsure, strong = ([2.0, 0.0], [9.0, 0.0], [0.1, 0.0], [0.0, 1.0])
    loss = plain_fixmatch.fixmatch_loss(Fixed(), torch.tensor([given, sure, unsure, strong, strong]), torch.tensor([0]))
    expected = -np.log(np.exp(2) / (np.exp(2) + 1)) - np.log(1 / (1 + np.e)) / 2
    assert float(loss) == pytest.approx(expected, rel=1e-5)
