"""Presets by method: every pair gives a whole experiment, and a pair that does not exist is refused."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from laplacenet.cli.app import app
from laplacenet.cli.choices import chosen_experiment, with_chosen_method
from laplacenet.experiments.compare import Comparison
from laplacenet.experiments.experiment import with_method
from laplacenet.experiments.paper.recipes import find_recipe
from laplacenet.experiments.paper.reproduce import Places, plan_run
from laplacenet.experiments.presets import cifar10, cifar100, with_method_preset
from laplacenet.runtime import InputError
from laplacenet.training import METHODS
from laplacenet.training.methods.presets import METHOD_PRESETS, PRESETS, method_preset, on_cifar100

PAIRS = [(method, preset) for method, presets in PRESETS.items() for preset in presets if method in METHODS]


@pytest.mark.parametrize(("method", "preset"), PAIRS)
def test_a_preset_sets_what_it_says_and_nothing_else_of_the_data(method: str, preset: str) -> None:
    base = with_method(cifar10(), method)
    laid = with_method_preset(base, preset)
    for path, value in method_preset(method, preset).items():
        section, _, field = path.partition(".")
        assert getattr(getattr(laid, section), field) == value
    assert laid.data == base.data
    assert laid.method.name == method


def test_on_equal_terms_methods_share_optimizer_rate_and_schedule() -> None:
    shared = {
        (train.optimizer, train.lr, train.weight_decay, train.schedule, train.steps, train.batch_size)
        for method, preset in PAIRS
        if preset == "equal"
        for train in [with_method_preset(with_method(cifar10(), method), preset).train]
    }
    assert len(shared) == 1


def test_the_network_that_was_asked_for_stays() -> None:
    for model, expected in ((None, "wrn-28-2"), ("13-cnn", "13-cnn")):
        base = chosen_experiment("cifar10", "original", labels=None, split_key=None, model=model, seed=None)
        chosen = with_chosen_method(base, "fixmatch", preset="original", model=model)
        assert chosen.model.name == expected
        assert chosen.train.steps == 2**20


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("digits --method supervised --preset original", "has no settings of that name; choose --preset equal"),
        ("two-moons --method fixmatch --preset equal", "is for pictures, and two-moons holds vectors"),
        ("digits --method fixmatch --preset orignal", "unknown preset 'orignal'; choose one of"),
    ],
)
def test_pairs_that_make_no_sense_are_refused(words: str, said: str, tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["train", *words.split(), "--out", str(tmp_path / "run")])
    assert isinstance(answer.exception, InputError)
    assert said in str(answer.exception)


def test_a_comparison_on_equal_terms_keeps_its_network_and_steps() -> None:
    comparison = Comparison(cifar10(), ("fixmatch", "mixmatch"), preset="original")
    found = [comparison.experiment(method, 0) for method in comparison.methods]
    assert {experiment.model.name for experiment in found} == {"13-cnn"}
    assert {experiment.train.steps for experiment in found} == {250_000}
    assert [experiment.train.optimizer for experiment in found] == ["sgd", "adamw"]


@pytest.mark.parametrize("preset", METHOD_PRESETS)
def test_reproduce_takes_a_methods_preset_and_keeps_the_schedule(preset: str) -> None:
    cell = next(cell for cell in find_recipe("table-3").cells if cell.experiment.method.name == "laplacenet")
    run = plan_run(cell, 0, Places(), base_steps=1000, preset=preset)
    assert run.key.overrides == (f"preset={preset}",)
    assert run.experiment.train.steps == 1000


def test_weights_and_thresholds_follow_the_number_of_classes_under_both_presets() -> None:
    for preset in METHOD_PRESETS:
        assert method_preset("mixmatch", preset, data="cifar100")["method.unlabeled_weight"] == 150
        assert method_preset("dual-student", preset, data="cifar100")["method.threshold"] == 0.4
    assert "train.lr" not in on_cifar100("dual-student", "equal")
    assert on_cifar100("supervised", "original") == {}
    laid = with_method_preset(with_method(cifar100(), "mixmatch"), "equal")
    assert (laid.method.unlabeled_weight, laid.train.optimizer) == (150, "sgd")  # type: ignore[attr-defined]


def test_settings_are_those_of_the_authors_scripts() -> None:
    """CuriousAI/mean-teacher adds noise of 0.15 on CIFAR; google-research/uda trains for 500 000 steps."""
    assert method_preset("mean-teacher", "original")["method.noise"] == 0.15
    assert method_preset("uda", "original")["train.steps"] == 500_000
    assert method_preset("vat", "original")["train.schedule"] == "late-linear"
