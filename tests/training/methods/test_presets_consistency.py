"""Every preset of the consistency methods names settings that exist and makes an experiment."""

from dataclasses import replace

import pytest

from laplacenet.experiments import Experiment
from laplacenet.training import METHODS, config_class
from laplacenet.training.methods.presets_consistency import PRESETS


@pytest.mark.parametrize(("name", "preset"), [(name, preset) for name in PRESETS for preset in PRESETS[name]])
def test_a_preset_makes_an_experiment(name: str, preset: str) -> None:
    experiment = replace(Experiment(), method=config_class(name)())
    assert name in METHODS
    for setting, value in PRESETS[name][preset].items():
        section, field = setting.split(".")
        changed = replace(getattr(experiment, section), **{field: value})
        experiment = replace(experiment, **{section: changed})
        assert type(value) is type(getattr(config_or_default(experiment, section), field)) or field == "pad"


def config_or_default(experiment: Experiment, section: str) -> object:
    """What the section is by default: a value must be of the same kind."""
    return config_class(experiment.method.name)() if section == "method" else getattr(Experiment(), section)
