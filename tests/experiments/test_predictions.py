"""Pictures from outside reach a network as Pillow would bring them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from laplacenet.data import ChannelStatistics, Skipped
from laplacenet.experiments import predictions as module
from laplacenet.experiments.predictions import grey, predictions, read_or_skip
from laplacenet.models import ModelConfig, ModelDescription
from laplacenet.runtime import InputError


def describes(channels: int, side: int) -> ModelDescription:
    statistics = ChannelStatistics((0.5,) * channels, (0.25,) * channels)
    return ModelDescription(ModelConfig("small-cnn"), (channels, side, side), ("cat", "dog"), statistics)


def test_a_color_picture_before_a_grey_network_becomes_pillows_grey() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, size=(16, 16, 3), dtype=np.uint8)
    expected = np.asarray(Image.fromarray(pixels).convert("L"))
    assert np.array_equal(grey(torch.from_numpy(pixels).permute(2, 0, 1))[0].numpy(), expected)


def test_a_picture_of_any_size_is_brought_to_the_networks(tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, size=(40, 60, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "wide.png")
    name, image = read_or_skip(tmp_path / "wide.png", (3, 16, 16))
    expected = ImageOps.fit(Image.fromarray(pixels), (16, 16), method=Image.Resampling.BICUBIC)
    assert name == str(tmp_path / "wide.png")
    assert np.array_equal(image.permute(1, 2, 0).numpy(), np.asarray(expected))


def test_predictions_do_not_depend_on_how_many_pictures_are_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(5):
        Image.new("RGB", (9, 9), color=(50 * i, 255 - 50 * i, 100)).save(tmp_path / f"{i}.png")
    (tmp_path / "torn.jpg").write_bytes(b"no picture")
    description = describes(3, 8)
    network = description.build(seed=1).eval()
    whole = list(predictions(network, description, [tmp_path]))
    monkeypatch.setattr(module, "BLOCK", 2)
    parts = list(predictions(network, description, [tmp_path]))
    assert [entry for entry in whole if isinstance(entry, Skipped)] == [
        entry for entry in parts if isinstance(entry, Skipped)
    ]
    found, again = ([entry for entry in entries if not isinstance(entry, Skipped)] for entries in (whole, parts))
    assert len(found) == 5
    for one, other in zip(found, again, strict=True):
        assert (one.name, one.label) == (other.name, other.label)
        assert one.confidence == pytest.approx(other.confidence, abs=1e-5)


def test_a_network_for_vectors_is_not_shown_pictures(tmp_path: Path) -> None:
    description = ModelDescription(ModelConfig("mlp"), (2,), ("a", "b"), None)
    with pytest.raises(InputError, match="reads vectors"):
        list(predictions(description.build(), description, [tmp_path]))


def test_a_network_for_oblong_images_takes_arrays_only(tmp_path: Path) -> None:
    Image.new("L", (8, 8)).save(tmp_path / "a.png")
    with pytest.raises(InputError, match=r"16×8; only \.npz arrays"):
        read_or_skip(tmp_path / "a.png", (1, 8, 16))
