"""Presets by method: every pair gives a whole experiment, and a pair that does not exist is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from laplacenet.cli.app import app
from laplacenet.cli.choices import chosen_experiment, with_chosen_method
from laplacenet.experiments.compare import Comparison
from laplacenet.experiments.experiment import Experiment, with_method
from laplacenet.experiments.paper.recipes import find_recipe
from laplacenet.experiments.paper.reproduce import Places, plan_run
from laplacenet.experiments.presets import cifar10, cifar100, digits, mini_imagenet, with_method_preset
from laplacenet.runtime import InputError
from laplacenet.training import METHODS, Problem, VectorViews, config_class
from laplacenet.training.methods.fast_swa import FastSWA
from laplacenet.training.methods.presets import EQUAL, METHOD_PRESETS, PRESETS, method_preset, on_cifar100

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


@pytest.mark.parametrize("base", [cifar10(), digits()], ids=lambda base: base.name)
def test_on_equal_terms_methods_share_optimizer_rate_and_schedule(base: Experiment) -> None:
    shared = {
        (train.optimizer, train.lr, train.weight_decay, train.schedule, train.steps, train.batch_size)
        for method, preset in PAIRS
        if preset == "equal"
        for train in [with_method_preset(with_method(base, method), preset).train]
    }
    assert len(shared) == 1


def test_laplacenet_keeps_its_own_settings_on_equal_terms() -> None:
    assert with_method_preset(digits(), "equal").method == digits().method
    assert with_method_preset(mini_imagenet(), "equal") == mini_imagenet()


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
        ("two-moons --preset equal", "is for pictures, and two-moons holds vectors"),
        ("digits --preset original", "the paper of laplacenet has settings for cifar10, cifar100, mini-imagenet only"),
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
    cell = next(cell for cell in find_recipe("few-labels").others if cell.experiment.method.name == "flexmatch")
    run = plan_run(cell, 0, Places(), base_steps=250_000, preset=preset)
    assert run.key.overrides == (f"preset={preset}",)
    assert run.experiment.train.steps == cell.experiment.train.steps
    assert (run.experiment.train != cell.experiment.train) == (preset == EQUAL)  # the cell has the original ones


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


@pytest.mark.parametrize(
    ("method", "data", "settings"),
    [
        # takerum/vat_tf, README: CIFAR-10 with augmentation
        ("vat", "cifar10", {"train.steps": 500 * 400, "method.radius": 8.0, "augment.pad": 2}),
        # benathi/fastswa-semi-sup, experiments/cifar10_mt_cnn_short_n4k.py
        (
            "fast-swa",
            "cifar10",
            {"train.batch_size": 100, "train.labeled_batch_size": 50, "train.lr": 0.1, "train.weight_decay": 1e-4},
        ),
        # its cifar100_mt_cnn_short_n10k.py: twice the rate of 0.1
        (
            "fast-swa",
            "cifar100",
            {"train.batch_size": 128, "train.labeled_batch_size": 31, "train.lr": 0.2, "train.weight_decay": 2e-4},
        ),
        # ZHKKKe/DualStudent, scripts/ds_cifar10_1000l_cnn13.py and ds_cifar100_10000l_cnn13.py
        ("dual-student", "cifar10", {"train.lr": 0.1, "train.weight_decay": 1e-4, "method.consistency": 10.0}),
        (
            "dual-student",
            "cifar100",
            {"train.batch_size": 128, "train.labeled_batch_size": 31, "train.lr": 0.2, "train.weight_decay": 2e-4},
        ),
        # xinmei9322/SNTG, config.py: temporal ensembling on CIFAR-10, the Π-model on CIFAR-100
        ("sntg", "cifar10", {"method.base": "temporal-ensembling", "method.consistency": 30.0}),
        ("sntg", "cifar100", {"method.base": "pi-model", "method.consistency": 100.0}),
        # ahmetius/LP-DeepSSL, lp/db_semisuper.py
        ("lp", "cifar10", {"graph.k": 50, "graph.max_iterations": 20, "graph.tol": 1e-6}),
    ],
)
def test_original_settings_are_those_of_the_authors_scripts(
    method: str, data: str, settings: dict[str, object]
) -> None:
    found = method_preset(method, "original", data=data)
    assert {name: found[name] for name in settings} == settings


@pytest.mark.parametrize("preset", METHOD_PRESETS)
def test_lp_spends_a_24th_of_its_steps_on_labels_alone(preset: str) -> None:
    """180 epochs of 40 steps over 4 000 labeled images, then 180 of 920."""
    method = with_method_preset(with_method(cifar10(), "lp"), preset).method
    assert method.first_stage == 180 * 40 / (180 * 40 + 180 * 920)  # type: ignore[attr-defined]


def test_defaults_are_the_authors_where_these_are_known() -> None:
    """Scripts of fastswa-semi-sup (240 epochs) and DualStudent; TSSDL's third term is the Π-model's."""
    swa, dual = config_class("fast-swa")(), config_class("dual-student")()
    found = (swa.ramp_up, swa.ema_decay, swa.n_heads, swa.labeled_loss_over)  # type: ignore[attr-defined]
    assert found == (5 / 240, 0.97, 2, "batch")
    assert (dual.n_heads, dual.head_distance, dual.labeled_loss_over) == (2, 0.01, "batch")  # type: ignore[attr-defined]
    assert config_class("tssdl")().consistency == config_class("pi-model")().consistency  # type: ignore[attr-defined]
    for preset in METHOD_PRESETS:
        similar = with_method_preset(with_method(cifar10(), "simmatch"), preset).method
        assert (similar.teacher, similar.bank_momentum) == ("student", 0.7)  # type: ignore[attr-defined]


def test_fast_swas_cycles_begin_after_180_of_1200_epochs_of_920_steps() -> None:
    experiment = with_method_preset(with_method(cifar10(), "fast-swa"), "original")
    labels = torch.cat([torch.zeros(4_000), torch.full((46_000,), -1.0)]).long()
    method = FastSWA(Problem(labels, 1, VectorViews()), experiment.train, experiment.method)
    rates = method.cyclic_rates(0, experiment.train.steps)
    cosine = 0.1 * 0.5 * (1 + np.cos(np.pi * np.arange(1200 * 920) / 920 / 210))
    assert np.allclose(rates[: 180 * 920], cosine[: 180 * 920], atol=1e-6)
    assert np.allclose(rates[180 * 920 : 210 * 920], cosine[150 * 920 : 180 * 920], atol=1e-6)
    assert method.first_averaged_epoch == 150
