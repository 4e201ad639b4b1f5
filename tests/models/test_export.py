"""A network for other programs says what the run's own network says, for any number of pictures."""

import importlib.util
import json
import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from laplacenet.augment import normalized
from laplacenet.data import ChannelStatistics
from laplacenet.models import ModelConfig, ModelDescription, Network
from laplacenet.models import export as module
from laplacenet.models.export import METADATA, NEEDED_FOR_ONNX, export_model, quiet
from laplacenet.runtime import InputError, RunError

HAS_ONNX = all(importlib.util.find_spec(name) for name in NEEDED_FOR_ONNX)
NAMES = ("cat", 'a "dog" <b>', "naïve 🦊")


def untrained(name: str, *shape: int) -> tuple[Network, ModelDescription]:
    """Running statistics that are not their defaults, so that losing them would show."""
    statistics = ChannelStatistics((0.4,) * shape[0], (0.21,) * shape[0])
    description = ModelDescription(ModelConfig(name), shape, NAMES, statistics, 1.7)
    network = description.build(seed=3)
    generator = torch.Generator().manual_seed(0)
    for buffer in network.buffers():
        if buffer.is_floating_point():
            buffer.copy_(torch.rand(buffer.shape, generator=generator) + 0.5)
    with torch.no_grad():
        network.head.weight.mul_(20)
    return network.eval(), description


def expected(network: Network, description: ModelDescription, images: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return (network(normalized(images, description.statistics)) / description.temperature).softmax(1)


def some_images(n: int, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(n).integers(0, 256, size=(n, *shape), dtype=np.uint8))


@pytest.mark.parametrize(("name", "shape"), [("small-cnn", (1, 8, 10)), ("13-cnn", (3, 16, 16))])
def test_a_torch_export_agrees_for_any_number_of_pictures(tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    network, description = untrained(name, *shape)
    assert export_model(network, description, tmp_path / "model.pt2", form="torch-export") < 1e-5
    extra = {METADATA: ""}
    program = torch.export.load(tmp_path / "model.pt2", extra_files=extra)
    for n in (1, 3, 9):
        images = some_images(n, shape)
        found = program.module()(images)
        assert float(expected(network, description, images).std()) > 0.01
        torch.testing.assert_close(found, expected(network, description, images), atol=1e-5, rtol=0)
    known = json.loads(extra[METADATA])
    assert tuple(known["class_names"]) == NAMES
    assert tuple(known["input_shape"]) == shape


@pytest.mark.skipif(not HAS_ONNX, reason="needs the extra `export`")
@pytest.mark.filterwarnings("ignore")  # the exporter's own
def test_an_onnx_file_agrees_in_onnx_runtime(tmp_path: Path) -> None:
    import onnxruntime

    network, description = untrained("small-cnn", 3, 12, 16)
    assert export_model(network, description, tmp_path / "model.onnx", form="onnx") < 1e-5
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    for n in (1, 3, 9):
        images = some_images(n, description.input_shape)
        (found,) = session.run(None, {"images": images.numpy()})
        np.testing.assert_allclose(found, expected(network, description, images), atol=1e-5)
    known = session.get_modelmeta().custom_metadata_map
    assert tuple(json.loads(known["class_names"])) == NAMES


def test_an_export_that_disagrees_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network, description = untrained("small-cnn", 1, 8, 8)
    monkeypatch.setattr(module, "load_torch_export", lambda _: lambda images: torch.full((len(images), 3), 0.2))
    with pytest.raises(RunError, match="nothing was written"):
        export_model(network, description, tmp_path / "model.pt2", form="torch-export")
    assert list(tmp_path.iterdir()) == []


def test_without_the_packages_onnx_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NEEDED_FOR_ONNX", ("no_such_package",))
    with pytest.raises(InputError, match=r"needs the extra `export`"):
        export_model(*untrained("small-cnn", 1, 8, 8), tmp_path / "model.onnx", form="onnx")


def test_only_networks_for_pictures_are_exported(tmp_path: Path) -> None:
    description = ModelDescription(ModelConfig("mlp"), (2,), ("a", "b"), None)
    with pytest.raises(InputError, match="reads vectors"):
        export_model(description.build(), description, tmp_path / "model.pt2", form="torch-export")


def test_pictures_for_which_there_is_no_memory_are_refused_at_once(tmp_path: Path) -> None:
    network, description = untrained("small-cnn", 3, 100_000, 100_000)
    with pytest.raises(
        InputError, match=r"pictures of 3×100000×100000: .* GiB of memory, .* train with smaller pictures"
    ):
        export_model(network, description, tmp_path / "model.pt2", form="torch-export")
    assert list(tmp_path.iterdir()) == []


def test_large_pictures_are_asked_about_once() -> None:
    assert module.checked_batches((3, 256, 256)) == (1, 5)
    assert module.checked_batches((3, 4096, 4096)) == (1,)


def test_the_exporters_stay_quiet_also_where_one_calls_another() -> None:
    with quiet():
        with quiet():
            pass
        assert not logging.getLogger("torch.onnx").isEnabledFor(logging.WARNING)
    assert logging.getLogger("torch.onnx").isEnabledFor(logging.WARNING)
