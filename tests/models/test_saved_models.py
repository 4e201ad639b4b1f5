"""A network for use: what is saved is what is loaded."""

from pathlib import Path

import pytest
import torch

from laplacenet.data import ChannelStatistics
from laplacenet.models import ModelConfig, ModelDescription, load_model, save_model
from laplacenet.models.saved import DESCRIPTION
from laplacenet.runtime import InputError, read_sealed, write_sealed

PICTURES = ModelDescription(
    ModelConfig("small-cnn", weight_norm=True),
    input_shape=(1, 8, 8),
    class_names=("top", "bottom"),
    statistics=ChannelStatistics((0.4,), (0.2,)),
    temperature=2.5,
)
VECTORS = ModelDescription(ModelConfig("mlp"), input_shape=(4,), class_names=("a", "b", "c"), statistics=None)


@pytest.mark.parametrize("description", [PICTURES, VECTORS], ids=["pictures", "vectors"])
def test_a_loaded_model_is_the_saved_one_in_every_field_and_weight(
    description: ModelDescription, tmp_path: Path
) -> None:
    network = description.build(seed=3)
    save_model(tmp_path, network, description)
    loaded, found = load_model(tmp_path)
    assert found == description
    weights = loaded.state_dict()
    assert all(torch.equal(weights[name], tensor) for name, tensor in network.state_dict().items())


@pytest.mark.parametrize("temperature", [0, -1.0, float("nan"), float("inf"), pytest.param(10**400, id="huge"), "warm"])
def test_a_temperature_that_divides_nothing_is_refused(temperature: object, tmp_path: Path) -> None:
    save_model(tmp_path, VECTORS.build(), VECTORS)
    content = read_sealed(tmp_path / DESCRIPTION)
    write_sealed(tmp_path / DESCRIPTION, content | {"temperature": temperature})
    with pytest.raises(InputError, match="not the description of a model"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"input_shape": [1, 1, 1]}, "cannot read inputs of 1×1×1"),
        ({"input_shape": [1, 100_000, 100_000]}, "invalid input shape"),
        ({"input_shape": [2, 8, 8]}, "invalid input shape"),
        ({"temperature": 1e-320}, "temperature 1e-320"),
        ({"temperature": 1e300}, "temperature 1e.300"),
        ({"class_names": ["top", "top"]}, "two of its classes have the same name"),
        (
            {"statistics": {"mean": [0.4], "std": [0.0]}},
            "model.json: not the description of a model .channel dev",
        ),
    ],
)
def test_a_description_with_its_checksum_but_absurd_values_is_refused(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    description = PICTURES
    save_model(tmp_path, description.build(), description)
    content = read_sealed(tmp_path / "model.json")
    write_sealed(tmp_path / "model.json", content | change)
    with pytest.raises(InputError, match=said):
        load_model(tmp_path)


def test_a_run_without_a_model_says_that_it_is_not_finished(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no model yet \(it has no model.json\); finish the run first"):
        load_model(tmp_path)
