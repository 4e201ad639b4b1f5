"""Pictures from outside reach a network as Pillow would bring them, and its answers are its own probabilities."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from laplacenet.augment import normalized
from laplacenet.data import ChannelStatistics, Skipped
from laplacenet.labeling import predictions as module
from laplacenet.labeling.predictions import Prediction, named_predictions, predictions, sources_of
from laplacenet.models import ModelConfig, ModelDescription
from laplacenet.runtime import InputError


def describes(channels: int, height: int, width: int, *, temperature: float = 1.0) -> ModelDescription:
    statistics = ChannelStatistics((0.5,) * channels, (0.25,) * channels)
    return ModelDescription(
        ModelConfig("small-cnn"), (channels, height, width), ("cat", "dog", "owl"), statistics, temperature
    )


def found(description: ModelDescription, *paths: Path) -> list[Prediction]:
    network = description.build(seed=1).eval()
    entries = list(predictions(network, description, sources_of(paths)))
    return [entry for entry in entries if isinstance(entry, Prediction)]


def expected(description: ModelDescription, pixels: np.ndarray) -> torch.Tensor:
    """The probabilities of one picture, h×w×c, the long way round."""
    images = torch.from_numpy(pixels.reshape(*pixels.shape[:2], -1)).permute(2, 0, 1)[None]
    with torch.no_grad():
        logits = description.build(seed=1).eval()(normalized(images, description.statistics))
    return (logits / description.temperature).softmax(1)[0]


@pytest.mark.parametrize(("height", "width"), [(16, 16), (12, 20)])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_a_picture_of_any_size_is_brought_to_the_networks(tmp_path: Path, height: int, width: int, mode: str) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, size=(40, 60, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "wide.png")
    fitted = ImageOps.fit(Image.fromarray(pixels), (width, height), method=Image.Resampling.BICUBIC).convert(mode)
    description = describes(len(mode), height, width, temperature=0.3)
    (one,) = found(description, tmp_path / "wide.png")
    scores = expected(description, np.array(fitted))
    assert one.name == str(tmp_path / "wide.png")
    assert one.label == description.class_names[int(scores.argmax())]
    assert one.confidence == pytest.approx(float(scores.max()), abs=1e-5)
    assert one.margin == pytest.approx(float(scores.max() - scores.sort().values[-2]), abs=1e-5)


def test_a_higher_temperature_makes_the_same_answer_less_sure(tmp_path: Path) -> None:
    Image.new("RGB", (9, 9), color=(250, 10, 60)).save(tmp_path / "a.png")
    (sharp,), (soft,) = (found(describes(3, 8, 8, temperature=t), tmp_path / "a.png") for t in (0.1, 10.0))
    assert sharp.label == soft.label
    assert sharp.confidence > soft.confidence > 1 / 3


def test_predictions_do_not_depend_on_how_many_pictures_are_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(5):
        Image.new("RGB", (9, 9), color=(50 * i, 255 - 50 * i, 100)).save(tmp_path / f"{i}.png")
    (tmp_path / "torn.jpg").write_bytes(b"no picture")
    description = describes(3, 8, 8)
    network = description.build(seed=1).eval()
    whole = list(predictions(network, description, sources_of([tmp_path])))
    monkeypatch.setattr(module, "BLOCK", 2)
    parts = list(predictions(network, description, sources_of([tmp_path])))
    skipped, again = ([entry for entry in entries if isinstance(entry, Skipped)] for entries in (whole, parts))
    assert skipped == again
    assert [entry.path for entry in skipped] == ["torn.jpg"]
    judged, judged_again = ([e for e in entries if isinstance(e, Prediction)] for entries in (whole, parts))
    assert [one.name for one in judged] == [f"{i}.png" for i in range(5)]
    for one, other in zip(judged, judged_again, strict=True):
        assert (one.name, one.label) == (other.name, other.label)
        assert one.confidence == pytest.approx(other.confidence, abs=1e-5)


def test_arrays_are_judged_row_by_row(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, size=(4, 8, 10), dtype=np.uint8)
    np.save(tmp_path / "images.npy", images)
    description = describes(1, 8, 10)
    judged = found(description, tmp_path / "images.npy")
    assert [one.name for one in judged] == [f"row {row}" for row in range(4)]
    for one, pixels in zip(judged, images, strict=True):
        assert one.confidence == pytest.approx(float(expected(description, pixels).max()), abs=1e-5)


def test_what_does_not_fit_is_refused_before_anything_is_judged(tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", np.zeros((3, 7), dtype=np.float32))
    with pytest.raises(InputError, match="holds vectors; this network reads pictures"):
        found(describes(1, 8, 8), tmp_path / "vectors.npy")
    with pytest.raises(InputError, match="no such file or folder"):
        sources_of([tmp_path, tmp_path / "nowhere.png"][1:])
    vectors = ModelDescription(ModelConfig("mlp"), (2,), ("a", "b"), None)
    with pytest.raises(InputError, match="reads vectors"):
        found(vectors, tmp_path / "vectors.npy")


def test_with_one_class_the_margin_is_the_confidence() -> None:
    (one,) = named_predictions(["x"], torch.ones(1, 1), ["only"])
    assert (one.label, one.confidence, one.margin) == ("only", 1.0, 1.0)
