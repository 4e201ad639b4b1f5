"""Experiments as JSON and as settings: what goes out comes back, and what does not fit is refused by name."""

import dataclasses
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laplacenet.augment import AugmentConfig
from laplacenet.data import DATASET_NAMES
from laplacenet.experiments import DataConfig, Experiment, from_json, override, to_json
from laplacenet.experiments.experiment import with_method
from laplacenet.experiments.presets import preset_for, preset_named, supervised_only, with_preset
from laplacenet.graph import GraphConfig
from laplacenet.models import MODELS, ModelConfig
from laplacenet.runtime import InputError
from laplacenet.training import METHODS, LaplaceNetConfig, TrainConfig, config_class
from laplacenet.training.methods.laplacenet import MixUpConfig
from laplacenet.training.methods.supervised import SupervisedConfig

rates = st.floats(0, 1, allow_nan=False)
priors = st.none() | st.lists(st.floats(0.1, 1), min_size=1, max_size=4).map(tuple)
values = st.fixed_dictionaries(
    {
        "name": st.text("abc-0", min_size=1),
        "seed": st.integers(0, 2**40),
        "data": st.fixed_dictionaries({"n_labeled": st.none() | st.integers(1, 99)}),
        "model": st.fixed_dictionaries({"name": st.sampled_from(MODELS), "weight_norm": st.booleans()}),
        "augment": st.fixed_dictionaries(
            {"cutout": rates, "flip": st.booleans(), "pad": st.none() | st.integers(0, 4)}
        ),
        "graph": st.fixed_dictionaries({"k": st.integers(1, 99), "prior": priors}),
        "train": st.fixed_dictionaries({"lr": rates}),
        "method": st.fixed_dictionaries({"name": st.sampled_from(sorted(METHODS))}),
    }
)


def experiment_of(values: dict[str, Any]) -> Experiment:
    kinds = {"data": DataConfig, "model": ModelConfig, "augment": AugmentConfig}
    kinds |= {"graph": GraphConfig, "train": TrainConfig}
    kinds["method"] = config_class(values["method"]["name"])
    return Experiment(**{key: kinds[key](**value) if key in kinds else value for key, value in values.items()})


@given(values)
def test_an_experiment_comes_back_from_its_json(values: dict[str, Any]) -> None:
    experiment = experiment_of(values)
    content = json.loads(json.dumps(to_json(experiment)))
    assert from_json(content, source="experiment.json") == experiment


@given(values)
def test_every_setting_can_be_put_in_by_its_name(values: dict[str, Any]) -> None:
    experiment = experiment_of(values)
    settings = []
    for section, content in dataclasses.asdict(experiment).items():
        if not isinstance(content, dict):
            settings.append(f"{section}={content}")
            continue
        settings += [
            f"{section}.{name}={','.join(map(str, value)) if isinstance(value, tuple) else value}"
            for name, value in content.items()
        ]
    assert override(Experiment(), settings) == experiment


@pytest.mark.parametrize("turn", [1, -1])
def test_settings_that_only_fit_together_may_come_in_any_order(turn: int) -> None:
    settings = ["train.batch_size=12", "train.labeled_batch_size=4"][::turn]
    train = override(Experiment(), settings).train
    assert (train.batch_size, train.labeled_batch_size) == (12, 4)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("steps", "write section.field=value"),
        ("training.steps=5", "unknown section 'training'; choose one of data, model, augment, graph, train"),
        ("train.step=5", "unknown field 'step'; choose one of steps, batch_size"),
        ("train.steps=many", "'many' is not a whole number"),
        ("augment.flip=maybe", "'maybe' is not true or false"),
        ("graph.prior=a,b", "numbers with commas"),
        ("data.size=big", "'big' is not a whole number or none"),
        ("model.name=13cnn", "unknown model '13cnn'"),
        ("train.steps=0", "at least 1"),
        ("data=digits", "unknown field 'data'"),
    ],
)
def test_a_setting_that_does_not_fit_is_refused_with_what_would(setting: str, said: str) -> None:
    with pytest.raises(InputError) as refusal:
        override(Experiment(), [setting])
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([], "a JSON object is expected"),
        ({"nonsense": 1}, "unknown entry 'nonsense'"),
        ({"train": 5}, "train must be an object"),
        ({"train": {"steps": "5"}}, "steps is '5', not a whole number"),
        ({"train": {"steps": True}}, "steps is True, not a whole number"),
        ({"graph": {"prior": ["a"]}}, r"graph.prior\[0\] is 'a', not a number"),
        ({"seed": None}, "seed is None"),
    ],
)
def test_json_that_is_no_experiment_is_refused_by_name(content: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        from_json(content, source="somewhere/experiment.json")


PAPER = {  # Table II: α, µ, k, S, b, b_l, l_r, n_m, ω, n_a
    "cifar10": (1.0, 0.01, 50, 250_000, 300, 48, 0.03, 0.9, 5e-4, 3),
    "cifar100": (0.5, 0.01, 50, 250_000, 100, 50, 0.03, 0.9, 5e-4, 3),
    "mini-imagenet": (0.5, 0.01, 50, 250_000, 100, 50, 0.1, 0.9, 5e-4, 3),
}


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_data_sets_start_with_its_table_of_parameters(name: str) -> None:
    preset = preset_named(name)
    train, method = preset.train, preset.method
    assert (
        method.mixup_alpha,
        preset.graph.mu,
        preset.graph.k,
        train.steps,
        train.batch_size,
        train.labeled_batch_size,
        train.lr,
        train.momentum,
        train.weight_decay,
        method.n_views,
    ) == PAPER[name]


def test_a_mirrored_digit_is_no_digit() -> None:
    assert not preset_named("digits").augment.flip
    assert preset_named("cifar10").augment.flip


def test_a_data_sets_name_finds_its_preset_and_a_path_that_for_pictures() -> None:
    for name in DATASET_NAMES:
        assert preset_for(name) == preset_named(name)
    assert preset_for("fast").train == preset_named("pictures").train  # a preset's name is no data set's
    assert preset_for("some/folder").data.name == "some/folder"
    assert preset_for("some/folder").train == preset_named("pictures").train


def test_a_preset_laid_over_anothers_data_changes_all_but_data_and_seed() -> None:
    photos = dataclasses.replace(preset_for("some/folder"), seed=7)
    laid = with_preset(photos, "cifar100")
    assert (laid.data, laid.seed) == (photos.data, 7)
    preset = preset_named("cifar100")
    assert dataclasses.replace(laid, name=preset.name, seed=0, data=preset.data) == preset


@pytest.mark.parametrize(("data", "name"), [("digits", "two-moons"), ("two-moons", "cifar10"), ("photos", "two-moons")])
def test_a_preset_for_another_kind_of_data_is_refused(data: str, name: str) -> None:
    with pytest.raises(InputError, match=f"--preset {name} is for"):
        with_preset(preset_for(data), name)


def test_an_unknown_preset_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="choose one of digits, cifar10"):
        preset_named("cifar11")


def test_the_baseline_differs_in_nothing_but_who_labels() -> None:
    ours = preset_named("digits")
    alone = supervised_only(ours)
    assert alone.method == SupervisedConfig(n_views=ours.method.n_views, mixup_alpha=ours.method.mixup_alpha)
    assert dataclasses.replace(alone, name=ours.name, method=ours.method) == ours


@pytest.mark.parametrize(
    "name", [name for name in METHODS if name not in ("laplacenet", "supervised", "network-labels")]
)
def test_another_methods_settings_are_its_own_even_where_names_agree(name: str) -> None:
    other = with_method(replace(Experiment(), method=LaplaceNetConfig(ema_decay=0.5, n_views=7)), name).method
    if isinstance(other, MixUpConfig):
        assert other.n_views == 7
    elif hasattr(other, "ema_decay"):
        assert other.ema_decay == config_class(name)().ema_decay  # type: ignore[attr-defined]
