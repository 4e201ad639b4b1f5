"""Settings for long runs on CIFAR, fitted to shorter runs and smaller images."""

import math
from dataclasses import replace

import pytest

from laplacenet.experiments.experiment import with_method
from laplacenet.experiments.fitting import fit_method
from laplacenet.experiments.presets import digits
from laplacenet.experiments.task import Task, prepare


@pytest.fixture(scope="module")
def task() -> Task:
    return prepare(digits())


def fitted(task: Task, method: str, *settings: str, steps: int = 1_200) -> dict[str, object]:
    experiment = with_method(task.experiment, method)
    experiment = replace(experiment, train=replace(experiment.train, steps=steps))
    return vars(fit_method(replace(task, experiment=experiment), settings).experiment.method)


def test_an_average_looks_back_over_a_fiftieth_of_the_run(task: Task) -> None:
    assert fitted(task, "mean-teacher")["ema_decay"] == pytest.approx(1 - 1 / 24)
    assert fitted(task, "mean-teacher", steps=150_000)["ema_decay"] == 0.999
    assert fitted(task, "mt-lp")["ema_decay"] == pytest.approx(1 - 1 / 24)
    assert fitted(task, "freematch")["momentum"] == pytest.approx(1 - 1 / 24)
    assert fitted(task, "fixmatch", steps=3)["ema_decay"] == 0


def test_vat_moves_each_pixel_as_far_as_on_cifar(task: Task) -> None:
    n = task.inputs[0].numel()
    assert fitted(task, "vat")["radius"] == pytest.approx(8 * math.sqrt(n / 3072))


def test_mixmatch_begins_as_slowly_as_its_authors(task: Task) -> None:
    assert fitted(task, "mixmatch", steps=2**20)["ramp_up"] == 1 / 64
    assert fitted(task, "mixmatch", steps=75_000)["ramp_up"] == pytest.approx(16_384 / 75_000)
    assert fitted(task, "mixmatch", steps=1_200)["ramp_up"] == pytest.approx(80 / 300)


def test_what_was_set_stays(task: Task) -> None:
    assert fitted(task, "mean-teacher", "method.ema_decay=0.999")["ema_decay"] == 0.999
    assert fitted(task, "vat", "method.radius=8.0")["radius"] == 8.0
    assert fitted(task, "mixmatch", f"method.ramp_up={1 / 64}")["ramp_up"] == 1 / 64


def test_laplacenet_and_its_baselines_are_left_as_they_are(task: Task) -> None:
    for method in ("laplacenet", "supervised", "network-labels"):
        assert fitted(task, method) == vars(with_method(task.experiment, method).method)
