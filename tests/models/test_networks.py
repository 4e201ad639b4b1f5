"""The networks: their sizes, their shapes, and that the fused normalization is torch's own."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from laplacenet.models import MODELS, Inference, ModelConfig, build_model, require_fit
from laplacenet.models.norm import NormActivation
from laplacenet.runtime import InputError

IMAGE_MODELS = [name for name in MODELS if name != "mlp"]


def n_parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("wrn-28-2", 1_467_610),
        ("wrn-28-8", 23_354_842),
        ("13-cnn", 3_121_802),
        ("resnet-18", 11_181_642),
        ("resnet-50", 23_528_522),
    ],
)
def test_parameter_counts_are_the_published_architectures(name: str, expected: int) -> None:
    assert n_parameters(build_model(name, n_classes=10)) == expected


@pytest.mark.parametrize("name", IMAGE_MODELS)
@pytest.mark.parametrize(("channels", "side"), [(3, 32), (1, 28)])
def test_forward_is_the_head_of_the_embedding(name: str, channels: int, side: int) -> None:
    network = build_model(name, n_classes=7, in_channels=channels).eval()
    x = torch.randn(2, channels, side, side)
    with torch.no_grad():
        z = network.embed(x)
        assert z.shape == (2, network.embedding_size)
        assert torch.equal(network(x), network.head(z))
        assert network(x).shape == (2, 7)


def test_the_13_cnn_embeds_on_the_unit_sphere() -> None:
    z = build_model("13-cnn", n_classes=10).embed(torch.randn(3, 3, 32, 32))
    assert torch.allclose(z.norm(dim=1), torch.ones(3))


def test_the_small_network_reads_eight_pixels() -> None:
    assert build_model("small-cnn", n_classes=10, in_channels=1)(torch.randn(2, 1, 8, 8)).shape == (2, 10)


@pytest.mark.parametrize(("name", "least"), [("small-cnn", 2), ("patch-cnn", 8), ("13-cnn", 12)])
def test_the_least_side_of_a_picture_is_the_one_that_is_said(name: str, least: int) -> None:
    network = build_model(name, n_classes=3)
    require_fit(network, torch.zeros(1, 3, least, least), name=name)
    with pytest.raises(InputError, match=rf"{name} \(from {least} px\)"):
        require_fit(network, torch.zeros(1, 3, least - 1, least - 1), name=name)


@pytest.mark.parametrize("name", ["wrn-28-2", "resnet-18", "lite0"])
def test_the_other_networks_read_pictures_of_any_size(name: str) -> None:
    require_fit(build_model(name, n_classes=3), torch.zeros(1, 3, 1, 1), name=name)


def test_the_mlp_reads_vectors_of_any_length() -> None:
    assert build_model("mlp", n_classes=2, in_channels=2)(torch.randn(5, 2)).shape == (5, 2)


def test_no_network_drops_out() -> None:
    for name in MODELS:
        assert not any(isinstance(module, nn.Dropout) for module in build_model(name, n_classes=3).modules())


def test_the_same_seed_builds_the_same_network_and_disturbs_no_other_randomness() -> None:
    torch.manual_seed(5)
    before = torch.rand(3)
    torch.manual_seed(5)
    first, second, other = (build_model("small-cnn", n_classes=10, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(3), before)
    for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(first.head.weight, other.head.weight)
    assert not torch.equal(first.body[0].weight, other.body[0].weight)


def test_weight_norm_reparametrizes_every_convolution() -> None:
    plain, normed = (build_model("13-cnn", n_classes=10, weight_norm=on) for on in (False, True))
    n_filters = sum(module.out_channels for module in plain.modules() if isinstance(module, nn.Conv2d))
    assert n_parameters(normed) == n_parameters(plain) + n_filters
    x = torch.randn(2, 3, 32, 32)
    assert torch.allclose(plain.eval()(x), normed.eval()(x), atol=1e-5)


def test_an_unknown_model_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="unknown model '13cnn'; choose one of 13-cnn, wrn-28-2"):
        build_model("13cnn", n_classes=10)
    with pytest.raises(InputError, match="unknown model"):
        ModelConfig("vgg")


@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize("slope", [0.0, 0.1])
def test_norm_activation_is_batch_norm_then_leaky_relu_then_pooling(slope: float, pool: bool) -> None:
    x = torch.randn(4, 8, 6, 6) * 3 + 1
    layer = NormActivation(8, slope=slope, pool=pool)
    expected = functional.leaky_relu(nn.BatchNorm2d(8)(x), slope)
    assert torch.equal(layer(x), functional.max_pool2d(expected, 2) if pool else expected)


def test_inference_leaves_the_network_as_it_was_and_does_not_depend_on_the_batch() -> None:
    network = build_model("small-cnn", n_classes=10, in_channels=1).train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    images = torch.randn(260, 1, 8, 8)
    inference = Inference(network, lambda inputs: inputs)
    all_at_once = inference.logits(images)
    assert network.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert torch.allclose(inference.logits(images[7:9]), all_at_once[7:9], atol=1e-5)
